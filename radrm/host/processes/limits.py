"""Limit the CPUs and the host memory of one attempt, with control groups, and weigh its CPUs.

Theory of operation. In version 2 the attempt's one group has all limits; in version 1 each
controller has a group of its own. The launch record names the groups before they are made, so
that every later daemon finds, changes and removes them. Only a group of that name is ever
written to. The runner makes them, and moves the job in before its first instruction. The runner
itself stays outside: the job's limit neither counts nor kills it. The kernel keeps the limits
while no daemon runs.

A limit of memory may grow while the job runs, up to `memory_most_mib`. In version 2 such a job is
held back (`memory.high`) at `GROWS_AT` of its limit, so that the limit can grow before the kernel
kills. A limit is lowered only if the job holds clearly less.

A limit that cannot be set is no reason not to run the job: the amount is booked, and the reason
is told. The runner imports this file before it starts a job, so it imports only what Python has
loaded anyway.

Source of the file formats: the kernel's admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst and
scheduler/sched-bwc.rst.
"""

from __future__ import annotations

import os

from radrm.host.processes import cgroups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PERIOD_US = 100_000
"""Microseconds in which a group may use its quota of CPU time: the kernel's own default."""
_LEAST_QUOTA_US = 1_000
"""The kernel takes no smaller quota."""
_SHARES, _WEIGHT = 1024, 100
"""The weight 1 of `cpu.shares` (version 1) and `cpu.weight` (version 2): the kernel's defaults."""
GROWS_AT = 0.9
"""The part of its limit of memory at which a job whose limit may grow is held back."""
_SLACK = 1 << 20
"""Bytes below its limit at which a group may be when the kernel finds no memory for it."""
_MOST_ROUNDS = 20
"""Looks at a tree of processes that is moved into a group while it forks."""


class Limits:
    """The groups of one attempt, and what it may use.

    `cpu` and `memory` are the paths of the groups with these limits, None where there can be
    none. `cpus` and `memory_mib` None: no limit; `memory_most_mib`: the limit may grow up to this,
    None: it may not. `cpu_weight` None: the weight 1. `account` is a
    group of version 1 that counts CPU time, where that is wanted: then all groups are made. In
    version 2 every group counts it.
    """

    __slots__ = (
        "account",
        "cpu",
        "cpu_weight",
        "cpus",
        "memory",
        "memory_mib",
        "memory_most_mib",
    )

    def __init__(
        self,
        cpu: str | None = None,
        memory: str | None = None,
        cpus: float | None = None,
        memory_mib: int | None = None,
        cpu_weight: float | None = None,
        account: str | None = None,
        memory_most_mib: int | None = None,
    ) -> None:
        self.account = account
        self.cpu = cpu
        self.cpu_weight = cpu_weight
        self.memory = memory
        self.cpus = cpus
        self.memory_mib = memory_mib
        self.memory_most_mib = memory_most_mib

    @classmethod
    def of(cls, record: dict[str, Any] | None, serial: int | str) -> Limits:
        """The limits in a launch record. What radrm would not have written there is left out."""
        found = (record or {}).get("limits")
        if not isinstance(found, dict):
            return cls()
        paths = [found.get(key) for key in ("cpu", "memory", "account")]
        own = [p if isinstance(p, str) and is_of(p, serial) else None for p in paths]
        amounts = (_amount(found.get(key)) for key in ("memory_mib", "memory_most_mib"))
        mib, most = (None if amount is None else int(amount) for amount in amounts)
        cpus, weight = _amount(found.get("cpus")), _amount(found.get("cpu_weight"))
        return cls(own[0], own[1], cpus, mib, weight, own[2], most)

    def as_fields(self) -> dict[str, Any]:
        """What a launch record holds."""
        return {name: getattr(self, name) for name in self.__slots__}

    def wanted(self) -> list[str]:
        """The groups that the attempt needs from its start."""
        if self.account is not None:
            return self.groups
        of_cpu = self.cpu_weight if self.cpus is None else self.cpus
        both = (self.cpu, of_cpu), (self.memory, self.memory_mib)
        found = [path for path, amount in both if path is not None and amount is not None]
        return list(dict.fromkeys(found))

    @property
    def groups(self) -> list[str]:
        """The groups that the attempt may have."""
        places = (self.cpu, self.memory, self.account)
        return list(dict.fromkeys(path for path in places if path is not None))

    def enclose(self, pid: int, inside: str | None) -> str | None:
        """Move a process that has not begun into the groups with its limits, unless it is there
        (`inside`); return what could not be limited, or None."""
        why = None
        for group in self.wanted():
            if group != inside and not cgroups.join(group, pid):
                why = why or f"the job cannot be moved into the control group {group}"
        return why

    def apply(self) -> str | None:
        """Make the groups and set the limits; return what could not be set, or None."""
        for path in self.wanted():
            if not (os.path.isdir(path) or cgroups.make(path)):
                return f"the control group {path} cannot be made"
        if self.cpu is not None and self.cpus is not None and not set_cpus(self.cpu, self.cpus):
            return f"the control group {self.cpu} takes no limit of {self.cpus:g} CPUs"
        weight = self.cpu_weight
        if self.cpu is not None and weight is not None and not set_weight(self.cpu, weight):
            return f"the control group {self.cpu} takes no CPU weight of {weight:g}"
        memory, mib = self.memory, self.memory_mib
        most = self.memory_most_mib
        if memory is not None and mib is not None and not _set_memory(memory, mib, most):
            return f"the control group {memory} takes no limit of {mib} MiB"
        return None

    def exceeded_mib(self) -> int | None:
        """The host memory limit at which the kernel killed processes; None if it killed none."""
        if self.memory is None or self.memory_mib is None:
            return None
        present = _limit_bytes(self.memory) >> 20  # it may have grown
        return (present or self.memory_mib) if _was_exceeded(self.memory) else None


