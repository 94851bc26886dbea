"""Tell which attempt a process belongs to.

Theory of operation. Proof, in this order: the attempt's token in its environment (a secret), its
control group, its ancestry up to a runner, and for a container the token of the container's first
process. Anything that a process can write about itself (its name, a label,
a job id) proves nothing. Answers are kept by pid and start time. A process that was no job's is
asked about again after each update, since its attempt may be new. After a restart nothing is
known, and everything is asked anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import lru_cache

from radrm.host.processes import cgroups
from radrm.host.processes.identity import Identity
from radrm.host.processes.procfs import Stat, groups_of_process, is_of, read_stat, token_of

_Owner = tuple[int, int]
_Process = tuple[int, int]
"""Its pid, and when it started."""

MOST_REMEMBERED = 16384
"""Answers; of more, those about processes that have ended are forgotten."""
_MOST_ANCESTORS = 256
"""Looked at above one process: a chain of thousands is no job's but an attack."""


class LiveAttempt:
    """What marks the processes of an attempt that runs now. `uid` None: as the caller."""

    __slots__ = ("cgroup", "job_id", "runner", "serial", "token", "uid")

    def __init__(
        self,
        job_id: int,
        serial: int,
        token: str | None,
        runner: Identity | None,
        cgroup: str | None = None,
        uid: int | None = None,
    ) -> None:
        self.job_id = job_id
        self.serial = serial
        self.token = token
        self.runner = runner
        self.cgroup = cgroup
        self.uid = os.geteuid() if uid is None else uid

    @property
    def owner(self) -> _Owner:
        return self.job_id, self.serial


class PidOwners:
    """Says which attempt a process belongs to.

    `update` and `owner_of` may be called from different threads: an update puts a new
    view in the old one's place. `vouchers` names the processes whose token speaks for one
    that has no relation to any job: if it is in a container, itself and the first there.
    An environment is looked at once, and of processes of the jobs' users alone; in a
    container a job's process may be any user's.
    """

    def __init__(self, vouchers: Callable[[int], Iterable[int]] = lambda _: ()) -> None:
        self._vouchers = vouchers
        self._tokens = _Tokens()
        self._view = _View((), {}, vouchers, self._tokens)

    def update(self, attempts: Iterable[LiveAttempt]) -> None:
        """These attempts are alive now, and no others."""
        live = tuple(attempts)
        owners = {attempt.owner for attempt in live}
        # A process of no job may belong to an attempt that is new in this update.
        kept: dict[_Process, _Owner | None] = {
            key: owner for key, owner in self._view.cache.copy().items() if owner in owners
        }
        self._view = _View(live, kept, self._vouchers, self._tokens)

    def owner_of(self, pid: int) -> _Owner | None:
        """(job id, serial of the attempt), or None for a process that radrm did not start."""
        return self._view.owner_of(pid)

    def seen_of(self, owner: _Owner) -> list[int]:
        """The pids that were asked about, belong to this attempt, and exist."""
        cache = self._view.cache.copy()
        return [key[0] for key, found in cache.items() if found == owner and _is_there(key)]


class _Tokens:
    """The token of each process, looked for once in each program that it executes."""

    def __init__(self) -> None:
        self._known: dict[object, str | None] = {}

    def of(self, pid: int, stat: Stat) -> str | None:
        if stat.environ == (0, 0):
            return None
        key = pid, stat.start_ticks, stat.environ
        if key not in self._known:
            if len(self._known) >= MOST_REMEMBERED:
                self._known = {}
            self._known[key] = token_of(pid)
        return self._known.get(key)


class _View:
    """The live attempts of one moment, and the answers given since."""

    def __init__(
        self,
        attempts: tuple[LiveAttempt, ...],
        cache: dict[_Process, _Owner | None],
        vouchers: Callable[[int], Iterable[int]],
        tokens: _Tokens,
    ) -> None:
        self.cache = cache
        self._vouchers = vouchers
        self._tokens = tokens
        self._users = frozenset(a.uid for a in attempts)
        self._by_token = {a.token: a.owner for a in attempts if a.token is not None}
        self._by_group = {
            path: a.owner
            for a in attempts
            if a.cgroup is not None and (path := _path_of(a.cgroup)) is not None
        }
        roots = [(a.runner, a.owner) for a in attempts]
        self._by_root = {(r.pid, r.start_ticks): owner for r, owner in roots if r is not None}

    def owner_of(self, pid: int) -> _Owner | None:
        stat = read_stat(pid)
        if stat is None:
            return None
        key = pid, stat.start_ticks
        if key not in self.cache:
            if len(self.cache) >= MOST_REMEMBERED:
                self.cache = {k: owner for k, owner in self.cache.items() if _is_there(k)}
            self.cache[key] = (
                (self._by_its_token(pid) if is_of(pid, self._users) else None)
                or self._by_control_group(pid)
                or self._by_ancestry(pid, stat)
                or self._by_container(pid)
            )
        return self.cache.get(key)

    def _by_its_token(self, pid: int) -> _Owner | None:
        stat = read_stat(pid) if self._by_token else None
        token = self._tokens.of(pid, stat) if stat is not None else None
        return self._by_token.get(token) if token is not None else None

    def _by_container(self, pid: int) -> _Owner | None:
        if not self._by_token:
            return None
        return next(filter(None, map(self._by_its_token, self._vouchers(pid))), None)

    def _by_control_group(self, pid: int) -> _Owner | None:
        if not self._by_group:
            return None
        # The whole path: users can make groups of any name in places of their own.
        paths = [path.split("/") for _, _, path in groups_of_process(f"/proc/{pid}")]
        above = ("/".join(words[:end]) for words in paths for end in range(2, len(words) + 1))
        return next((self._by_group[path] for path in above if path in self._by_group), None)

    def _by_ancestry(self, pid: int, stat: Stat | None) -> _Owner | None:
        for _ in range(_MOST_ANCESTORS):
            if stat is None:
                break
            key = pid, stat.start_ticks
            owner = self._by_root.get(key) or self.cache.get(key)
            if owner is not None or pid <= 1:
                return owner
            pid = stat.parent
            stat = read_stat(pid)
        return None


def _path_of(group: str) -> str | None:
    """The path of a group as processes show it. Mounts of control groups stay as they are."""
    above, name = os.path.split(group)
    found = _path_above(above)
    return None if found is None else f"{found.rstrip('/')}/{name}"


_path_above = lru_cache(cgroups.path_in_proc)


def _is_there(process: _Process) -> bool:
    stat = read_stat(process[0])
    return stat is not None and stat.start_ticks == process[1]
