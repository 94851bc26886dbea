"""A job, its dependencies, and the job of Slurm in which it runs."""

from __future__ import annotations

from math import ceil

from radrm.core.records.devices import Device
from radrm.core.records.needs import (
    DECLARED,
    DECLARED_MARGIN,
    Estimate,
    JobSpec,
    Profiled,
    Progress,
    Role,
)
from radrm.core.records.placement import Placement
from radrm.core.records.time import Instant
from radrm.core.words import Collocation, Condition, JobState, Outcome, Quantity, Queue
from radrm.structs import Stored, replace


class OuterJob(Stored):
    """Slurm's job, whose batch step waits on this server and is the runner of the attempts.

    `id` is its number and `restart` how often Slurm has run it again, so `name` is unique for ever.
    `pid`, `start_ticks` and `boot_id` name the step's process. `gone`: why it ends or has ended,
    for users; None: it has not.
    """

    engine: str
    cluster: str
    id: str
    restart: int
    pid: int
    start_ticks: int
    boot_id: str
    gone: str | None = None

    @property
    def name(self) -> str:
        """What names it for ever: `slurm:CLUSTER:ID.RESTART`."""
        return f"{self.engine}:{self.cluster}:{self.id}.{self.restart}"

    def is_run_of(self, other: OuterJob) -> bool:
        """Return whether both are the same job of Slurm, in this run or another."""
        same = self.engine, self.cluster, self.id
        return same == (other.engine, other.cluster, other.id)

    @property
    def label(self) -> str:
        """What users call it: `Slurm job 4711`."""
        return f"{self.engine.capitalize()} job {self.id}"

    @property
    def step(self) -> tuple[int, int, str]:
        """What names its step's process for ever."""
        return self.pid, self.start_ticks, self.boot_id


class Dependency(Stored):
    """A condition on the end of a job, or of every element of an array (by the array's id)."""

    job_id: int
    condition: Condition
    array: bool = False


class ArrayElement(Stored):
    """A job's place in its array. The array's id is that of its first element.

    At most `at_once` elements are live or in the queue at a time; None: no limit. The rest is held
    after `max_fails` elements have failed (None: never), each within `fails_within_s` of its start
    (None: at any time).
    """

    array_id: int
    index: int
    at_once: int | None = None
    params: tuple[tuple[str, str], ...] = ()
    """Its parameters in a sweep, by name."""
    max_fails: int | None = None
    fails_within_s: float | None = None
    fails: int = 0
    """The failures of its array so far. One unfinished element has them, the others 0
    (`core/lifecycle/followers.py`)."""


class Requeued(Stored):
    """The last time that a job was put behind all others, up to the id `behind`.

    `used_s` is what it had used of its time limit then.
    """

    at: Instant
    behind: int
    used_s: float = 0.0


class Pause(Stored):
    """A waiting job stands aside until this boot time. It keeps its order key.

    `reason` continues the text "waits 20s".
    """

    since: Instant
    until_boot_s: float
    reason: str

    def left_s(self, now: Instant) -> float:
        """Return the seconds left; 0 when it is over, and after a reboot."""
        if now.boot_s < self.since.boot_s:
            return 0.0
        return max(0.0, self.until_boot_s - now.boot_s)


