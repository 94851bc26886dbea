"""Orders: which waiting job is next? One class each, registered below."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from radrm.core.records import Instant, Job, Use, UserUse
from radrm.core.remaining import remaining
from radrm.core.rules import Order
from radrm.core.settings import fixed
from radrm.core.units import show_seconds
from radrm.core.words import Quantity
from radrm.deadlines import UTC, Zone

_SAME_S = 1e-6
"""Times closer than this are equal. It is more than what rounding of boot times can add up to."""


@dataclass(frozen=True, slots=True)
class Ageing(Order):
    """Sort jobs by `size`, and old jobs before all others by their submission.

    Ageing: small jobs first, but a job that has waited long enough goes before all younger ones.

    Theory of operation
    -------------------
    Small jobs first gives the least mean waiting time, but a large job could wait forever. So a job
    is *old* from `max_wait_s` after its submission (or requeue). Old jobs go before all others,
    the oldest first. This follows:
    - A job that comes more than `max_wait_s` after another one never goes before it.
    - Nothing that is younger goes before an old job.
    Both hold among the jobs of one queue and priority.
    """

    max_wait_s: float = 14_400.0
    """A job that has waited for this long goes before all younger ones. 0: as `fifo`.

    A site that agreed with its users how long a large job may be passed."""
    unknown_duration_s: float = fixed(3600.0)
    """The duration to assume for a job without a prediction of it. A job's time limit bounds
    both."""
    site_zone: Zone = UTC
    """The time zone of dates in messages. Not a setting."""
    first: ClassVar[str] = "shorter"
    """Which jobs go before others, for users."""

    def size(self, job: Job) -> float:
        """Return the size of a job: the smallest is next."""
        raise NotImplementedError

    def key(self, job: Job, now: Instant) -> tuple[float, ...]:
        old = self.is_old(job, now)
        return (0, 0.0, *job.place) if old else (1, self.size(job), *job.place)

    def changes_s(self, job: Job, now: Instant) -> float | None:
        left_s = self._left_s(job, now)
        return now.boot_s + left_s if left_s > _SAME_S else None

    def bound(self, job: Job, now: Instant) -> str | None:
        left_s = self._left_s(job, now)
        if left_s <= _SAME_S:
            wait = show_seconds(self.max_wait_s)
            return f"it has waited for max_wait_s ({wait}), so no younger job passes it"
        until = self.site_zone.clock(now.wall_s + left_s, now.wall_s)
        return f"{self.first} jobs may start first until {until}"

    def remaining_s(self, job: Job) -> float:
        """Return how long a job is expected to run from its last checkpoint."""
        # That of a waiting job does not depend on the moment.
        left = remaining(job, None, job.submitted, unknown_s=self.unknown_duration_s)
        return 0.0 if left is None else left.value_s

    def is_old(self, job: Job, now: Instant) -> bool:
        """Return whether a job has waited for `max_wait_s`."""
        return self._left_s(job, now) <= _SAME_S

    def _left_s(self, job: Job, now: Instant) -> float:
        """Return the seconds until a job is old."""
        start = job.submitted if job.requeued is None else job.requeued.at
        waited_s = now.since(start)
        if waited_s is None:  # a reboot lies between
            waited_s = now.wall_s - start.wall_s
        return self.max_wait_s - waited_s


@dataclass(frozen=True, slots=True)
class Due(Order):
    """Sort jobs by their due time. Those without one are last, by their submission.

    The earliest due time first (EDF), which is optimal on one machine without overload.

    Jackson, "Scheduling a production line to minimize maximum tardiness", UCLA Management Sciences
    Research Project, Report 43, 1955. ANDREAS compares itself with it (arXiv 2105.05080, section
    V).
    """

    name: str = "due"

    def key(self, job: Job, now: Instant) -> tuple[float, ...]:
        due_s = job.spec.due_s
        first = (1, 0.0) if due_s is None else (0, due_s)
        return (*first, *job.place, job.id)

    def bound(self, job: Job, now: Instant) -> str | None:
        if job.spec.due_s is None:
            return "it has no due time, so all jobs with one may pass it"
        return "jobs that are due earlier may pass it"


@dataclass(frozen=True, slots=True)
class Fair(Order):
    """Sort users by their recent GPU time over their weight, and a user's jobs by submission.

    Raises ValueError for a weight that is no number above zero.

    Fair shares: the user with the least recent GPU time is next.

    The rule of fair-share schedulers (Kay and Lauder, "A fair share scheduler", Communications of
    the ACM 31(1), 1988): use decays with a half-life (`core.use_half_life_s`), so nobody pays for
    it forever.
    """

    weights: Mapping[str, float] = field(default_factory=dict)
    """A user of weight 2 may have twice the GPU time of others. Not named: 1.

    A site whose users have paid for different parts of the server."""
    by_group: bool = False
    """Compare the users' Unix groups first, then the users of one group.

    A site that belongs to several groups."""
    group_weights: Mapping[str, float] = field(default_factory=dict)
    """The same as `weights`, for groups.

    A site whose groups have paid for different parts of the server."""
    ahead_s: float = fixed(3600.0)
    """Each GPU that a user holds counts as used for this long already."""
    name: str = "fair"

    def __post_init__(self) -> None:
        for table in ("weights", "group_weights"):
            weights = getattr(self, table)
            if not isinstance(weights, Mapping):
                raise ValueError(f"{table} = {weights!r} is not a table, as {{ann = 2}}")
            for name, weight in weights.items():
                number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
                if not (number and 0 < weight < float("inf")):
                    raise ValueError(f"{table}.{name} = {weight!r} is not a number above zero")

    def key(self, job: Job, now: Instant) -> tuple[float, ...]:
        return (*job.place, job.id)

    def rank(self, use: UserUse) -> tuple[float, ...]:
        mine = self._relative(use.own, self.weights.get(use.user, 1.0))
        if not self.by_group:
            return (mine,)
        group = self._relative(use.of_group, self.group_weights.get(use.group or "", 1.0))
        return group, mine

    def with_one_more(self, use: UserUse) -> float:
        """Return a user's use with one more GPU, above zero. With `by_group`, times the group's."""
        mine = self._relative(use.own, self.weights.get(use.user, 1.0), more=1)
        if not self.by_group:
            return mine
        group = self.group_weights.get(use.group or "", 1.0)
        return mine * self._relative(use.of_group, group, more=1)

    def _relative(self, use: Use, weight: float, more: int = 0) -> float:
        return max(float(more), use.gpu_s + self.ahead_s * (use.gpus + more)) / weight


@dataclass(frozen=True, slots=True)
class Fifo(Order):
    """Sort jobs by their submission. A job that was requeued after its end counts from then.

    First in, first out, as RAD-RM has it (thesis, section 6.2.1, step 6).
    """

    name: str = "fifo"

    def key(self, job: Job, now: Instant) -> tuple[float, ...]:
        return (*job.place, job.id)


@dataclass(frozen=True, slots=True)
class LatestStart(Order):
    """Sort jobs by their latest start: the due time less the expected run time.

    A job of which nothing is known needs no time, and its time limit counts where that is all that
    is known. Jobs without a due time are last, by their submission.

    The latest start first: the due time less the run time that is left (least slack first).

    Of two jobs with the same due time the longer one must start earlier.
    """

    name: str = "latest-start"

    def key(self, job: Job, now: Instant) -> tuple[float, ...]:
        due_s = job.spec.due_s
        if due_s is None:
            return (1, 0.0, *job.place, job.id)
        left = remaining(job, None, now)
        return (0, due_s - (0.0 if left is None else left.value_s), *job.place, job.id)

    def bound(self, job: Job, now: Instant) -> str | None:
        if job.spec.due_s is None:
            return "it has no due time, so all jobs with one may pass it"
        return "jobs that must start earlier to be in time may pass it"


@dataclass(frozen=True, slots=True)
class Shortest(Ageing):
    """Sort jobs by the time that they are expected to run.

    The shortest job first, with ageing.

    Least mean waiting time on one machine: Smith, "Various optimizers for single-stage production",
    Naval Research Logistics Quarterly 3, 1956.
    """

    name: str = "shortest"

    def size(self, job: Job) -> float:
        return self.remaining_s(job)


_LEAST_WORK_S = 120.0
"""Each job counts as so much more work, so that among small jobs the users' use decides."""


