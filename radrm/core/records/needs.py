"""What a job asks for, what is predicted of it, and its progress."""

from __future__ import annotations

from radrm.core.records.devices import Chip
from radrm.core.records.time import Instant
from radrm.core.words import CheckpointKind, Collocation, Quantity, Resizing
from radrm.structs import Stored, replace

_SIGUSR1, _SIGTERM = 10, 15


class Needs(Stored):
    """The needs of one task of a role. `gpu_memory_mib` is the declared memory per GPU, and
    `gpu_memory_max_mib` its limit (at least that); None: no limit of its own.

    `cpus` is what it starts with, `cpus_max` the most that it can use (None: `cpus`).
    """

    gpus: int = 1
    gpu_memory_mib: int | None = None
    smact: float | None = None
    cpus: float | None = None
    memory_mib: int | None = None
    mig_profile: str | None = None
    cpus_max: float | None = None
    gpu_memory_max_mib: int | None = None


class Role(Stored):
    """A kind of task of a job, with the allowed number of tasks: `count_min..count_max`."""

    name: str = "main"
    count_min: int = 1
    count_max: int = 1
    step: int = 1
    needs: Needs = Needs()

    def allows(self, count: int) -> bool:
        """Return whether the role can run with this many tasks."""
        inside = self.count_min <= count <= self.count_max
        return inside and (count - self.count_min) % self.step == 0


class Checkpoint(Stored):
    """How a job saves its state, and how many seconds that takes.

    `signal` is the number of the signal that asks for it. None: USR1, and TERM for EXIT.
    """

    kind: CheckpointKind = CheckpointKind.NONE
    cost_s: float | None = None
    signal: int | None = None

    @property
    def number(self) -> int:
        """The number of the signal that asks for it, on Linux."""
        if self.signal is not None:
            return self.signal
        return _SIGTERM if self.kind is CheckpointKind.EXIT else _SIGUSR1


class EarlySignal(Stored):
    """A signal that a job gets `lead_s` before its time limit."""

    number: int
    lead_s: float


class JobSpec(Stored):
    """What the submitter asked for. Only an edit replaces it."""

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
    gpu_types: tuple[str, ...] = ()
    """The types of GPU that it accepts, as the submitter wrote them; empty: any."""
    prefer_gpus: tuple[str, ...] = ()
    """The types, indices or UUIDs of the GPUs that it uses rather than others, best first."""
    avoid_gpus: tuple[str, ...] = ()
    """The types, indices or UUIDs of the GPUs that it uses only if no others will do."""
    group: str | None = None
    """The submitter's Unix group; None: unknown."""
    max_slowdown: float | None = None
    """The largest run time that it accepts beside others, as a multiple (>= 1) of that alone."""
    resizing: Resizing = Resizing.NONE
    """How it gets another size while it runs; NONE: it keeps the size of its start."""
    memory_range_mib: tuple[int, int] | None = None
    """Host memory of the whole job: what it starts with, and the most that it may get. Its first
    task books it, and `Needs.memory_mib` is None. None: each task has its own, which is fixed."""
    begin_s: float | None = None
    """The wall-clock time before which it does not start."""
    retry_on: tuple[tuple[int, int], ...] | None = None
    """The exit codes, as a shell reports them, after which it is retried: ranges, first and last.
    None: any."""
    silent_limit_s: float | None = None
    """It is stopped when its log and its progress have not changed for so long."""
    expect_idle: bool = False
    """It may leave its GPUs idle (`[idle]`)."""
    interactive: bool = False
    """True if somebody works in it, at a terminal."""
    sm_share: float | None = None
    """The part (0..1] of a GPU's SMs that it may use as an MPS client, and books. None: no cap."""

    @property
    def gpus(self) -> int:
        """The number of GPUs at the job's smallest size."""
        count = 0
        for role in self.roles:
            count += role.count_min * role.needs.gpus
        return count

    @property
    def gpus_max(self) -> int:
        """The number of GPUs at the job's largest size."""
        return sum(role.count_max * role.needs.gpus for role in self.roles)

    @property
    def limits_gpu_memory(self) -> bool:
        """True if the submitter declared a limit of GPU memory (`--gpu-memory=SIZE:LIMIT`)."""
        return any(role.needs.gpu_memory_max_mib is not None for role in self.roles)

    @property
    def elastic(self) -> bool:
        """True if the job can have more tasks than at its start, or more CPUs."""
        for role in self.roles:
            if role.count_max > role.count_min or role.needs.cpus_max is not None:
                return True
        return False

    @property
    def gpu_types_text(self) -> str:
        """The types of GPU that it accepts, for users: `a6000 or a100`."""
        return " or ".join(self.gpu_types)

    @property
    def cpus(self) -> float | None:
        """The CPUs that it asks for at its smallest size; None if no role asks for any."""
        asked = [(r.count_min, r.needs.cpus) for r in self.roles]
        known = [count * cpus for count, cpus in asked if cpus is not None]
        return sum(known) if known else None

    @property
    def memory_mib(self) -> int | None:
        """The host memory that it asks for at its smallest size; None if no role asks for any."""
        if self.memory_range_mib is not None:
            return self.memory_range_mib[0]
        asked = [(r.count_min, r.needs.memory_mib) for r in self.roles]
        known = [count * mib for count, mib in asked if mib is not None]
        return sum(known) if known else None


