"""One launch of a job: its tasks, its usage, its end."""

from __future__ import annotations

from typing import TypeAlias

from radrm.core.records.needs import Progress
from radrm.core.records.placement import Placement, Share
from radrm.core.records.time import Instant
from radrm.core.words import ActionKind, Cause, Outcome, StopReason
from radrm.structs import Stored, replace

Caps: TypeAlias = tuple[tuple[str, int], ...]
"""Memory caps: devices, and MiB on each."""


class Exit(Stored):
    """How a task's main process ended: `code` (0..255) or `signal`; neither if unknown."""

    code: int | None = None
    signal: int | None = None

    @property
    def ok(self) -> bool:
        """True if the exit code is 0."""
        return self.code == 0

    @property
    def shell_code(self) -> int | None:
        """The exit code as a shell reports it: 128+n for signal n."""
        return 128 + self.signal if self.signal is not None else self.code


class Task(Stored):
    """One process tree of an attempt."""

    role: str = "main"
    number: int = 0
    exit: Exit | None = None


class Blame(Stored):
    """Who took more GPU memory than was reserved when an attempt died of out-of-memory.

    `device` is where it died; None: one of several, and nothing shows which. `reserved_mib` was
    reserved for it there; None: the whole device. `why` continues the attempt's reason, for users.
    """

    cause: Cause
    device: str | None = None
    reserved_mib: int | None = None
    why: str | None = None


class OutOfMemory(Stored):
    """Evidence that an attempt died of GPU out-of-memory.

    `signature` names the pattern that was found. `requested_mib` is the failed request, or None
    if the program did not print it. The core adds `blame` (`core/lifecycle/recovery.py`).
    `fraction`: the option that sets how much of the GPU's *total* memory the program takes, which
    a cap does not change; None: it is not known to have one.
    """

    signature: str
    requested_mib: int | None = None
    blame: Blame | None = None
    fraction: str | None = None

    @property
    def of_neighbour(self) -> bool:
        """True if another process on the device took memory that was reserved for this one."""
        return self.blame is not None and self.blame.cause is Cause.NEIGHBOUR


class Beside(Stored):
    """A part of the time that an attempt shared a device: `seconds`, beside these others.

    `others` has the SM activity that each of them shows alone, as it was known then (rounded,
    ascending; None: unknown). `smact` is the device's mean SM activity (0..1) in `count` readings;
    None without one.
    """

    others: tuple[float | None, ...]
    seconds: float
    smact: float | None = None
    count: int = 0


class Usage(Stored):
    """The measured use of one device by an attempt.

    The ledger updates it while the attempt lives; past runs read it here. `energy_j` is its
    part of the device's energy (`core/state/energy.py`). `shared`: another attempt was there at
    some time, so `smact_mean` is not only this attempt's. `smact_count` is the number of readings
    in the mean; 0 if unknown. `alone_smact` is the mean of the `alone_count` readings at which it
    was alone there and had started up. `beside` is the time that it was not alone.
    """

    device: str
    peak_mib: int | None = None
    smact_mean: float | None = None
    energy_j: float | None = None
    shared: bool = False
    smact_count: int = 0
    alone_smact: float | None = None
    alone_count: int = 0
    beside: tuple[Beside, ...] = ()


class Stop(Stored):
    """A stop under way: the reason, when it was asked for, and when the next KILL is due.

    `why` is the reason in words, if there is more to say. `earlier` is the stop that this one has
    overridden. It stands again if all processes had ended before this one was asked for.
    """

    reason: StopReason
    asked: Instant
    kill_boot_s: float
    why: str | None = None
    earlier: Stop | None = None


class Pending(Stored):
    """An action that the host has not answered, and the boot time at which it is given up.

    `shares`: those to apply (SHARES); `caps`: the memory caps to set (CAPS). The target of a
    RESIZE is in the attempt's record; `withdrawn`: it was not answered in time, and the host was
    asked to undo it. Of a CHECKPOINT, `before` is the earlier request, which counts again if
    nothing came of this one, and `stops` says that the attempt is preempted when it has saved.
    """

    kind: ActionKind
    asked: Instant
    due_boot_s: float
    shares: tuple[Share, ...] = ()
    before: Instant | None = None
    stops: bool = False
    withdrawn: bool = False
    caps: Caps = ()


