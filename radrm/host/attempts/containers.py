"""Tell which container a process is in, and whether an attempt started that container.

Theory of operation. A container's processes are children of its engine, not of the job that
asked for them. The attempt's token in the environment of the container's first process ties the
container to the attempt: the token is a secret, so no other user can set it. What any user
could write proves nothing: a label, RADRM_JOB_ID, a container's name or id.

A container is identified by the whole path of its control group. Its id alone is not enough:
every user can make a group of any name below their own, and so a process of theirs could seem
to be in another's container. The path cannot be imitated. docs/containers.md has the
consequences for users.
"""

from __future__ import annotations

import os
import re

from radrm.host.processes.procfs import read_stat, start_of, token_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_ID = "[0-9a-f]{64}"
_FORMS = (
    ("docker", re.compile(rf"docker-({_ID})\.scope")),  # systemd as its cgroup driver
    ("podman", re.compile(rf"libpod-({_ID})(?:\.scope)?")),  # not libpod-conmon-...: its keeper
    (None, re.compile(rf"(?:cri-containerd|crio)-({_ID})\.scope")),  # below kubepods
    (None, re.compile(r"((?:apptainer|singularity)-[0-9]+)\.scope")),
    (None, re.compile(f"({_ID})")),  # cgroupfs as the driver: the id, below any parent
)
_SIGN = re.compile(rb"[0-9a-f]{64}|/(?:apptainer|singularity)-")
"""A control group without it is no container: that holds for most processes."""
_MOST_REMEMBERED = 1024
_FEW = 50


class Container:
    """A container that runs. `engine`: the command to tell about it, None where none is
    known. `group`: the path of its control group, as /proc writes it. `first`: the pid of
    the oldest process in it. The engine ends a container when that one ends, so whatever was
    brought in later (`docker exec`) is younger, and vouches for itself alone."""

    __slots__ = ("engine", "first", "group", "id", "members")

    def __init__(self, engine: str | None, identifier: str, group: str) -> None:
        self.engine = engine
        self.id = identifier
        self.group = group
        self.first = 0
        self.members: dict[int, int] = {}
        """Start times, in ticks since boot, by pid; with those of containers inside it."""

    def __repr__(self) -> str:
        return f"Container({self.engine}, {self.id:.12}, {len(self.members)} processes)"


def groups_of(text: str) -> dict[str, tuple[str | None, str]]:
    """Engine and id by control group, the innermost container first.

    `text` is a /proc/PID/cgroup. Of several hierarchies the unified one (cgroup v2) is
    believed first; of the others, the first that names a container.
    """
    # Nothing else ends a line: a group's name may hold all other characters.
    lines = [line.split(":", 2) for line in text.split("\n")]
    lines = [line for line in lines if len(line) == 3]
    for hierarchy, controllers, path in sorted(lines, key=lambda line: line[0] != "0"):
        found = dict(_containers_in(f"{hierarchy}:{controllers}:", path))
        if found:
            return dict(reversed(found.items()))
    return {}


def _containers_in(hierarchy: str, path: str) -> Iterator[tuple[str, tuple[str | None, str]]]:
    parts = path.split("/")
    for depth, name in enumerate(parts):
        for engine, form in _FORMS:
            match = form.fullmatch(name)
            if match is not None:
                if engine is None and parts[depth - 1] == "docker":
                    engine = "docker"
                yield hierarchy + "/".join(parts[: depth + 1]), (engine, match[1])
                break


class Containers:
    """Looks for containers in `proc`, and remembers the first process of each."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._first: dict[str, tuple[int, int]] = {}

    def running(self) -> dict[str, Container]:
        """Every container of the machine that we can see, by its control group."""
        found: dict[str, Container] = {}
        for pid in self._pids():
            groups = self._groups(pid)
            stat = read_stat(pid, self._proc) if groups else None
            if stat is None or stat.dead:
                continue
            for group, (engine, identifier) in groups.items():
                container = found.setdefault(group, Container(engine, identifier, group))
                container.members[pid] = stat.start_ticks
        for container in found.values():
            container.first = min((ticks, pid) for pid, ticks in container.members.items())[1]
        return found

    def of_attempt(
        self, token: str, known: Collection[str] = (), above: int = 0
    ) -> list[Container]:
        """The running containers that the attempt with this token started, and those in the
        groups `known` to be such: their first process may be gone before the others.

        All processes that the attempt has started have pids above this. Where none of these is in
        a container, the others, most of a server's, need no look.
        """
        if above and not known and not any(map(self._groups, self._newer(above))):
            return []
        return [
            each
            for each in self.running().values()
            if each.group in known
            or (token_of(each.first, self._proc) == token and self._begins(each.first))
        ]

    def _newer(self, pid: int) -> list[int]:
        """The pids above this one; some may be free. The last that was given out is in `loadavg`:
        a list of all processes costs a short job more than a few looks in vain."""
        last = start_of(f"{self._proc}/loadavg").split()[-1:]
        if last and 0 <= int(last[0]) - pid <= _FEW:
            return list(range(pid + 1, int(last[0]) + 1))
        return [each for each in self._pids() if each > pid]

    def _pids(self) -> list[int]:
        return [int(name) for name in os.listdir(self._proc) if name.isdigit()]

    def vouchers(self, pid: int) -> list[int]:
        """The processes whose token counts for a process in a container: itself, and the first
        processes of its containers, the innermost first. None for a process in no container."""
        groups = self._groups(pid)
        if any(not self._remembered(group) for group in groups):
            if len(self._first) > _MOST_REMEMBERED:
                self._first = {}
            for group, container in self.running().items():
                self._first[group] = container.first, container.members[container.first]
        first = [self._first[group][0] for group in groups if group in self._first]
        return [pid, *(e for e in first if e != pid and self._begins(e))] if groups else []

    def _remembered(self, group: str) -> bool:
        if group not in self._first:
            return False
        pid, ticks = self._first[group]
        stat = read_stat(pid, self._proc)
        return stat is not None and not stat.dead and stat.start_ticks == ticks

    def _groups(self, pid: int) -> dict[str, tuple[str | None, str]]:
        text = start_of(f"{self._proc}/{pid}/cgroup")
        return groups_of(text.decode("utf-8", "replace")) if _SIGN.search(text) else {}

    def _begins(self, pid: int) -> bool:
        """Whether the oldest that we see can be the first that was: it is number 1 in a pid
        namespace of its container, where there is one. (The first may be hidden from us.)"""
        text = start_of(f"{self._proc}/{pid}/status")
        numbers = text.partition(b"\nNSpid:")[2].partition(b"\n")[0].split()
        return len(numbers) == 1 or numbers[-1:] == [b"1"]
