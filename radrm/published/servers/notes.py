"""What a rule keeps of each job with servers and workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict

from radrm.published.servers.layout import SERVER, WORKER, Layout, layout_of, numbers_of
from radrm.rules import Attempt, HostUse, Job, Progress, TaskUse, View

# ------------------------------------------------------------------
# What a job's tasks use and how fast it trains, from the sums that it reports.
#
# A count begins with the first reports after a change: those from before are of other processes.


class Rates(Struct, frozen=True):
    """What a job did in `seconds`, in which it made `steps`.

    `used` has the mean CPUs that each task used. `speed` is in steps per second.
    """

    used: Layout
    speed: float
    steps: float
    seconds: float


class Meter(Struct):
    """Where a count began, in fields that plain JSON can hold. `use_at_s` None: it has not.

    Times are seconds since boot. `cpu_s` has the CPU seconds of each server and of each worker.
    """

    use_at_s: float | None = None
    cpu_s: list[list[float]] | None = None
    step_at_s: float = 0.0
    step: float = 0.0

    def begin(self, job: Job, attempt: Attempt, after_s: float) -> bool:
        """Begin a count with the last reports, if both came after `after_s`."""
        use, progress = attempt.host_use, job.progress
        sums = cpu_sums(attempt)
        if use is None or progress is None or progress.step is None or sums is None:
            return False
        if use.tasks_measured.boot_s <= after_s or progress.measured.boot_s <= after_s:
            return False
        self._set(use, progress, sums)
        return True

    def _set(self, use: HostUse, progress: Progress, sums: list[list[float]]) -> None:
        self.use_at_s, self.cpu_s = use.tasks_measured.boot_s, sums
        self.step_at_s, self.step = progress.measured.boot_s, progress.step or 0.0

    def stop(self) -> None:
        """Forget the count."""
        self.use_at_s = self.cpu_s = None

    def rates(self, job: Job, attempt: Attempt) -> Rates | None:
        """Return the rates since the count began; None if it has not, or nothing came since.

        A sum that has fallen is of a task that was started again; then a new count begins.
        """
        use, progress, sums = attempt.host_use, job.progress, cpu_sums(attempt)
        if self.use_at_s is None or self.cpu_s is None or use is None or sums is None:
            return None
        if progress is None or progress.step is None:
            return None
        use_s, step_s = (
            use.tasks_measured.boot_s - self.use_at_s,
            progress.measured.boot_s - self.step_at_s,
        )
        if use_s <= 0 or step_s <= 0:
            return None
        used = [
            [(now - was) / use_s for now, was in zip(role, before, strict=False)]
            for role, before in zip(sums, self.cpu_s, strict=True)
        ]
        same = [len(role) for role in sums] == [len(role) for role in self.cpu_s]
        steps = progress.step - self.step
        if not same or steps < 0 or any(each < 0 for role in used for each in role):
            self._set(use, progress, sums)
            return None
        layout = Layout(tuple(used[0]), tuple(used[1]))
        return Rates(layout, steps / step_s, steps, min(use_s, step_s))


def cpu_sums(attempt: Attempt) -> list[list[float]] | None:
    """Return the CPU seconds of each server and of each worker; None if one is not known."""
    known = {(task.role, task.number): task.cpu_s for task in _tasks(attempt)}
    found: list[list[float]] = []
    for role in (SERVER, WORKER):
        sums = [known.get((role, number)) for number in numbers_of(attempt.placement, role)]
        some = [each for each in sums if each is not None]
        if len(some) < len(sums):
            return None
        found.append(some)
    return found


def networks(attempt: Attempt) -> list[float | None]:
    """Return the part of the network's speed (0..1) that each server uses; None if unknown."""
    known = {(task.role, task.number): task.network for task in _tasks(attempt)}
    return [known.get((SERVER, number)) for number in numbers_of(attempt.placement, SERVER)]


def _tasks(attempt: Attempt) -> tuple[TaskUse, ...]:
    return attempt.host_use.tasks if attempt.host_use is not None else ()


Lists = list[list[float]]
"""A layout as plain JSON."""

_MOST_PAST = 200
_MOST_DOUBLINGS = 5
_SERVERS_FAIL = 2
"""After so many refused resizes of the servers in a row their number counts as fixed."""


def as_lists(layout: Layout) -> Lists:
    """Return a layout as plain JSON; `Layout(*map(tuple, lists))` is the same."""
    return [list(layout.servers), list(layout.workers)]


def from_lists(lists: Lists) -> Layout:
    """Return a layout from plain JSON."""
    servers, workers = lists
    return Layout(tuple(servers), tuple(workers))


