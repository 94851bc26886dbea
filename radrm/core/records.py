"""The records: what radrm knows of jobs, attempts, devices and placements.

Every record is frozen; a change is a new record (`dataclasses.replace`). Nothing
here decides anything. Units stand in the names: `_mib _s _w _j`. `None` means
"not known", never zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from radrm.core.words import (
    CheckpointKind,
    Collocation,
    Condition,
    DeviceKind,
    JobState,
    Outcome,
    Quantity,
    Queue,
    ReservationKind,
    StopReason,
)

# --------------------------------------------------------------------------- time


@dataclass(frozen=True, slots=True)
class Instant:
    """One moment on both clocks.

    `boot_s` (seconds since boot, suspend included) measures durations and
    deadlines: nobody can set it. `wall_s` (seconds since the epoch) is what
    people read and what means something after a reboot.

    `boot` names what `boot_s` counts from (a boot, a scaled clock); None where there is
    one only, and in records of releases that did not note it.
    """

    boot_s: float
    wall_s: float
    boot: str | None = None

    def since(self, earlier: Instant) -> float | None:
        """Seconds from `earlier` until this, by time since boot; None where a reboot lies
        between or, for want of a name, may lie there: then the two clocks disagree."""
        passed_s = self.boot_s - earlier.boot_s
        if self.boot is None or earlier.boot is None:
            off_s = abs(passed_s - (self.wall_s - earlier.wall_s))
            return passed_s if off_s <= 1.0 + 0.001 * abs(passed_s) else None
        return passed_s if self.boot == earlier.boot else None


# --------------------------------------------------------------------------- devices

LOCAL_NODE = "local"


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU or a MIG instance.

    `overhead_mib` is what the driver keeps for itself: total - overhead is what
    jobs can have. `mps` says whether an MPS control daemon serves this device,
    `mps_spans` whether that daemon serves others with it, so that a job on several
    devices can be its client, and `mps_multiuser` whether its server was seen to take
    clients of several users at once.
    """

    uuid: str
    index: int
    name: str
    total_mib: int
    kind: DeviceKind = DeviceKind.GPU
    node: str = LOCAL_NODE
    overhead_mib: int = 0
    mps: bool = False
    mps_spans: bool = False
    mps_multiuser: bool = False
    parent: str | None = None
    profile: str | None = None
    available_until: float | None = None
    """Wall-clock end of this device's availability (maintenance, outer allocation)."""

    @property
    def capacity_mib(self) -> int:
        return self.total_mib - self.overhead_mib


@dataclass(frozen=True, slots=True)
class AttemptMemory:
    """What one attempt's processes hold on the read device (None: cannot be told)."""

    job_id: int
    attempt: int
    used_mib: int | None


@dataclass(frozen=True, slots=True)
class Stranger:
    """A process on a device that radrm did not start. What is not known of it is None."""

    pid: int
    used_mib: int | None = None
    user: str | None = None
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """One device at one time. A reading that failed has `error` and nothing else.

    `fault` is why the device takes no job although it can be read (an Xid, a reset that
    it needs); `notes` are what people should know besides (ECC errors, heat).
    `smact_trouble` is why SM activity that could be read before cannot be read now.
    """

    device: str
    at: Instant
    used_mib: int | None = None
    """All memory in use on the device, the driver's own overhead left out."""
    attempts: tuple[AttemptMemory, ...] = ()
    smact: float | None = None
    smact_source: str | None = None
    smact_coarse: bool = False
    """True where SMACT is only the share of time with any kernel running."""
    smact_trouble: str | None = None
    strangers: tuple[Stranger, ...] = ()
    fault: str | None = None
    notes: tuple[str, ...] = ()
    power_w: float | None = None
    error: str | None = None


# --------------------------------------------------------------------------- needs


@dataclass(frozen=True, slots=True)
class Needs:
    """What one task of a role needs. `gpu_memory_mib` is per GPU and as declared."""

    gpus: int = 1
    gpu_memory_mib: int | None = None
    smact: float | None = None
    cpus: float | None = None
    memory_mib: int | None = None
    mig_profile: str | None = None


@dataclass(frozen=True, slots=True)
class Role:
    """A kind of task of a job, and how many of it may run (`count_min..count_max`)."""

    name: str = "main"
    count_min: int = 1
    count_max: int = 1
    step: int = 1
    needs: Needs = Needs()

    def allows(self, count: int) -> bool:
        inside = self.count_min <= count <= self.count_max
        return inside and (count - self.count_min) % self.step == 0


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a job can do about its own state, and what that costs in seconds."""

    kind: CheckpointKind = CheckpointKind.NONE
    cost_s: float | None = None


@dataclass(frozen=True, slots=True)
class EarlySignal:
    """A signal that a job gets `lead_s` before its time limit."""

    number: int
    lead_s: float


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What the submitter asked for; it never changes by itself (`edit` replaces it)."""

    name: str
    user: str
    uid: int
    roles: tuple[Role, ...] = (Role(),)
    collocation: Collocation = Collocation.AUTO
    time_limit_s: float | None = None
    priority: int = 0
    weight: float = 1.0
    due_s: float | None = None
    """Wall-clock due time."""
    checkpoint: Checkpoint = Checkpoint()
    retries: int = 0
    requeue: bool = False
    signal: EarlySignal | None = None
    comment: str | None = None

    @property
    def gpus(self) -> int:
        """GPUs at the smallest size that may run."""
        return sum(role.count_min * role.needs.gpus for role in self.roles)


