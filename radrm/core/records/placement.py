"""Placements, reservations and refusals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from radrm.core.records.devices import LOCAL_NODE
from radrm.core.records.time import Instant
from radrm.core.words import Collocation, ReservationKind, Unit
from radrm.structs import Stored


class Share(Stored):
    """One task's part of one device. `device` is None for a task without a GPU.

    `sm_fraction` (0..1] and `cpus` are caps; None: no cap. Processes get their SM fraction when
    they start, so that of an attempt never changes (`Job.sm_fraction` is for the next one).
    `cpu_weight` (0.01..100) says how much CPU time the task gets beside others while all want more;
    None: 1. `cpus`, `cpu_weight` and `memory_mib` (of the host) belong to the whole task, so all
    shares of a task have the same.
    """

    device: str | None
    reserved_mib: int = 0
    node: str = LOCAL_NODE
    role: str = "main"
    task: int = 0
    sm_fraction: float | None = None
    cpus: float | None = None
    memory_mib: int | None = None
    cpu_weight: float | None = None

    @property
    def of_cpu(self) -> tuple[str | None, str, int, float | None, float | None]:
        """Its part of the CPUs, and whose it is."""
        return self.device, self.role, self.task, self.cpus, self.cpu_weight


TaskId: TypeAlias = tuple[str, int]
"""A task's role and number."""


def by_task(shares: Iterable[Share]) -> dict[TaskId, list[Share]]:
    """Return the shares of each task, in their order."""
    found: dict[TaskId, list[Share]] = {}
    for share in shares:
        found.setdefault((share.role, share.task), []).append(share)
    return found


class Placement(Stored):
    """All shares of one attempt, in one collocation mode. It gets all of them or none."""

    shares: tuple[Share, ...]
    collocation: Collocation

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices in the order of their shares, each once."""
        return tuple({s.device: None for s in self.shares if s.device is not None})

    def reserved(self) -> dict[str, int | None]:
        """Return the MiB reserved on each device; None: the whole device."""
        totals: dict[str, int | None] = {}
        for share in self.shares:
            if share.device is not None:
                so_far = (totals.get(share.device) or 0) + share.reserved_mib
                totals[share.device] = None if self.collocation.whole_device else so_far
        return totals

    @property
    def sm_fraction(self) -> float | None:
        """The smallest SM fraction of its shares; None if no share has one."""
        return min((s.sm_fraction for s in self.shares if s.sm_fraction is not None), default=None)

    def tasks(self) -> dict[str, int]:
        """Return the number of tasks of each role."""
        seen: dict[str, set[int]] = {}
        for share in self.shares:
            seen.setdefault(share.role, set()).add(share.task)
        return {role: len(tasks) for role, tasks in seen.items()}


ReservationKey: TypeAlias = tuple[str, ReservationKind, str]
"""Owner, kind and device. An owner has at most one reservation of each kind on a device."""


class Reservation(Stored):
    """Memory of a device reserved for an owner; `mib` None: the whole device.

    A job has one of kind RUNNING for each device of its live attempt. RUNNING and MIGRATION count
    until they are removed, whatever their times. The other kinds belong to the planner that made
    them (`planner`), and count from `since` until `until`, which they always have.
    """

    owner: str
    kind: ReservationKind
    device: str
    mib: int | None
    since: Instant
    until: Instant | None = None
    job_id: int | None = None
    planner: str | None = None

    @property
    def key(self) -> ReservationKey:
        """Its owner, kind and device."""
        return self.owner, self.kind, self.device


class Refusal(Stored):
    """Why a placement is impossible now: the first rule that said no, with both numbers.

    `message` is a clause, without a capital and a full stop: the log and other messages quote it,
    and the views make sentences of it.
    """

    rule: str
    message: str
    device: str | None = None
    needed: float | None = None
    available: float | None = None
    planner: str | None = None
    """The planner that gives this reason, unless it is the one that starts jobs; whose proposal it
    refuses."""
    unit: Unit | None = None
    """That of both numbers, if it is not the usual one of the rule."""
    within_s: float | None = None
    """A job with a shorter time limit than this would not be refused by it; None: any would."""

    @property
    def timely(self) -> bool:
        """Whether it refuses, for a moment, a proposal that was right a moment before."""
        return self.rule in ("stale", "pause", "pace", "pending", "moving")

    @property
    def measured_in(self) -> Unit | None:
        """The unit of both numbers. None: there are none, or a third party's rule has no unit."""
        if self.needed is None and self.available is None:
            return None
        return self.unit or USUAL_UNITS.get(self.rule)


USUAL_UNITS = {
    **dict.fromkeys(
        ("memory", "capacity", "reservation", "availability", "unmanaged"),
        Unit.MIB,
    ),
    **dict.fromkeys(("backfill", "cost", "interval", "reserved"), Unit.SECONDS),
    **dict.fromkeys(("count", "idle", "limits.gpus", "service"), Unit.GPUS),
    **dict.fromkeys(("gpuless", "jobs", "limits.running_jobs"), Unit.JOBS),
    **dict.fromkeys(("gain", "shares", "sm-share"), Unit.FRACTION),
    **dict.fromkeys(("demand", "smact"), Unit.SM_ACTIVITY),
    "cpus": Unit.CPUS,
    "slowdown": Unit.TIMES,
}
"""The unit of a refusal's numbers by its rule. Where a rule has another, the refusal says so."""