class Note(Struct):
    """What is known of one job, in fields that plain JSON can hold. Times are seconds since boot.

    `layout` is what the attempt `serial` was last seen with, since `changed_s`. `asked` is the
    layout that was asked for and is not settled yet. `changes` counts the changes of this attempt,
    `failures` those in a row that failed, `server_failures` those that would have changed the
    number of servers. `fixed`: that number cannot change. `refused`: why the last wish could not be
    proposed.
    """

    serial: int = 0
    layout: Lists = field(default_factory=list)
    changed_s: float = 0.0
    changes: int = 0
    asked: Lists | None = None
    failures: int = 0
    server_failures: int = 0
    retry_s: float = 0.0
    fixed: bool = False
    refused: str | None = None
    meter: dict[str, Any] = field(default_factory=dict)

    def begin(self, attempt: Attempt) -> None:
        """Follow a new attempt. What is known of the job stays."""
        self.serial, self.changes, self.asked = attempt.serial, 0, None
        self.failures = self.server_failures = 0
        self.retry_s, self.refused = 0.0, None

    def seen(self, layout: Layout, now_s: float) -> None:
        """Begin anew to measure: the job has another layout, or might have had."""
        self.layout, self.changed_s, self.meter = as_lists(layout), now_s, {}

    def settled(self, done: bool) -> None:
        """Note that what was asked for is there, or has failed."""

    @property
    def word(self) -> str:
        """What is done with the job now, for `radrm status`."""
        raise NotImplementedError

    def follow(self, attempt: Attempt, now_s: float, interval_s: float) -> None:
        """Compare what the job has with what was asked for, once nothing is under way."""
        has = layout_of(attempt.placement)
        if self.serial != attempt.serial:
            self.begin(attempt)
            self.seen(has, now_s)
            return
        if self.asked is not None and not is_busy(attempt):
            wanted, self.asked = from_lists(self.asked), None
            done = not has.differs(wanted, 0.0)
            self._count(done, len(has.servers) != len(wanted.servers))
            if not done:
                self.retry_s = now_s + interval_s * 2 ** min(self.failures - 1, _MOST_DOUBLINGS)
            self.settled(done)
            self.seen(has, now_s)
        elif self.layout != as_lists(has):
            self.seen(has, now_s)  # by its user, or by another planner

    def _count(self, done: bool, of_servers: bool) -> None:
        if done:
            self.changes, self.failures, self.server_failures = self.changes + 1, 0, 0
            return
        self.failures += 1
        if of_servers:
            self.server_failures += 1
            self.fixed = self.fixed or self.server_failures >= _SERVERS_FAIL

    def plain(self) -> dict[str, Any]:
        """Return it as a planner's state can hold it: without what is as at first."""
        first = type(self)()
        return {k: value for k, value in asdict(self).items() if value != getattr(first, k)}

    @property
    def counted(self) -> Meter:
        """Its meter."""
        return Meter(**self.meter)

    def keep(self, meter: Meter) -> None:
        """Keep its meter."""
        self.meter = asdict(meter)


def is_busy(attempt: Attempt) -> bool:
    """Return whether a change of an attempt's size, shares or saved work is under way."""
    return attempt.target is not None or bool(attempt.pending)


class Memory(Struct):
    """All that a rule keeps: when it last looked, a note of each job, and what runs have taught.

    `past` is by fingerprint; of more than `_MOST_PAST` entries the oldest go.
    """

    boot: str | None = None
    looked_s: float | None = None
    notes: dict[int, Note] = field(default_factory=dict)
    past: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, kept: Mapping[str, Any] | None, view: View, make: Callable[..., Note]) -> Memory:
        """Return what was kept. After a reboot all attempts and times are new."""
        kept, boot = kept or {}, view.now.boot
        notes = {
            int(job_id): make(**note)
            for job_id, note in kept.get("jobs", {}).items()
            if view.job(int(job_id)) is not None
        }
        past = dict(kept.get("past", {}))
        if kept.get("boot") != boot:
            for note in notes.values():
                note.serial = 0
            return cls(boot, None, notes, past)
        return cls(boot, kept.get("looked_s"), notes, past)

    def learn(self, key: str, entry: Any) -> None:
        """Keep what a run has taught, as the newest entry."""
        self.past.pop(key, None)
        self.past[key] = entry
        while len(self.past) > _MOST_PAST:
            del self.past[next(iter(self.past))]

    def plain(self) -> dict[str, Any]:
        """Return it as a planner's state can hold it."""
        return {
            "boot": self.boot,
            "looked_s": self.looked_s,
            "jobs": {str(job_id): note.plain() for job_id, note in self.notes.items()},
            "past": self.past,
        }