def is_of(path: str, serial: int | str) -> bool:
    """True for the path of a group of this attempt."""
    return "\0" not in path and path.rpartition("/")[2].startswith(f"radrm-{serial}-")


def set_cpus(group: str, cpus: float | None) -> bool:
    """Let the group use so many CPUs' time; None: as much as there is."""
    quota = None if cpus is None else max(_LEAST_QUOTA_US, round(cpus * PERIOD_US))
    if os.path.exists(os.path.join(group, "cpu.max")):
        return cgroups.limit(group, "cpu.max", f"{'max' if quota is None else quota} {PERIOD_US}")
    return cgroups.limit(group, "cpu.cfs_period_us", PERIOD_US) and cgroups.limit(
        group, "cpu.cfs_quota_us", -1 if quota is None else quota
    )


def set_weight(group: str, weight: float | None) -> bool:
    """Give the group this weight when CPUs are short (0.01..100); None: 1, as any other group."""
    weight = 1.0 if weight is None else weight
    if os.path.exists(os.path.join(group, "cpu.weight")):
        return cgroups.limit(group, "cpu.weight", min(10_000, max(1, round(weight * _WEIGHT))))
    return cgroups.limit(group, "cpu.shares", max(2, round(weight * _SHARES)))


def gather(group: str, processes: Callable[[], set[int]]) -> bool:
    """Move a running tree of processes into the group; False while some of it is outside.

    What a process outside forks is outside, so this looks until a look finds nothing new.
    """
    for _ in range(_MOST_ROUNDS):
        left = processes() - cgroups.processes(group)
        if not left:
            return True
        for pid in left:
            cgroups.join(group, pid)  # it may have ended meanwhile
    return False


def change_memory(group: str, mib: int, most_mib: int | None = None) -> bool:
    """Change the limit of memory of a running job. False: it has another limit than this.

    It is not lowered to less than the job nearly uses: the kernel would kill its processes.
    """
    used = _number(group, "memory.current") or _number(group, "memory.usage_in_bytes")
    if mib << 20 < _limit_bytes(group) and used > GROWS_AT * (mib << 20):
        return False
    return _set_memory(group, mib, most_mib)


def _set_memory(group: str, mib: int, most_mib: int | None) -> bool:
    """Limit memory, and swap with it: a job at its limit must not slow down the server."""
    limit = mib << 20
    if os.path.exists(os.path.join(group, "memory.max")):
        cgroups.limit(group, "memory.swap.max", 0)  # not there without swap
        done = cgroups.limit(group, "memory.max", limit)
        grows = most_mib is not None and mib < most_mib
        cgroups.limit(group, "memory.high", int(GROWS_AT * limit) if grows else "max")
        return done
    # The limit with swap is never the lower one: to raise both, it comes first.
    cgroups.limit(group, "memory.memsw.limit_in_bytes", limit)
    done = cgroups.limit(group, "memory.limit_in_bytes", limit)
    cgroups.limit(group, "memory.memsw.limit_in_bytes", limit)
    return done


def _limit_bytes(group: str) -> int:
    """The limit of memory of a group as it is now; 0: none."""
    return _number(group, "memory.max") or _number(group, "memory.limit_in_bytes")


def _was_exceeded(group: str) -> bool:
    """Whether the kernel killed a process because this group had reached its own limit.

    The counter of kills also counts kills for other reasons, such as a server without memory.
    The job may have made groups below: version 1 counts kills for each group alone.
    """
    if os.path.exists(os.path.join(group, "memory.max")):
        reached = cgroups.counts(group, "memory.events.local") or cgroups.counts(
            group, "memory.events"
        )
        return bool(reached.get("oom") and cgroups.counts(group, "memory.events").get("oom_kill"))
    # The counter of failures, memory.failcnt, stays 0 where the limit of swap is as low.
    most, limit = (_number(group, f"memory.{name}_in_bytes") for name in ("max_usage", "limit"))
    if most + _SLACK < limit:
        return False
    killed = (cgroups.counts(each, "memory.oom_control") for each in cgroups.below(group))
    return any(each.get("oom_kill") for each in killed)


def _number(group: str, name: str) -> int:
    """The number in a file; 0 if there is none."""
    try:
        with open(os.path.join(group, name)) as file:
            return int(file.read())
    except (OSError, ValueError):
        return 0


def _amount(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if 0 < value < 2**40 else None