class PlannerRequest(Stored):
    """A change of a running attempt that a planner asked for: `kind` is a proposal's, in words.

    `user`: the user who asked for it in place of a planner. `why`: the planner's reason, which
    then says it all; "" without one.
    """

    kind: str
    planner: str = ""
    user: str | None = None
    why: str = ""

    def __str__(self) -> str:
        if self.why:
            return self.why
        who = f"the planner {self.planner}" if self.user is None else self.user
        return f"{who} asked for {self.kind}"


MISPLACED = "misplaced"
"""The kind of a warning that stays with an attempt after what it tells of is over."""


class JobWarning(Stored):
    """What the user of a running job was warned of, until it is over (but see `MISPLACED`).

    `kind`: an event of `--notify`. `text` is one sentence without its end. `does`: what follows
    `in_s` after `at`, as in "it is cancelled"; "" if nothing does. `past`: what is said of it once
    the job has ended.
    """

    kind: str
    text: str
    at: Instant
    does: str = ""
    in_s: float | None = None
    past: str = ""

    @property
    def acts(self) -> Instant | None:
        """When it follows; None: that is not known."""
        return None if self.in_s is None else self.at.at(self.at.boot_s + self.in_s)


class TaskUse(Stored):
    """What one task has used of its server, as its launcher reports; None: unknown.

    `cpu_s` is a sum since the task's start; `memory_mib` is what it holds. `network` is the part of
    the network's speed that it uses, 0..1.
    """

    role: str
    number: int
    cpu_s: float | None = None
    memory_mib: int | None = None
    network: float | None = None


class HostUse(Stored):
    """What an attempt has used of its server until `at`, by its control groups; None: unknown.

    `cpu_s` (CPU seconds) and `block_bytes` (read and written) are sums since its start;
    `memory_mib` is what it holds. `tasks`: each task's part, if a launcher reports it, as of
    `tasks_at` (None: `at`).
    """

    at: Instant
    cpu_s: float | None = None
    memory_mib: int | None = None
    block_bytes: int | None = None
    tasks: tuple[TaskUse, ...] = ()
    tasks_at: Instant | None = None

    @property
    def tasks_measured(self) -> Instant:
        """When the launcher has last told what the tasks use."""
        return self.at if self.tasks_at is None else self.tasks_at


