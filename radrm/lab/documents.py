"""The JSON documents of the laboratory's commands, declared as `radrm.documents` says."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import UNSET, UnsetType, field

from radrm.documents.base import Document, Mode


class Estimator(Document):
    """An estimator that can be asked."""

    estimator: str
    """Its name."""
    about: str
    """What it is."""
    asked: int | None
    """When `auto` asks it, 1 for the first; null: never."""


class Evaluation(Document):
    """Estimates beside measurements. Relative errors are parts of the measurement."""

    estimator: str
    """The estimator."""
    jobs: int
    """Measured jobs."""
    estimated: int
    """Jobs with an estimate."""
    whole_device: int
    """Estimates of a whole GPU."""
    mape: float | None
    """Mean absolute relative error."""
    median_error: float | None
    """Median of that."""
    under: int
    """Estimates below the measurement."""
    worst_under_mib: float | None
    """The largest of these errors."""
    worst_over_mib: float | None
    """The largest overestimate."""
    over_mib: float | None
    """Mean overestimate."""
    upper_under: int
    """Upper bounds below the measurement."""
    upper_over_mib: float | None
    """Mean overestimate of the upper bound."""
    upper_over: float | None
    """The same, as a part."""
    seconds: float | None
    """Median time of an estimate."""
    cases: tuple[Evaluated, ...] | UnsetType = UNSET
    """With --cases."""


class Evaluated(Document):
    """An estimate beside the measurement."""

    name: str
    """The job."""
    measured_mib: float
    """What was measured."""
    memory_mib: float | None
    """The estimate."""
    upper_mib: float | None
    """Its upper bound."""


class Simulation(Document):
    """Means over the seeds. Beside each measured figure, NAME_sd is its standard deviation; null
    for one seed."""

    yours: bool
    """It is your daemon as configured."""
    policy: str
    """The policy."""
    order: str
    """The order of the queue."""
    planner: str
    """The planners."""
    estimator: str
    """The estimator."""
    collocation: str
    """How jobs share GPUs."""
    recovery: str
    """What follows out-of-memory."""
    fidelity: str
    """Published or radrm."""
    devices: int
    """Simulated GPUs."""
    servers: int
    """Equal servers."""
    dealer: str
    """Who gives the jobs to the servers: hash or gpumem."""
    seeds: int
    """Runs."""
    jobs: int
    """Jobs of the trace."""
    left_out: int
    """Jobs that were left out."""
    unfinished: float
    """Jobs without an end."""
    makespan_s: float | None
    """From the first submission to the last end."""
    mean_wait_s: float | None
    """Waiting."""
    mean_exec_s: float | None
    """Execution."""
    mean_jct_s: float | None
    """From submission to end."""
    p95_jct_s: float | None
    """The same, 95th percentile."""
    oom_count: float
    """Out-of-memory deaths."""
    energy_j: float | None
    """Energy of all GPUs."""
    gpu_smact_mean: float | None
    """Mean SM activity, 0..1."""
    gpu_memory_mean: float | None
    """Mean part of the memory in use, 0..1."""
    bound_makespan_s: float | None
    """No schedule is shorter."""
    bound_mean_jct_s: float | None
    """No schedule has a smaller mean."""
    fluid_makespan_s: float | None
    """The same bound, if jobs share GPUs ideally."""
    fluid_mean_jct_s: float | None
    """The same bound, if jobs share GPUs ideally."""
    OTHERS: ClassVar[Any] = float | None
    """Further figures (costs, sizes of elastic jobs), and standard deviations."""


class Advice(Document):
    """Which settings would be better."""

    objective: str
    """The figure that is to be small."""
    tried: int
    """Settings that were tried."""
    present: Simulation
    """The present setting."""
    best: Any
    """The best other setting, as a table of the configuration; null: none is better."""
    candidates: tuple[Candidate, ...]
    """The best settings, best first."""


class Candidate(Document):
    """Settings that were tried."""

    settings: Any
    """The settings, as a table of the configuration."""
    gains: Any
    """By figure, the gain over the present setting with its range: gain, low, high."""
    result: Simulation
    """Its simulation."""


class Replay(Document):
    """Ranges hold with a probability of 90 %."""

    since: str
    """As asked."""
    instead_of: str
    """The policy that was used."""
    jobs: int
    """Jobs that are replayed."""
    left_out: dict[str, int]
    """Jobs that are not, by reason."""
    shared: int
    """Jobs that shared a GPU."""
    slow_down: float | None
    """How much jobs that share a GPU slow one another down."""
    slow_down_low: float | None
    """Lower end."""
    slow_down_high: float | None
    """Upper end."""
    smact_alone: int
    """Jobs whose SM activity was measured alone."""
    smact_told: int
    """Jobs whose SM activity was declared."""
    smact_solved: int
    """Jobs whose SM activity follows from shared readings."""
    smact_guessed: int
    """Jobs whose SM activity is guessed."""
    smact_unknown: int
    """Jobs whose SM activity is unknown."""
    smact_error: float | None
    """Error of that."""
    recorded_mean_jct_s: float | None
    """From submission to end, as recorded."""
    recorded_mean_wait_s: float | None
    """Waiting, as recorded."""
    model_error: float | None
    """Relative error of the simulation of what was recorded."""
    policies: tuple[Replayed, ...]
    """Each policy."""


class Replayed(Document):
    """A simulation, and what it would gain."""

    policy: str
    """The policy."""
    sooner: float | None
    """Gain of the mean time from submission to end, a part."""
    sooner_low: float | None
    """Lower end."""
    sooner_high: float | None
    """Upper end."""
    OTHERS: ClassVar[Any] = Any
    """The fields of a simulation."""


class Played(Document):
    """A trace that real daemons have played."""

    time_scale: float
    """Speed of the simulated GPUs' clock."""
    runs: tuple[PlayedRun, ...]
    """Each policy."""
    gains: Any
    """By policy and figure, the gain over the first."""