class Job(Stored):
    """One submitted job file or command, or one array element, and its history.

    The elements of an array share their submission's `ticket`.
    """

    id: int
    ticket: str
    spec: JobSpec
    submitted: Instant
    state: JobState = JobState.PENDING
    queue: Queue = Queue.MAIN
    held: bool = False
    awaits_begin: bool = False
    """True until the moment of `--begin`. The job is not in the queue meanwhile."""
    after: tuple[Dependency, ...] = ()
    """Its unmet dependencies."""
    followed: tuple[Dependency, ...] = ()
    """Its met dependencies."""
    array: ArrayElement | None = None
    estimating: bool = False
    """True until the estimators have answered. The job is not in the queue meanwhile."""
    estimate_due_boot_s: float | None = None
    """While it is `estimating`: the boot time at which it goes on without an answer."""
    estimates: tuple[Estimate, ...] = ()
    estimate_notes: tuple[str, ...] = ()
    """Why an estimator gave no answer, for the user."""
    profile: tuple[Profiled, ...] = ()
    """Its run times on the kinds and numbers of GPUs for which they are known."""
    fingerprint: str | None = None
    """Equal for runs of the same program; None if unknown."""
    requeued: Requeued | None = None
    """The last time that it was put behind all others; `submitted` stays."""
    run: int = 1
    """Which run this is. A requeue after an end begins another, and the store keeps the job as it
    was at that end."""
    rerun: Instant | None = None
    """When this run was asked for; None: it is the first."""
    attempts: int = 0
    oom_count: int = 0
    retries_used: int = 0
    setbacks: int = 0
    """Attempts in a row that were lost, void or preempted soon after their launch."""
    passing_used: int = 0
    """Its runs again after failures of a GPU's MPS server or driver, at most
    `CoreSettings.passing_retries`."""
    pause: Pause | None = None
    memory_floor_mib: int | None = None
    """The least need per GPU that its out-of-memory deaths have proven."""
    own_device: bool = False
    """True if recovery requires a device of its own."""
    by_policy: bool = False
    """True if recovery lets the site's policy place it; False: it starts on an idle device."""
    ask_mib: int | None = None
    """The need per GPU that recovery tries next: a guess, unlike `memory_floor_mib`."""
    victim_count: int = 0
    """Those of its out-of-memory deaths that the growth of a neighbour caused."""
    died_on: tuple[str, ...] = ()
    """The devices of its out-of-memory deaths, the last one last."""
    use_last: tuple[str, ...] = ()
    """The devices that recovery has it use only if no others will do."""
    progress: Progress | None = None
    saved: Progress | None = None
    """The progress of the last good checkpoint. It survives an attempt."""
    saved_at: Instant | None = None
    save_s: float | None = None
    """Seconds from the last answered request to save until the job had saved; None: unknown."""
    target: Placement | None = None
    """The placement where a migrating job continues; its devices are reserved."""
    sm_fraction: float | None = None
    """The SM fraction that a planner has given it while it ran: its next attempt gets it."""
    memory_mib: int | None = None
    """The host memory with which its next attempt starts, if a death has shown that it needs more
    than the least of its range; None: the least."""
    counts: tuple[tuple[str, int], ...] = ()
    """The roles that start with more tasks than their fewest, and how many."""
    moves: int = 0
    """Its migrations, and its resizes by a restart: the attempts that continued at a target."""
    used_s: float = 0.0
    """The part of its time limit that earlier attempts have used whose work it continues."""
    anew: int = 0
    """How often it has begun anew: each time it has another checkpoint folder."""
    outcome: Outcome | None = None
    exit_code: int | None = None
    reason: str | None = None
    started: Instant | None = None
    ended: Instant | None = None
    outer: OuterJob | None = None
    """The job of Slurm in which its processes run."""

    @property
    def label(self) -> str:
        """The id for users: `12`, or `12_3` for element 3 of array 12."""
        return str(self.id) if self.array is None else f"{self.array.array_id}_{self.array.index}"

    @property
    def queued(self) -> Instant:
        """When its present run was asked for."""
        return self.rerun or self.submitted

    @property
    def place(self) -> tuple[int, float]:
        """A sort key: by submission; for a job that was put behind all others, by that."""
        if self.requeued is None:
            return self.id, 0.0
        return self.requeued.behind, self.requeued.at.wall_s

    def estimated_anew(
        self,
        estimates: tuple[Estimate, ...],
        estimating: bool,
        fingerprint: str | None,
        profile: tuple[Profiled, ...],
    ) -> Job:
        """Return the job with what is known of its needs now. Notes on earlier estimates go."""
        return replace(
            self,
            estimates=estimates,
            estimating=estimating,
            estimate_notes=(),
            fingerprint=fingerprint,
            profile=profile,
        )

    def estimate(self, quantity: Quantity) -> Estimate | None:
        """Return the first estimate of a quantity, which is the best one; None without any."""
        for each in self.estimates:
            if each.quantity is quantity:
                return each
        return None

    @property
    def limit_s(self) -> float | None:
        """The time limit of its live or next attempt, in seconds; None without a limit."""
        limit_s = self.spec.time_limit_s
        return None if limit_s is None else max(0.0, limit_s - self.used_s)

    @property
    def gpus(self) -> int:
        """The number of GPUs with which its next attempt starts."""
        count = 0
        for role in self.spec.roles:
            if role.needs.gpus:
                # Each search of a placement asks: few jobs have counts of their own.
                tasks = self.count(role) if self.counts else role.count_min
                count += tasks * role.needs.gpus
        return count

    def count(self, role: Role) -> int:
        """Return the number of a role's tasks with which its next attempt starts."""
        for name, count in self.counts:
            if name == role.name:  # an edit may have changed the range since
                return max(role.count_min, min(count, role.count_max))
        return role.count_min

    def host_memory_mib(self, role: Role, task: int) -> int | None:
        """Return the host memory that a task of its next attempt books; None: none.

        A range is for the whole job (`JobSpec.memory_range_mib`), so one task books it.
        """
        span = self.spec.memory_range_mib
        if span is None:
            return role.needs.memory_mib
        if task or role.name != self.spec.roles[0].name:
            return None
        return span[0] if self.memory_mib is None else max(span[0], min(self.memory_mib, span[1]))

    @property
    def need_mib(self) -> int | None:
        """The job's *need* per GPU: the upper bound, or what its deaths have shown if more."""
        found, need = self.estimate(Quantity.MEMORY), None
        if found is not None:
            need = int(max(found.upper, found.value))
        for shown in (self.memory_floor_mib, self.ask_mib):
            if shown is not None and (need is None or shown > need):
                need = shown
        return need

    @property
    def needs_trial(self) -> bool:
        """True if its need is unknown. A session has no first steps: it waits for its user."""
        return self.need_mib is None and not self.spec.interactive

    @property
    def recovers(self) -> bool:
        """True if it died of out-of-memory: it stays in the recovery queue until it ends, or is put
        behind all others."""
        return self.queue is Queue.RECOVERY

    @property
    def recovers_idle(self) -> bool:
        """True if recovery starts it on idle devices."""
        return self.recovers and not self.by_policy

    def predicted(self, quantity: Quantity) -> float | None:
        """Return the value of the best estimate of a quantity; None without any."""
        found = self.estimate(quantity)
        return None if found is None else found.value

    def smact_in(self, mode: Collocation, device: Device | None = None) -> float | None:
        """Return the SM activity that is predicted of it in this mode; None without a prediction.

        On a `device` of another kind than the prediction is about, it is scaled. As an MPS client
        it shows at most its `--sm-share`.
        """
        best, share = self.estimate(Quantity.SMACT), self.spec.sm_share
        found = None if best is None else best.value
        about = None if best is None else best.chip
        if best and about and device and device.name != about.name:
            found = best.on(device.chip).value
        if share is None or mode is not Collocation.MPS:
            return found
        return share if found is None else min(found, share)

    @property
    def declared(self) -> bool:
        """True if the submitter declared the need."""
        found = self.estimate(Quantity.MEMORY)
        return found is not None and found.source == DECLARED

    def margin_mib(self, need_mib: int) -> int:
        """Return the MiB to reserve beyond this need per GPU, where memory is free.

        0 if the submitter declared a limit, and for an estimate, which has an upper bound.
        """
        if not self.declared or self.recovers or self.spec.limits_gpu_memory:
            return 0
        return ceil(DECLARED_MARGIN * need_mib)