DECLARED = "declared"
"""The source of an estimate that is its submitter's word."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an estimator expects: a value and an upper bound of one quantity.

    `raw` is its own figure, before what this machine has learned of its errors was
    applied; None where the two are one. `seconds`: how long the answer took. `guesses`: what
    nobody said of the job and the figure takes for granted, each a line for the user.
    `context_mib`: what of its own figure is the CUDA context, None where it counts none
    apart; `cuda`: the CUDA version that the job's program was built with, where it is known.
    """

    quantity: Quantity
    value: float
    upper: float
    source: str
    seconds: float | None = None
    raw: float | None = None
    guesses: tuple[str, ...] = ()
    context_mib: float | None = None
    cuda: str | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """What a job reports of itself. `work_done` is a fraction of the whole, 0..1."""

    at: Instant
    step: float | None = None
    total: float | None = None
    loss: float | None = None
    work_done: float | None = None


# --------------------------------------------------------------------------- placement


@dataclass(frozen=True, slots=True)
class Share:
    """One task's part of one device. `device` is None for a task without a GPU.

    `reserved_mib` is the memory promised; `sm_fraction` (0..1] and `cpus` are
    caps, None where there is none.
    """

    device: str | None
    reserved_mib: int = 0
    node: str = LOCAL_NODE
    role: str = "main"
    task: int = 0
    sm_fraction: float | None = None
    cpus: float | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """All shares of one attempt: all of them or none."""

    shares: tuple[Share, ...]
    collocation: Collocation

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices in the order of their shares, each once."""
        return tuple(dict.fromkeys(s.device for s in self.shares if s.device is not None))

    def tasks(self) -> dict[str, int]:
        """How many tasks of each role the placement holds."""
        seen: dict[str, set[int]] = {}
        for share in self.shares:
            seen.setdefault(share.role, set()).add(share.task)
        return {role: len(tasks) for role, tasks in seen.items()}


@dataclass(frozen=True, slots=True)
class Reservation:
    """Memory of a device promised to an owner for an interval.

    `mib` None promises the whole device. A job has one of kind RUNNING for each
    device that its live attempt holds; `until` is None when the end is unknown.
    """

    owner: str
    kind: ReservationKind
    device: str
    mib: int | None
    since: Instant
    until: Instant | None = None
    job_id: int | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why not: the first rule that said no, with the number wanted and the number there."""

    rule: str
    message: str
    device: str | None = None
    needed: float | None = None
    available: float | None = None


# --------------------------------------------------------------------------- life


@dataclass(frozen=True, slots=True)
class Exit:
    """How a task's main process ended: `code` (0..255) or `signal`, or neither if unseen."""

    code: int | None = None
    signal: int | None = None

    @property
    def ok(self) -> bool:
        return self.code == 0

    @property
    def shell_code(self) -> int | None:
        """The exit code as a shell would give it: 128+n for a signal."""
        return 128 + self.signal if self.signal is not None else self.code


@dataclass(frozen=True, slots=True)
class Task:
    """One process tree of an attempt."""

    role: str = "main"
    number: int = 0
    exit: Exit | None = None


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """Evidence that an attempt died for want of GPU memory.

    `requested_mib` is the request that failed, where the program named it.
    """

    signature: str
    requested_mib: int | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What an attempt was seen to use on one device.

    `energy_j` is the device's energy, shared equally among the attempts on it. `shared`:
    another attempt was there at some time, so that `smact_mean` is not its own.
    `smact_count`: the readings that it is the mean of; 0 where that was not noted.
    """

    device: str
    peak_mib: int | None = None
    smact_mean: float | None = None
    energy_j: float | None = None
    shared: bool = False
    smact_count: int = 0


@dataclass(frozen=True, slots=True)
class Stop:
    """A stop under way: why, since when, and when TERM becomes KILL."""

    reason: StopReason
    asked: Instant
    kill_boot_s: float


@dataclass(frozen=True, slots=True)
class Attempt:
    """One launch of a job. `serial` is unique over all attempts ever made."""

    job_id: int
    number: int
    serial: int
    placement: Placement
    launched: Instant
    started: Instant | None = None
    ended: Instant | None = None
    tasks: tuple[Task, ...] = (Task(),)
    stop: Stop | None = None
    target: Placement | None = None
    """The placement that a resize under way leads to."""
    signalled: bool = False
    """True once it has had its signal before the time limit."""
    outcome: Outcome | None = None
    exit_code: int | None = None
    reason: str | None = None
    usage: tuple[Usage, ...] = ()

    @property
    def used(self) -> dict[str, Usage]:
        """Its usage by device. Earlier releases stored a device twice: the last entry holds."""
        return {u.device: u for u in self.usage}

    @property
    def ran_s(self) -> float | None:
        """Seconds from its start to its end, by time since boot; None where that is not known."""
        return self.ended.since(self.started) if self.started and self.ended else None

    @property
    def peak_mib(self) -> int | None:
        """The highest peak on any one device (memory is counted per GPU)."""
        peaks = [u.peak_mib for u in self.used.values() if u.peak_mib is not None]
        return max(peaks) if peaks else None

    @property
    def energy_j(self) -> float | None:
        """What it used on all its devices together."""
        parts = [u.energy_j for u in self.used.values() if u.energy_j is not None]
        return sum(parts) if parts else None

    @property
    def smact_mean(self) -> float | None:
        """The mean over its devices, 0..1."""
        means = [u.smact_mean for u in self.used.values() if u.smact_mean is not None]
        return sum(means) / len(means) if means else None


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


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """What people and health rules have said about a device."""

    uuid: str
    drained: str | None = None
    """Why it takes no new job; None when it does."""


@dataclass(frozen=True, slots=True)
class RuleState:
    """A rule's own memory, JSON-serialisable, kept with the version that wrote it."""

    kind: str
    name: str
    version: int
    state: Any = None
    wake_boot_s: float | None = None
    """When it asked to be called again."""