class PlayedRun(Document):
    """One policy: as the daemon measured it, and simulated."""

    policy: str
    """The policy."""
    live: Any
    """The figures of a simulation, as the daemon measured them."""
    simulated: Simulation
    """The same, simulated."""


class Bench(Document):
    """How well copies of a program share a GPU."""

    gpu: BenchGpu
    """The GPU."""
    command: tuple[str, ...]
    """What ran."""
    step_pattern: str | None
    """How its steps were counted."""
    seconds: float | None
    """The longest run."""
    measured_at: float
    """When."""
    radrm: str
    """The release."""
    rounds: tuple[Round, ...]
    """Each mode and number of copies."""
    best: Best | None
    """The best of these."""
    notes: tuple[str, ...]
    """What is to be known of it."""
    beside: tuple[Any, ...] | UnsetType = field(name="with", default=UNSET)
    """The other programs, each a list of words; only with `--with`."""


class BenchGpu(Document):
    """The GPU of a measurement."""

    uuid: str
    """Its UUID."""
    index: int
    """Its index."""
    name: str
    """Its name."""
    total_mib: int
    """Its memory."""
    profile: str | None
    """Of a MIG instance."""


class Best(Document):
    """The best way to share."""

    mode: Mode
    """How to share."""
    copies: int
    """How many jobs."""


class Round(Document):
    """One way to share, measured."""

    mode: Mode
    """How the copies shared the GPU."""
    copies: int
    """How many ran at once."""
    oom: int
    """Out-of-memory deaths."""
    outcomes: tuple[Any, ...]
    """How each copy ended."""
    cut: bool
    """It was ended at the limit."""
    time_s: float | None
    """Mean run time."""
    times_s: tuple[Any, ...]
    """Run time of each copy."""
    makespan_s: float | None
    """Until the last end."""
    step_s: float | None
    """Time of a step."""
    throughput: float | None
    """Work per time, beside one copy alone."""
    slowdown: float | None
    """Run time, beside one copy alone."""
    smact: float | None
    """SM activity, 0..1."""
    smact_source: str | None
    """What read it."""
    memory_mib: int | None
    """Memory in use."""
    copy_peak_mib: int | None
    """The largest memory of one copy."""
    pcie_rx_mb_s: float | None
    """PCIe, received, MB/s."""
    pcie_tx_mb_s: float | None
    """PCIe, sent, MB/s."""
    power_w: float | None
    """Power."""
    energy_j: float | None
    """Energy."""
    energy_per_copy_j: float | None
    """Energy of one copy."""
    energy_per_step_j: float | None
    """Energy of one step."""
    programs: tuple[int, ...] | UnsetType = UNSET
    """Which programs ran, from 1; only with `--with`, where throughput is work per time beside one
    after another."""
    slowdowns: tuple[Any, ...] | UnsetType | None = UNSET
    """Run time of each program, beside that alone."""


class Profiled(Document):
    """How fast a job is on one kind and number of GPUs."""

    kind: str
    """The GPU's name."""
    gpus: int
    """How many."""
    step_s: float | None
    """Time of a step."""
    total: float | None
    """Steps of the job."""
    whole_s: float | None
    """Time of the whole job."""
    why: str | None
    """What is missing, and why."""


ANSWERS = {
    "estimators": tuple[Estimator, ...],
    "estimators --evaluate": tuple[Evaluation, ...],
    "simulate": Simulation,
    "compare": tuple[Simulation, ...],
    "compare --advise": Advice,
    "replay": Replay,
    "replay --advise": Advice,
    "trace run": Played,
    "bench collocate": Bench,
    "profile": tuple[Profiled, ...],
}
"""What each command answers with `--json`."""