class Attempt(Stored):
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
    resize_failed: str | None = None
    """Why the last resize has failed; None if it has not."""
    sized: Progress | None = None
    """The first progress that it reported at its present size; before that, only when a resize gave
    it that size. None: it has that since its start."""
    generation: int = 1
    """The number of the last placement that was asked for: 1 at launch, one more at each resize."""
    pending: tuple[Pending, ...] = ()
    """The actions without an answer, at most one of each kind (`core/lifecycle/pending.py`)."""
    signalled: bool = False
    """True after the signal before the time limit was sent."""
    outcome: Outcome | None = None
    exit_code: int | None = None
    reason: str | None = None
    usage: tuple[Usage, ...] = ()
    fraction: str | None = None
    """The option that sets which part of the GPU's total memory it takes, if it died of that."""
    planner: str | None = None
    """The planner that started it; None: a user's migration, or one that waited for readings."""
    requested: PlannerRequest | None = None
    """The last change that a planner or user asked for while it ran; None without one."""
    checkpoint_asked: Instant | None = None
    """When it was last asked to save its state; it stays after the answer."""
    goes_behind: bool = False
    """If it is preempted, its job waits behind all others."""
    checkpoint_failed: str | None = None
    """Why the last request to save has failed; None if it has not."""
    host_use: HostUse | None = None
    """Its last measured use of the server; None before the first."""
    shares_refused: str | None = None
    """Why this daemon could not set its CPU shares and will not be asked again; None: it can."""
    began: Progress | None = None
    """The progress from which it went on: `work_done` is 0 for the start, None for a save that did
    not say how far it was. None: unknown; of a first attempt: the start."""

    reported: tuple[Progress, ...] = ()
    """The first progress that it reported, and after its end the last one, too."""
    cpu_list: str | None = None
    """The CPUs near its GPUs that it runs on, as the kernel lists them; None: it is not bound."""
    warnings: tuple[JobWarning, ...] = ()
    """What its user was warned of and is not over, at most one of each kind."""
    caps: Caps = ()
    """The most memory that its processes may hold on each of its devices: each client of MPS, or
    all together where the driver enforces it. A device without a cap is missing."""
    caps_refused: str | None = None
    """Why the driver does not enforce its caps; None if it does, or if it was not asked."""

    left: str | None = None
    """What still ran when its main process had ended, and was ended; None: nothing."""

    def told(self, progress: Progress) -> Attempt:
        """Return the record after a report: the first one of all and of its size count."""
        sized, reported = self.sized, self.reported or (progress,)
        if sized is not None and sized.work_done is None and progress.work_done is not None:
            sized = progress if progress.measured.is_after(sized.at) else sized
        if reported is self.reported and sized is self.sized:
            return self
        return replace(self, reported=reported, sized=sized)

    def moved_since(self, before: Attempt) -> bool:
        """Return whether a plan about the earlier record does not fit this one."""
        # Records share what a change leaves alone, so identity tells.
        return (
            self.placement is not before.placement
            or self.target is not before.target
            or self.stop is not before.stop
        )

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that it holds: those of its placement, and of a resize under way."""
        more = self.target.devices if self.target is not None else ()
        return tuple(dict.fromkeys(self.placement.devices + more))

    def asked(self, kind: ActionKind) -> Pending | None:
        """Return its pending action of a kind; None if there is none."""
        return next((p for p in self.pending if p.kind is kind), None)

    def warning(self, kind: str) -> JobWarning | None:
        """Return its warning of a kind; None if there is none."""
        return next((each for each in self.warnings if each.kind == kind), None)

    @property
    def misplaced(self) -> bool:
        """True if it was seen to use a GPU that it was not given: its figures are of its own GPUs,
        and do not tell what its job needs."""
        return self.warning(MISPLACED) is not None

    @property
    def work_begun(self) -> float | None:
        """The fraction of its job's work that was done when it began, 0..1; None: unknown."""
        if self.began is None:
            return 0.0 if self.number == 1 else None
        return self.began.work_done

    @property
    def used(self) -> dict[str, Usage]:
        """Its usage by device."""
        return {u.device: u for u in self.usage}

    @property
    def ran_s(self) -> float | None:
        """Seconds from its start to its end, by time since boot; None if unknown."""
        return self.ended.since(self.started) if self.started and self.ended else None

    @property
    def peak_mib(self) -> int | None:
        """The highest peak on any one device (memory is counted per GPU)."""
        peaks = [u.peak_mib for u in self.used.values() if u.peak_mib is not None]
        return max(peaks) if peaks else None

    @property
    def energy_j(self) -> float | None:
        """The energy on all its devices together; None if unknown."""
        parts = [u.energy_j for u in self.used.values() if u.energy_j is not None]
        return sum(parts) if parts else None

    @property
    def smact_mean(self) -> float | None:
        """The mean SM activity over its devices, 0..1; None if unknown."""
        means = [u.smact_mean for u in self.used.values() if u.smact_mean is not None]
        return sum(means) / len(means) if means else None

    @property
    def slowed(self) -> bool:
        """Whether it has shared one of several devices: it waits for that one on the others, too,
        and shows less there than alone."""
        return len(self.usage) > 1 and any(usage.shared for usage in self.usage)

    @property
    def alone_smact(self) -> float | None:
        """The mean SM activity while alone, over its devices, 0..1; None if it never was, or if it
        was slowed there."""
        if self.slowed:
            return None
        means = [u.alone_smact for u in self.used.values() if u.alone_smact is not None]
        return sum(means) / len(means) if means else None
