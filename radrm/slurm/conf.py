"""What a slurm.conf says that Slurm has not read yet: the merged file, before it is live.

It is read as Slurm reads it (slurm.conf(5)): keys in any case, `DEFAULT` lines, `Include`, lines
that go on after a backslash. Nothing here is an answer of Slurm's: `facts.py` has those.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from radrm.errors import Refused, UsageError
from radrm.slurm.facts import Node, Partition, gres_of
from radrm.slurm.hostlists import expanded

_MOST_READ = 16 << 20
_MOST_INCLUDED = 20
USUAL = "/etc/slurm/slurm.conf"
"""Without one, a machine has its configuration of slurmctld."""

Fields = dict[str, str]


def place_of(environ: dict[str, str] | os._Environ[str]) -> str:
    """Return the path of the slurm.conf of this machine, as Slurm's commands find it."""
    return environ.get("SLURM_CONF") or USUAL


class Merged(Struct, frozen=True):
    """What a file says: its settings by their names in `scontrol show config`, and its lines of
    nodes and partitions. `twice`: nodes that two lines name, with which Slurm does not start."""

    path: str
    settings: Fields
    nodes: dict[str, Fields]
    partitions: dict[str, Fields]
    twice: tuple[str, ...]

    def partition(self, name: str) -> Partition:
        """Return a partition. Raises `Refused`."""
        if name not in self.partitions:
            raise Refused(f"{self.path} has no PartitionName={name}")
        return Partition(name, self.partitions[name])

    def members(self, partition: Partition) -> list[Node]:
        """Return the nodes of a partition. Raises `Refused` for a name that no line has."""
        found = self._named(partition.fields.get("Nodes", ""))
        of = {name: self._named(each.get("Nodes", "")) for name, each in self.partitions.items()}
        return [
            Node(
                name,
                self.nodes[name].get("NodeHostName", name),
                gres_of(self.nodes[name].get("Gres", "")),
                tuple(other for other, names in of.items() if name in names),
            )
            for name in found
        ]

    def _named(self, text: str) -> list[str]:
        if text == "ALL":
            return list(self.nodes)
        names = expanded(text)
        unknown = next((name for name in names if name not in self.nodes), None)
        if unknown is not None:
            raise Refused(f"{self.path} has no NodeName={unknown}, which a partition names")
        return names


_KEYS = {
    key.lower(): key
    for key in (
        *("NodeName", "NodeHostName", "Gres", "PartitionName", "Nodes", "OverSubscribe", "State"),
        *("DefMemPerCPU", "DefMemPerNode", "SelectTypeParameters", "GresTypes", "ProctrackType"),
        *("JobSubmitPlugins", "HealthCheckProgram", "AccountingStorageType", "ClusterName"),
        *("AccountingStorageTRES", "MinJobAge", "Include"),
    )
}
"""The keys that are looked at, as Slurm's commands write them."""


def merged(path: str) -> Merged:
    """Return what a slurm.conf says. Raises `Refused` if it cannot be read."""
    settings: Fields = {"SLURM_CONF": path}
    nodes: dict[str, Fields] = {}
    partitions: dict[str, Fields] = {}
    named: Counter[str] = Counter()
    usual: dict[str, Fields] = {"NodeName": {}, "PartitionName": {"State": "UP"}}
    for fields in _lines(path, [_MOST_INCLUDED]):
        first = next(iter(fields), "")
        if first not in usual:
            settings |= fields
        elif fields[first] == "DEFAULT":
            usual[first] |= fields
        else:
            whole = {**usual[first], **fields}
            try:
                names = expanded(fields[first])
            except UsageError as error:
                raise Refused(f"{path}: {first}={fields[first][:60]}: {error}") from None
            for name in names:
                known = nodes if first == "NodeName" else partitions
                known[name] = {**whole, first: name}
                named[name] += first == "NodeName"
    twice = tuple(name for name, lines in named.items() if lines > 1)
    return Merged(path, settings, nodes, partitions, twice)


def _lines(path: str, left: list[int]) -> Iterator[Fields]:
    """Yield the pairs of each line, those of included files in their place."""
    left[0] -= 1
    if left[0] < 0:
        raise Refused(f"{path}: more than {_MOST_INCLUDED} files are included")
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            text = file.read(_MOST_READ)
    except OSError as error:
        raise Refused(f"{path} cannot be read here: {error.strerror}") from None
    for line in text.replace("\\\n", " ").splitlines():
        line = line.partition("#")[0].strip()
        if line.lower().startswith("include "):
            other = os.path.join(os.path.dirname(path), line.split(None, 1)[1].strip())
            yield from _lines(other, left)
        elif line:
            yield _pairs(line, path)


def _pairs(line: str, path: str) -> Fields:
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise Refused(f"{path}: {line[:60]!r}: {error}") from None
    split = (word.partition("=") for word in words)
    return {_KEYS.get(key.lower(), key): value for key, equals, value in split if equals}