@dataclass(frozen=True, slots=True)
class SmallestWork(Ageing):
    """Sort jobs by expected duration x GPUs x SM activity.

    The smallest work first, with ageing: work is the activity of SMs that a job needs in all.

    A job that fills half of two GPUs for an hour takes as much from others as one that fills one
    GPU for an hour. So the rule of the shortest job (`Shortest`) weighs the time by the part of the
    server that a job takes.

    Users take turns by what they have used lately: between the jobs of several users, the work
    counts times the recent use of its user (`Fair`), with one more GPU. So a sweep does not hold
    the short jobs of others, and a small job of somebody who has used much does not wait for hours
    of work of somebody who has used nothing. That is the virtual finish time of weighted fair
    queueing (Demers, Keshav and Shenker, "Analysis and simulation of a fair queueing algorithm",
    SIGCOMM 1989) as a product: the sum would let use decide alone once users have had many hours.
    For one user nothing changes.

    Nobody waits for ever: of one user's jobs, the old ones go first. Beside jobs of others, an old
    one counts as of unknown duration. Old jobs go before those of all users once none of the user's
    jobs has started for `max_wait_s`; then others are next. If old jobs went before all, as those
    of one user do, a sweep would grow old as a whole, and go before all that comes later.

    A job on several GPUs may start earlier than its work says (`wide_weight`). Only a job that
    needs several does: if asking for a second GPU were enough, every user would ask for one.
    """

    unknown_smact: float = fixed(1.0)
    """The SM activity to assume for a job without a prediction of it."""
    wide_weight: float = 1.0
    """The work of a job on several GPUs counts this many times. Below 1 it starts earlier, if one
    GPU could not show its predicted SM activity; 0: before all others.

    A site with many jobs on several GPUs, which would start last."""
    shares: Fair = field(default_factory=Fair)
    """The weights of users and groups: those of `fair`. Not a setting."""
    name: str = "smallest-work"
    first: ClassVar[str] = "smaller"

    def key(self, job: Job, now: Instant) -> tuple[float, ...]:
        tier, size, *place = Ageing.key(self, job, now)
        work = size + _LEAST_WORK_S if tier else self.unknown_duration_s
        return (tier, work, *place)

    def turn(self, use: UserUse) -> tuple[float, float]:
        """Weigh the work of a user's jobs by the user's recent use with one more GPU.

        The old jobs of a user go before all others only if none has started for `max_wait_s`.
        """
        return float(use.idle_s < self.max_wait_s), self.shares.with_one_more(use)

    def bound(self, job: Job, now: Instant) -> str | None:
        if not self.is_old(job, now):
            return Ageing.bound(self, job, now)
        wait = show_seconds(self.max_wait_s)
        return f"it has waited for max_wait_s ({wait}), so no younger job of its user passes it"

    def size(self, job: Job) -> float:
        smact = job.predicted(Quantity.SMACT)
        active = self.unknown_smact if smact is None else smact
        gpus = max(1, job.spec.gpus)
        needs_them = smact is not None and gpus * smact > 1.0
        weight = 1.0 if gpus == 1 or (self.wide_weight < 1 and not needs_them) else self.wide_weight
        return self.remaining_s(job) * gpus * active * weight


@dataclass(frozen=True, slots=True)
class Weight(Order):
    """Sort jobs by their weight, the highest first, and jobs of one weight by submission.

    The highest weight first: the priority scheduler (PS) that ANDREAS compares itself with.

    Filippini et al., arXiv 2105.05080, section V.
    """

    name: str = "weight"

    def key(self, job: Job, now: Instant) -> tuple[float, ...]:
        return (-job.spec.weight, *job.place, job.id)

    def bound(self, job: Job, now: Instant) -> str | None:
        return f"jobs of a weight above {job.spec.weight:g} may pass it"


ORDERS = {
    "due": "radrm.orders:Due",
    "fair": "radrm.orders:Fair",
    "fifo": "radrm.orders:Fifo",
    "latest-start": "radrm.orders:LatestStart",
    "shortest": "radrm.orders:Shortest",
    "smallest-work": "radrm.orders:SmallestWork",
    "weight": "radrm.orders:Weight",
}
