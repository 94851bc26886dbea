"""A job, and why it waits."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records.estimates import DECLARED, Estimate, Progress
from radrm.core.records.needs import JobSpec
from radrm.core.records.placement import Placement
from radrm.core.records.time import Instant
from radrm.core.words import Condition, JobState, Outcome, Quantity, Queue


@dataclass(frozen=True, slots=True)
class Dependency:
    """Start after a job, or every element of an array (by the array's id), has ended so."""

    job_id: int
    condition: Condition
    array: bool = False


@dataclass(frozen=True, slots=True)
class ArrayElement:
    """A job's place in its array, whose id is its first element's.

    At most `at_once` elements are live or next in line at a time; None: no limit.
    """

    array_id: int
    index: int
    at_once: int | None = None


@dataclass(frozen=True, slots=True)
class Requeued:
    """A job that had ended waits as if new since `at`, behind the jobs up to the id `behind`."""

    at: Instant
    behind: int


@dataclass(frozen=True, slots=True)
class Pause:
    """A waiting job stands aside until then, outside the queue; its place stays its own.

    `reason` goes on after "waits 20s".
    """

    since: Instant
    until_boot_s: float
    reason: str

    def left_s(self, now: Instant) -> float:
        """Seconds left; 0 once it is over. Boot time that began anew ends it, too."""
        if now.boot_s < self.since.boot_s:
            return 0.0
        return max(0.0, self.until_boot_s - now.boot_s)


@dataclass(frozen=True, slots=True)
class Job:
    """One submitted .rad file (or array element) and all that has become of it.

    The elements of an array share their submission's `ticket`.
    """

    id: int
    ticket: str
    spec: JobSpec
    submitted: Instant
    state: JobState = JobState.PENDING
    queue: Queue = Queue.MAIN
    held: bool = False
    after: tuple[Dependency, ...] = ()
    """What it still waits for; what is met is no longer here..."""
    followed: tuple[Dependency, ...] = ()
    """...but here."""
    array: ArrayElement | None = None
    estimating: bool = False
    """True until the estimators have answered; the job waits outside the queue."""
    estimates: tuple[Estimate, ...] = ()
    estimate_notes: tuple[str, ...] = ()
    """Why an estimator that was asked gave no answer, for the user."""
    fingerprint: str | None = None
    """What runs of the same thing have in common; None where that is not known."""
    requeued: Requeued | None = None
    """When a job that had ended was last requeued; `submitted` stays."""
    attempts: int = 0
    oom_count: int = 0
    retries_used: int = 0
    setbacks: int = 0
    """Attempts in a row that were over at once and through no doing of the job's own."""
    pause: Pause | None = None
    memory_floor_mib: int | None = None
    """What its out-of-memory deaths have proven it needs at least, per GPU."""
    own_device: bool = False
    """True when recovery demands a device that nobody else is on."""
    progress: Progress | None = None
    saved: Progress | None = None
    """The progress that the last good checkpoint holds: it survives an attempt."""
    saved_at: Instant | None = None
    target: Placement | None = None
    """Where a migrating job goes on; its devices are reserved until it is there."""
    outcome: Outcome | None = None
    exit_code: int | None = None
    reason: str | None = None
    started: Instant | None = None
    ended: Instant | None = None

    @property
    def label(self) -> str:
        """The id as people read it: `12`, or `12_3` for element 3 of array 12."""
        return str(self.id) if self.array is None else f"{self.array.array_id}_{self.array.index}"

    @property
    def place(self) -> tuple[int, float]:
        """Sorts jobs by submission, and those that were requeued after their end by requeue."""
        if self.requeued is None:
            return self.id, 0.0
        return self.requeued.behind, self.requeued.at.wall_s

    def estimate(self, quantity: Quantity) -> Estimate | None:
        """The first estimate of a quantity: estimators answer best first."""
        return next((e for e in self.estimates if e.quantity is quantity), None)

    @property
    def need_mib(self) -> int | None:
        """The job's *need* per GPU: upper bound, raised by what its deaths have proven."""
        found = self.estimate(Quantity.MEMORY)
        known = [int(max(found.upper, found.value))] if found else []
        if self.memory_floor_mib is not None:
            known.append(self.memory_floor_mib)
        return max(known) if known else None

    @property
    def declared(self) -> bool:
        """Whether the need is its submitter's word, not an estimate."""
        found = self.estimate(Quantity.MEMORY)
        return found is not None and found.source == DECLARED