DECLARED = "declared"
"""The source of an estimate that the submitter declared."""

DECLARED_MARGIN = 0.15
"""What a job may need beyond its declared memory, as a part of it: people declare what they have
seen, rounded."""

MEASURED = "measured"
"""The source of an estimate that an earlier attempt of the job itself has shown."""


class Estimate(Stored):
    """A prediction of one quantity: a value and an upper bound.

    `source`: the route that gave it. `raw`: the estimator's own figure before the correction
    by past runs; None if they are equal. `seconds`: how long the answer took. `guesses`:
    assumptions about the job, each a line for the user. `context_mib`: the part of the raw
    figure that is the CUDA context; None if it is not counted apart. `kernels_mib`: the part that
    libraries' kernels add to that context. `cuda`: the CUDA version of the job's program; None if
    unknown. `family`: the kind of model, whose errors are alike; None: unknown. `chip`, of SM
    activity: the kind of GPU that the figures are about; None: whichever the job gets. `basis`:
    what was done to find it, a sentence for the user, or empty.
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
    chip: Chip | None = None
    basis: str = ""
    kernels_mib: float = 0.0
    family: str | None = None

    def on(self, chip: Chip | None) -> Estimate:
        """Return this prediction of SM activity for another kind of GPU (None: unknown).

        The same work keeps so much less of a larger chip active, if the job has a pace of its own
        (data, launches). If the GPU sets the pace, the job runs faster and keeps its activity: so
        the upper bound is no smaller than before. Activity is at most 1.
        """
        if self.chip is None or chip is None or chip.sm_rate == self.chip.sm_rate:
            return self
        scale, upper = self.chip.sm_rate / chip.sm_rate, max(self.value, self.upper)
        value, upper = min(1.0, self.value * scale), min(1.0, max(upper, upper * scale))
        return replace(self, value=value, upper=upper, raw=None, chip=chip)


class Progress(Stored):
    """The progress that a job reports; None: it did not say.

    `step` of `total` steps are done, in epoch `epoch`. `loss` is what the job minimises, in units
    of its own. `work_done` is a fraction of all its work, 0..1. `data_wait` is the fraction of the
    time of its last steps in which it waited for data, 0..1.

    `at` is when it reported last, `step_at` when it last said how far it was; None: at `at`, too.
    """

    at: Instant
    step: float | None = None
    total: float | None = None
    loss: float | None = None
    work_done: float | None = None
    epoch: float | None = None
    data_wait: float | None = None
    step_at: Instant | None = None

    @property
    def measured(self) -> Instant:
        """When `step` and `work_done` were reported."""
        return self.at if self.step_at is None else self.step_at


class Profiled(Stored):
    """The run time of all of a job's work, alone on `gpus` GPUs of one kind, in seconds.

    `kind` is a device's name, as its driver gives it.
    """

    kind: str
    gpus: int
    duration_s: float
