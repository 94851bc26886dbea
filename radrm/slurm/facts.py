"""What Slurm says of its configuration, a partition and nodes.

`scontrol` is the only source. The fields are those of Slurm 22.05.8.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from radrm.errors import Refused
from radrm.slurm.asking import record

ASK_S = 30.0
"""Real seconds for a question to Slurm; its commands try for some time to reach slurmctld."""
_NONE = ("(null)", "N/A", "NONE", "none", "")
_SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_COUNT = re.compile(r"(\d{1,15})([KMGTP]?)", re.ASCII)

Ask = Callable[..., str]
"""`programs.run`, or a function like it."""


class Node(Struct, frozen=True):
    """A node as slurmctld knows it."""

    name: str
    host: str
    """The name of the server, as Slurm compares it with the host's."""
    gres: Mapping[str, int]
    """How many it has of each generic resource, by name; types are added up."""
    partitions: tuple[str, ...]


class Partition(Struct, frozen=True):
    """A partition as slurmctld knows it."""

    name: str
    fields: Mapping[str, str]

    @property
    def nodes(self) -> str:
        """The names of its nodes as Slurm writes them, as in `g[1-3]`; empty: it has none."""
        return value(self.fields, "Nodes")


def value(fields: Mapping[str, str], key: str) -> str:
    """Return a field's value; nothing where Slurm has none."""
    found = fields.get(key, "")
    return "" if found in _NONE else found


def config_of(ask: Ask) -> dict[str, str]:
    """Return the fields of `scontrol show config`. Raises `Refused`."""
    fields = fields_of(ask("scontrol", "show", "config", timeout_s=ASK_S).splitlines())
    if not fields.get("SLURM_VERSION"):
        raise Refused("scontrol show config names no version of Slurm")
    return fields


def fields_of(lines: Iterable[str]) -> dict[str, str]:
    """Return the fields of lines `KEY = VALUE`."""
    split = (line.partition("=") for line in lines)
    return {key.strip(): text.strip() for key, equals, text in split if equals}


def partition_of(ask: Ask, name: str) -> Partition:
    """Return a partition. Raises `Refused`, with Slurm's words if there is none."""
    return Partition(
        name, record(ask("scontrol", "-o", "show", "partition", name, timeout_s=ASK_S))
    )


def nodes_of(ask: Ask, names: str) -> list[Node]:
    """Return nodes; `names` as Slurm writes them. Raises `Refused`."""
    lines = ask("scontrol", "-o", "show", "node", names, timeout_s=ASK_S).splitlines()
    return [_node(fields) for fields in map(record, lines) if fields.get("NodeName")]


def _node(fields: Mapping[str, str]) -> Node:
    return Node(
        fields["NodeName"],
        value(fields, "NodeHostName"),
        gres_of(value(fields, "Gres")),
        tuple(filter(None, value(fields, "Partitions").strip().split(","))),
    )


def gres_of(text: str) -> dict[str, int]:
    """Return the counts of `gpumem:80K,gpu:a100:2(S:0-1)` by name. K is 1024.

    A resource without a count is one.
    """
    counts: dict[str, int] = {}
    for each in filter(None, re.sub(r"\([^)]*\)", "", text).split(",")):
        name, *rest = each.strip().split(":")
        found = _COUNT.fullmatch(rest[-1]) if rest else None
        number = 1 if found is None else int(found[1]) * _SUFFIXES[found[2]]
        counts[name] = counts.get(name, 0) + number
    return counts


def here(nodes: Iterable[Node], wanted: str, host: str) -> Node | None:
    """Return the node that this server is; None: it is none of them, or Slurm has several here.

    `wanted` is its name where that is known, `host` the name of this server.
    """
    if wanted:
        return next((node for node in nodes if node.name == wanted), None)
    short = host.partition(".")[0]
    found = [node for node in nodes if node.host.partition(".")[0] == short]
    return found[0] if len(found) == 1 else None
