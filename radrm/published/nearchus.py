"""NEARCHUS: a job with parameter servers grows as long as it uses what it has.

Theory of operation
-------------------
Tariq et al., section IV. A job starts with one server and two workers, which share `start_cpus`
(R0) evenly. Every `interval_s` its speed and the CPUs of its tasks are sampled. When the last
`samples` of both are stable, one thing changes, and the samples begin anew:

1. A task, or a role, uses less than `least_use` of its CPUs: they are reassigned.
2. All tasks together use `efficient` of theirs: all get `growth` more, in proportion, at most what
   is free and what is left of `budget`.
3. The network of a server is saturated: one server more. Else: one worker more. The CPUs of the
   role are shared out evenly.

Reassigning comes first, because idle CPUs of one role would else look like a bottleneck of the
other one; it needs no restart, either. The paper gives no order.

A change has gained if the job is faster by `least_gain` than after the last one that has. After
`patience` changes without gain the job returns to its fastest layout, and keeps it until it ends.
(The paper: "until no further improvements can be achieved".) It also returns there when nothing
else can change. While nothing can change, because no CPU is free, nothing is counted.

A network that nobody reports counts as free.

What a restart sees, what may interleave: `servers/steering.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

from msgspec import field

from radrm.published.servers.layout import Layout, Limits, Span, Wish, shared_out
from radrm.published.servers.notes import Lists, Note, as_lists, from_lists, networks
from radrm.published.servers.steering import Look, Steering, check_range
from radrm.rules import Attempt, Job, fixed

# ------------------------------------------------------------------
# The decisions of NEARCHUS' section IV. Pure arithmetic, all amounts in CPUs.
#
# A layout is the paper's DT-config (n_ps, n_wk, r_ps, r_wk), with the CPUs of each task. `used` is
# a layout, too: what each task uses.


ANY = Limits()


def first_layout(
    cpus: float, servers: Limits = ANY, workers: Limits = ANY, counts: tuple[int, int] = (1, 2)
) -> Layout:
    """Return where a job starts: one server and two workers share R0 = `cpus` evenly."""
    n_ps, n_wk = servers.count(counts[0]), workers.count(counts[1])
    each = cpus / (n_ps + n_wk)
    return Layout((servers.cpus(each),) * n_ps, (workers.cpus(each),) * n_wk)


def is_stable(samples: Sequence[float], count: int = 5, most: float = 0.05) -> bool:
    """Return whether the last `count` samples have a coefficient of variation below `most`."""
    last = samples[-count:]
    if len(last) < count:
        return False
    mean = sum(last) / count
    if mean <= 0:
        return False
    return sqrt(sum((each - mean) ** 2 for each in last) / count) / mean < most


def efficiency(used: Sequence[float], given: Sequence[float]) -> float:
    """Return e: the part of the given CPUs that is used; 0 without any."""
    total = sum(given)
    return sum(used) / total if total else 0.0


def is_network_bound(
    samples: Sequence[float], count: int = 30, part: float = 0.1, high: float = 0.9
) -> bool:
    """Return whether more than `part` of a server's last samples of its network exceed `high`.

    The samples (0..1 of the network's speed) are those since the last change; `count` of them are
    looked at.
    """
    last = samples[-count:]
    return bool(last) and sum(each > high for each in last) > part * len(last)


def scaled_up(
    layout: Layout, ratio: float, room: float, servers: Limits = ANY, workers: Limits = ANY
) -> Layout:
    """Return the layout with `ratio` (R_up, 0.5) more CPUs, at most `room` more.

    Each task gets its part in proportion to what it has.
    """
    more = max(0.0, min(ratio * layout.total, room))
    factor = 1 + more / layout.total
    return Layout(
        shared_out(sum(layout.servers) * factor, layout.servers, servers),
        shared_out(sum(layout.workers) * factor, layout.workers, workers),
    )


def with_server(layout: Layout, limits: Limits = ANY) -> Layout | None:
    """Return the layout with one server more; all servers share out theirs evenly.

    None if there may be no more.
    """
    count = limits.next(len(layout.servers))
    return None if count is None else layout.with_servers(_evenly(layout.servers, count, limits))


def with_worker(layout: Layout, limits: Limits = ANY) -> Layout | None:
    """Return the layout with one worker more; all workers share out theirs evenly.

    None if there may be no more.
    """
    count = limits.next(len(layout.workers))
    return None if count is None else layout.with_workers(_evenly(layout.workers, count, limits))


def _evenly(cpus: Sequence[float], count: int, limits: Limits) -> tuple[float, ...]:
    return (limits.cpus(sum(cpus) / count),) * count


def reassigned(
    layout: Layout,
    used: Layout,
    least: float = 0.8,
    headroom: float = 0.1,
    servers: Limits = ANY,
    workers: Limits = ANY,
) -> Layout:
    """Return the layout after the *resource assignment adjustment*; the same if none is needed.

    Within a role: if a task uses less than `least` of its CPUs, all of the role's are shared out in
    proportion to what its tasks use. Then between the roles: if one uses less than `least` and the
    other does not, all CPUs are shared out in proportion to use, where the servers count with
    `headroom` more. The paper gives away what is idle. Read literally, a role is then left with
    exactly what it has used, so it cannot use more, and the next round takes from the other one.
    """
    found = layout.with_servers(_within(layout.servers, used.servers, least, servers))
    found = found.with_workers(_within(found.workers, used.workers, least, workers))
    e_ps, e_wk = (
        efficiency(used.servers, found.servers),
        efficiency(used.workers, found.workers),
    )
    if (e_ps < least) is (e_wk < least):
        return found
    wanted_ps, wanted_wk = sum(used.servers) * (1 + headroom), sum(used.workers)
    if wanted_ps + wanted_wk <= 0:
        return found
    for_servers = found.total * wanted_ps / (wanted_ps + wanted_wk)
    by_use = shared_out(for_servers, used.servers, servers)
    rest = shared_out(found.total - sum(by_use), used.workers, workers)
    # What the workers cannot take, the servers keep.
    return Layout(shared_out(found.total - sum(rest), used.servers, servers), rest)


def _within(
    given: Sequence[float], used: Sequence[float], least: float, limits: Limits
) -> tuple[float, ...]:
    if all(u >= least * a for u, a in zip(used, given, strict=True)):
        return tuple(given)
    return shared_out(sum(given), used, limits)


_MATTERS = 0.02
"""A reassignment that changes no task's CPUs by more than this part is none."""


class JobNote(Note):
    """What is known of a job. A sample has the speed, and the CPUs of each server and worker.

    `network` has the last samples of each server's network, `network_s` when they were reported.
    `best` is the layout with the highest speed so far, `best_speed`. `gained_speed` is the speed
    after the last change that has gained, `misses` the changes since. `judged`: this layout has
    been compared. `done`: it keeps its layout.
    """

    samples: list[list[Any]] = field(default_factory=list)
    network: list[list[float]] = field(default_factory=list)
    network_s: float | None = None
    best: Lists | None = None
    best_speed: float = 0.0
    gained_speed: float = 0.0
    misses: int = 0
    judged: bool = False
    done: bool = False

    def begin(self, attempt: Attempt) -> None:
        Note.begin(self, attempt)
        # Another attempt begins with the first layout again.
        self.best, self.best_speed, self.gained_speed = None, 0.0, 0.0
        self.misses, self.done = 0, False

    def seen(self, layout: Layout, now_s: float) -> None:
        Note.seen(self, layout, now_s)
        self.samples, self.network, self.judged = [], [[] for _ in layout.servers], False
        self.network_s = None

    @property
    def word(self) -> str:
        return "settled" if self.done else "searching"

    @property
    def used(self) -> Layout:
        """The mean use of each task in its samples."""
        count = len(self.samples)
        _, *roles = zip(*self.samples, strict=True)
        means = [tuple(sum(each) / count for each in zip(*role, strict=True)) for role in roles]
        return Layout(means[0], means[1])

    @property
    def speed(self) -> float:
        """The mean speed of its samples, in steps per second."""
        return float(sum(sample[0] for sample in self.samples) / len(self.samples))


@dataclass(frozen=True, slots=True)
class Nearchus(Steering):
    """Start all jobs, and let those with parameter servers grow as long as they use what they
    have."""

    start_cpus: float = 15.0
    """The CPUs with which a job starts, R0 (1 to 1e6).

    A site with fewer CPUs than the paper's cluster."""
    budget: float = 100.0
    """The most CPUs that a job may have (1 to 1e6).

    A site that gives a job fewer CPUs than the paper's cluster."""
    growth: float = 0.5
    """The CPUs that an efficient job gets more, as a part of what it has, R_up (0.01 to 10).

    A site whose jobs need a finer or a quicker search than the paper's."""
    interval_s: float = fixed(60.0)
    """Seconds between two samples of CPU use and speed."""
    samples: int = fixed(5)
    """The samples that must be stable."""
    most_variation: float = fixed(0.05)
    """Samples are stable if their coefficient of variation is below this."""
    efficient: float = fixed(0.95)
    """A job that uses at least this part of its CPUs grows."""
    least_use: float = fixed(0.8)
    """A task or role that uses less than this part of its CPUs gives some away."""
    headroom: float = fixed(0.1)
    """What parameter servers get above their use, as a part of it."""
    network_interval_s: float = fixed(10.0)
    """Seconds between two samples of the network."""
    network_samples: int = fixed(30)
    """The last samples of the network that count."""
    network_high: float = fixed(0.9)
    """A sample above this part of the network's speed is high."""
    network_part: float = fixed(0.1)
    """With more high samples than this part, a server's network is saturated."""
    least_gain: float = fixed(0.02)
    """A change has gained if the speed is higher by more than this part than after the last one
    that has."""
    patience: int = fixed(3)
    """After so many changes without gain the fastest layout stays."""
    name: str = "nearchus"

    def __post_init__(self) -> None:
        for setting in ("start_cpus", "budget"):
            check_range(self, setting, 1, 1e6)
        check_range(self, "growth", 0.01, 10)

    @property
    def look_s(self) -> float:
        return min(self.network_interval_s, self.interval_s)

    def new_note(self, **kept: Any) -> JobNote:
        return JobNote(**kept)

    def first(self, job: Job, span: Span, room: float, past: Mapping[str, Any]) -> Sequence[Layout]:
        cpus = min(self.start_cpus, self.budget)
        wanted = [first_layout(cpus, span.servers, span.workers)]
        if room < cpus:
            wanted.append(first_layout(room, span.servers, span.workers))
        return wanted

    # ------------------------------------------------------------- samples

    def wish(self, look: Look, note: JobNote) -> Wish | None:
        if note.done:
            return None
        self._sample_network(look, note)
        rates = look.meter.rates(look.job, look.attempt)
        if rates is None or rates.seconds < self.interval_s - self.look_s / 2:
            return None
        note.samples = [*note.samples, [rates.speed, *as_lists(rates.used)]][-self.samples :]
        look.meter.begin(look.job, look.attempt, 0.0)
        speeds = [speed for speed, _, _ in note.samples]
        uses = [sum(servers) + sum(workers) for _, servers, workers in note.samples]
        if not all(is_stable(of, self.samples, self.most_variation) for of in (speeds, uses)):
            return None
        layout = self._decide(look, note) or self._back(look, note)
        return None if layout is None else Wish(layout)

    def _sample_network(self, look: Look, note: JobNote) -> None:
        use = look.attempt.host_use
        if use is None or use.tasks_measured.boot_s <= (note.network_s or note.changed_s):
            return
        note.network_s = use.tasks_measured.boot_s
        found = networks(look.attempt)
        if len(found) == len(note.network):
            note.network = [
                before if now is None else [*before, round(now, 3)][-self.network_samples :]
                for before, now in zip(note.network, found, strict=True)
            ]

    # ------------------------------------------------------------- decisions

    def _decide(self, look: Look, note: JobNote) -> Layout | None:
        """Return the layout that follows from stable samples; None if there is none to try."""
        has = look.has
        if not note.judged:
            self._judge(note, has)
        span, used = look.span, note.used
        room = max(0.0, min(look.room, self.budget - has.total))
        if note.misses >= self.patience and note.best is not None:
            note.done = not from_lists(note.best).differs(has, 0.0)
            return None
        found = reassigned(has, used, self.least_use, self.headroom, span.servers, span.workers)
        if found.differs(has, _MATTERS):
            return self._allowed(has, found, room)
        total_used = (*used.servers, *used.workers)
        if efficiency(total_used, (*has.servers, *has.workers)) >= self.efficient:
            found = scaled_up(has, self.growth, room, span.servers, span.workers)
            if room <= 0 or found.differs(has, 0.0):
                return found if found.differs(has, _MATTERS) else None
            # No task may have more CPUs: then more tasks.
        if any(self._is_saturated(samples) for samples in note.network):
            return None if note.fixed else self._allowed(has, with_server(has, span.servers), room)
        return self._allowed(has, with_worker(has, span.workers), room)

    def _back(self, look: Look, note: JobNote) -> Layout | None:
        """Return the fastest layout, if the job has another one and nothing else can change."""
        if not note.misses or note.best is None:
            return None
        slower = note.speed < note.best_speed * (1 - self.least_gain)
        if not slower and note.misses < self.patience:
            return None  # it may wait for CPUs only, and each way back costs a restart
        return self._allowed(look.has, from_lists(note.best), look.room)

    def _judge(self, note: JobNote, has: Layout) -> None:
        """Compare this layout with the best one."""
        note.judged, speed = True, note.speed
        if note.best is None or speed > note.best_speed:
            note.best, note.best_speed = as_lists(has), speed
        if speed > note.gained_speed * (1 + self.least_gain):
            note.gained_speed, note.misses = speed, 0
        else:
            note.misses += 1

    def _is_saturated(self, samples: Sequence[float]) -> bool:
        return is_network_bound(samples, self.network_samples, self.network_part, self.network_high)

    @staticmethod
    def _allowed(has: Layout, found: Layout | None, room: float) -> Layout | None:
        """Return a layout if it is another one and there is room for what it has more."""
        if found is None or not found.differs(has, 0.0):
            return None
        return found if found.total - has.total <= room + 0.01 else None
