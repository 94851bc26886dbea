"""Jobs: what `status`, `explain`, `submit` and commands about jobs answer."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import UNSET, UnsetType

from radrm.core.words import CheckpointKind
from radrm.documents.base import (
    Checkpoint,
    Document,
    Mode,
    OfJob,
    OfSpec,
    Outcome,
    Queue,
    Reserved,
    State,
)


class Job(Document):
    """One job, or one element of an array. `status --follow --json` prints such a document per line
    for each change."""

    id: OfJob[int]
    """Its number, unique for ever."""
    label: OfJob[str]
    """What users type: 12, or 12_3 for an element of an array."""
    ticket: OfJob[str]
    """The name that submit printed; known before the id."""
    name: OfSpec[str]
    """Its name."""
    user: OfSpec[str]
    """Who submitted it."""
    state: State
    """Where it is."""
    outcome: Outcome | None
    """How its last attempt ended."""
    queue: Queue | None
    """Its queue; null once it has ended."""
    position: int | None
    """Its place in its line, 1 for the first."""
    reason: str | None
    """Why it waits, or why it ended."""
    devices: tuple[str, ...]
    """The UUIDs of the GPUs of its last attempt."""
    collocation: Mode | None
    """How its last attempt shares GPUs."""
    run: OfJob[int]
    """Which run this is; each requeue after an end begins another one."""
    attempts: OfJob[int]
    """Its launches so far, in all runs."""
    exit_code: OfJob[int | None]
    """Of the last attempt; 128+n for signal n."""
    submitted_at: float
    """When it was submitted."""
    started_at: float | None
    """When its first attempt started."""
    ended_at: float | None
    """When it ended."""
    gpus: int
    """The GPUs that it holds, else those of its start."""
    gpus_min: int
    """The fewest with which it runs."""
    gpus_max: int
    """The most with which it runs."""
    estimate_mib: int | None
    """Its predicted memory per GPU."""
    estimate_source: str | None
    """Who predicted it: declared, history, trace..."""
    weight: OfSpec[float]
    """Multiplies the cost of a late end."""
    reserved_mib: int | None
    """Memory reserved on each of its GPUs now."""
    peak_mib: int | None
    """Its largest memory on one GPU, in its last attempt."""
    energy_j: float | None
    """Energy of its last attempt."""
    oom_count: OfJob[int]
    """Attempts that died of GPU out-of-memory."""
    priority: OfSpec[int]
    """Higher starts earlier, -1000 to 1000."""
    count: int | None = None
    """The elements in this row; only in rows that stand for several."""
    params_last: dict[str, str] | None = None
    """The values of the last of them."""
    behind: str | None = None
    """The label of the job that its line waits for."""
    way_out: tuple[str, ...] = ()
    """Commands of which each lets it start; only from explain; absent: none is known."""
    warnings: tuple[JobWarning, ...] = ()
    """What it has been warned of: it is idle, silent, or uses a GPU that it was not given."""
    misplaced: tuple[GpuUse, ...] = ()
    """What it uses now of GPUs that it was not given."""
    waited_s: float | None = None
    """From its submission, or its requeue, to its start; absent across a reboot."""
    ran_s: float | None = None
    """From its first start until its end or now; absent across a reboot."""
    roles: tuple[Role, ...] = ()
    """Its kinds of tasks; absent for a job of one task."""
    resizing: Resizing | None = None
    """The size that a resize under way leads to."""
    resize_error: str | None = None
    """Why its last resize failed."""
    cpus: OfSpec[float | None] = None
    """CPUs asked for (--cpus)."""
    memory_mib: OfSpec[int | None] = None
    """Host memory asked for (--memory)."""
    memory_max_mib: int | None = None
    """The larger end of a range of --memory."""
    not_enforced: str | None = None
    """Why --cpus and --memory do not limit it."""
    cpu_share: CpuShare | None = None
    """What a planner has set."""
    cpu_list: str | None = None
    """The CPUs near its GPUs, on which its last attempt runs, as 0-15,64-79; absent: all."""
    remarks: tuple[str, ...] = ()
    """What planners say of it."""
    estimate_upper_mib: int | None = None
    """The upper bound of that."""
    estimate_basis: str = ""
    """What was done to find it, in a sentence."""
    estimate_guesses: tuple[str, ...] = ()
    """What the estimator assumed."""
    estimate_notes: OfJob[tuple[str, ...]] = ()
    """What estimators could not do."""
    estimate_smact: float | None = None
    """Its predicted SM activity alone on a GPU, 0..1, or what is usual here."""
    estimate_smact_upper: float | None = None
    """The upper bound of that."""
    estimate_smact_source: str | None = None
    """Who predicted it."""
    estimate_smact_on: str | None = None
    """The kind of GPU that it is about; absent: whichever the job gets."""
    estimate_smact_scaled: tuple[Scaled, ...] = ()
    """The same on other kinds of GPU that are here, by SMs and clock."""
    estimate_duration_s: float | None = None
    """Its predicted run time alone on its GPUs."""
    estimate_duration_upper_s: float | None = None
    """The upper bound of that."""
    estimate_duration_source: str | None = None
    """Who predicted it."""
    alone_smact: float | None = None
    """The SM activity that it would show alone, as measured, 0..1."""
    due_at: float | None = None
    """Its due time."""
    expected_start_at: float | None = None
    """When it is expected to start."""
    latest_start_at: float | None = None
    """When it is expected to start at the latest."""
    start_unknown: str | None = None
    """Why its start is unknown."""
    expected_end_at: float | None = None
    """When it is expected to end."""
    latest_end_at: float | None = None
    """The same, at worst."""
    expected_source: str | None = None
    """What this is known from."""
    expected_unknown: str | None = None
    """Why no end is expected."""
    needs_s: float | None = None
    """The run time that it has left."""
    late_s: float | None = None
    """How late it is, or will be; 0: in time, absent: unknown."""
    cost: float | None = None
    """What that costs."""
    progress: Progress | None = None
    """Its last report."""
    saved_at: float | None = None
    """When it last saved its work."""
    saved_work_done: float | None = None
    """The part of its work that is saved, 0..1."""
    reports_dropped: int = 0
    """Reports that were ignored."""
    reports_dropped_why: str | None = None
    """Why."""
    gpu_memory_max_mib: int | None = None
    """The limit of --gpu-memory=SIZE:LIMIT, per GPU."""
    cap_mib: int | None = None
    """The most memory that it can have on each of its GPUs now; absent: no cap is enforced."""
    cap_by: str | None = None
    """Who enforces that: mps (each process) or driver (all its processes together)."""
    cap_refused: str | None = None
    """Why the driver does not enforce its cap."""
    begin_at: float | None = None
    """It starts no earlier (--begin); absent once that has passed."""
    held: bool = False
    """It does not start before `radrm release`."""
    time_limit_s: OfSpec[float | None] = None
    """Its time limit."""
    time_limit_at: float | None = None
    """When its running attempt reaches that."""
    checkpoint: Checkpoint = CheckpointKind.NONE.value
    """How it saves its work; absent: not at all."""
    checkpoint_pending: bool = False
    """It has been asked to save, and has not answered."""
    checkpoint_error: str | None = None
    """Why the last request failed."""
    moves: OfJob[int] = 0
    """Its migrations so far."""
    outer: str | None = None
    """The job of Slurm in which it runs: `slurm:CLUSTER:ID.RESTART`."""
    gpu_types: OfSpec[tuple[str, ...]] = ()
    """Types of GPU that it accepts; absent: all."""
    prefer_gpus: OfSpec[tuple[str, ...]] = ()
    """GPUs to use first."""
    avoid_gpus: OfSpec[tuple[str, ...]] = ()
    """GPUs to use last."""
    max_slowdown: OfSpec[float | None] = None
    """The longest run time beside others, in parts of that alone."""
    sm_share: OfSpec[float | None] = None
    """The part of a GPU's SMs that it may use as an MPS client, and books, 0..1."""
    sm_share_unbound: str | None = None
    """Of a live job, why that does not limit it."""
    array_id: int | None = None
    """The number of its array."""
    array_index: int | None = None
    """Its index there."""
    params: dict[str, str] | None = None
    """The values of this element of a sweep, by parameter."""
    left: str | None = None
    """What still ran when the main process of its last attempt had ended, and was ended."""
    verdict: tuple[str, ...] = ()
    """Of an ended job, what the next one like it should ask for."""
    after: tuple[Dependency, ...] = ()
    """The jobs that it waits for."""
    signal: str | None = None
    """The signal before its time limit, as USR1@60."""
    comment: OfSpec[str | None] = None
    """Its note."""
    tasks: tuple[Task, ...] = ()
    """The tasks of its last attempt; for one job asked for by `explain`."""
    unknown_gpus: tuple[str, ...] = ()
    """Names in --prefer-gpus and --avoid-gpus that no GPU here has."""
    notices: tuple[Notice, ...] = ()
    """What could not be sent of --notify; by `explain`, for its user and administrators."""
    earlier: tuple[EarlierRun, ...] = ()
    """Its latest earlier runs, the first one first; like what follows, of a job that is asked for
    by name."""
    command: tuple[str, ...] = ()
    """The words that it runs, or its script with arguments; like what follows, only for its user
    and administrators."""
    script: str | None = None
    """The file of its script; absent for a command and for standard input."""
    folder: str | None = None
    """The folder in which it runs."""
    options: tuple[str, ...] = ()
    """Its options, from the command line, the script and edits, as one can give them again."""
    submit_host: str | None = None
    """The machine on which it was submitted."""
    environment: Environment | None = None
    """The Python environment that was active then."""


class EarlierRun(Document):
    """How a run of a job ended that runs again since."""

    run: int
    """1 for the first."""
    state: State
    """How it ended."""
    exit_code: int | None
    """Of its last attempt."""
    reason: str | None
    """Why it ended."""
    started_at: float | None
    """When its first attempt started."""
    ended_at: float | None
    """When it ended."""
    ran_s: float | None
    """From its first start until its end; null: unknown."""


class Environment(Document):
    """A Python environment."""

    kind: str
    """`conda`, `venv` or `none`."""
    name: str | None
    """The name of conda's, the folder of a venv."""


class Role(Document):
    """A kind of tasks of a job."""

    name: str
    """As in --role."""
    count: int | None
    """Tasks that it has now."""
    min: int
    """The fewest tasks."""
    max: int
    """The most tasks."""
    gpus: int
    """GPUs of each task."""
    cpus: float | None
    """CPUs of each task."""
    cpus_max: float | None
    """The larger end of a range."""


class Notice(Document):
    """A notice about a job (`--notify`) that could not be sent."""

    event: str
    """`end`, `fail`, `oom`, `start`, `idle`, `silent` or `held`."""
    target: str
    """To whom, without the path of a URL."""
    tries: int
    """How often it was tried."""
    error: str
    """Why the last try failed, or why there was none."""
    given_up: bool
    """It is not tried again."""


class Resizing(Document):
    """The size that a resize under way leads to."""

    gpus: int
    """GPUs afterwards."""
    roles: dict[str, int]
    """Tasks of each role afterwards."""


class CpuShare(Document):
    """What a planner has set for the CPUs of a job."""

    cpus: float | None
    """CPUs that it may use at most."""
    weight: float | None
    """Its weight beside other jobs (1 without one)."""
    part: float | None = None
    """The part of the server's CPUs that it gets while all want more, 0..1."""


class Progress(Document):
    """What a job has reported last."""

    at: float
    """When it was reported, in seconds since the epoch."""
    step_at: float
    """When it last said how far it is: its step, total or work_done."""
    step: float | None
    """The step."""
    total: float | None
    """Of how many."""
    epoch: float | None
    """The epoch."""
    loss: float | None
    """The loss."""
    work_done: float | None
    """The part of the work, 0..1."""


class GpuUse(Document):
    """What a job uses of a GPU that it was not given."""

    job: str
    """The job's label."""
    user: str
    """Its user."""
    uuid: str
    """The GPU's UUID."""
    index: int
    """Its index."""
    used_mib: int | None
    """Memory there; null: the driver does not report it."""


class JobWarning(Document):
    """What the user of a job was warned of."""

    kind: str
    """`idle`, `silent` or `misplaced`: it uses a GPU that it was not given."""
    text: str
    """The warning, in one sentence."""
    at: float
    """When, in seconds since the epoch."""
    does: str | None
    """What follows; null: nothing."""
    does_at: float | None
    """When it follows."""


class Dependency(Document):
    """A job that another one waits for."""

    job: str
    """The label of the other job."""
    condition: str
    """`ok`, `any` or `failed`."""


class Task(Document):
    """A task of an attempt, what it has used, and how it ended."""

    role: str
    """Its role."""
    task: int
    """Its number in that role."""
    gpus: tuple[str, ...]
    """UUIDs of its GPUs."""
    node: str
    """Its server."""
    cpus: float | None
    """Its CPUs."""
    cpu_s: float | None
    """CPU time that it has used."""
    memory_mib: int | None
    """Host memory that it uses."""
    exit_code: int | None
    """As of a shell."""


class Scaled(Document):
    """The predicted SM activity on one kind of GPU."""

    gpu: str
    """The kind of GPU."""
    smact: float
    """The SM activity expected there, 0..1."""
    smact_upper: float
    """The upper bound of that."""


class Explanation(Document):
    """Why a job waits, or where and how it ran."""

    job: Job
    """The job."""
    now: float
    """The daemon's time."""
    summary: str | None
    """Why it waits or ended, in one line."""
    ahead: int | None
    """The jobs before it in its line."""
    reasons: tuple[Refusal, ...]
    """Why it waits, apart from single GPUs."""
    devices: tuple[GpuRefusal, ...]
    """Each GPU, and why it does not take the job."""
    sharing: tuple[Sharing, ...]
    """What sharing GPUs costs, as learned here."""
    size: tuple[Refusal, ...]
    """Why it does not get another size."""
    reservations: tuple[Reservation, ...]
    """What planners have reserved for it."""
    attempts: tuple[Attempt, ...]
    """Its launches, the first one first."""


class Sharing(Document):
    """What sharing GPUs of one kind costs."""

    name: str
    """The kind of GPU."""
    mps: bool
    """With MPS; false: time-sliced."""
    loss: float
    """0 (mild) to 1 (harsh), as in docs/lab/measurements.md."""
    periods: int
    """The shared periods that it was learned from."""
    keeps: float
    """The part of its speed that each of two jobs of SM activity 0.6 keeps."""
    shipped: float
    """The same as shipped."""
    text: str
    """This in one line."""


class Refusal(Document):
    """Why a job does not start, with both numbers."""

    rule: str | None
    """The rule that says no."""
    message: str | None
    """The reason with its numbers; of a GPU, what it has and who holds what is missing."""
    needed: float | None
    """What is needed."""
    available: float | None
    """What there is."""
    unit: str | None
    """Of both numbers."""
    planner: str | None
    """The planner that says so."""


class GpuRefusal(Refusal):
    """A GPU, and the first rule by which it does not take a job; `rule` null: it would."""

    index: int
    """The GPU's index."""
    uuid: str
    """Its UUID."""
    name: str
    """Its name."""


class Attempt(Document):
    """One launch of a job."""

    number: int
    """1 for the first."""
    outcome: Outcome | None
    """How it ended."""
    exit_code: int | None
    """As of a shell."""
    reason: str | None
    """Why it ended."""
    planner: str | None
    """The planner that started it."""
    requested: Requested | None
    """Who asked for its end."""
    devices: tuple[int | str, ...]
    """Indices of its GPUs; the UUID of one that is gone."""
    collocation: Mode
    """How it shares them."""
    cpu_list: str | None
    """The CPUs near its GPUs, on which it runs; null: all."""
    launched_at: float
    """When it was launched."""
    started_at: float | None
    """When its first instruction ran."""
    ended_at: float | None
    """When it ended."""
    ran_s: float | None
    """How long it ran; null across a reboot."""
    reserved_mib: int | None
    """Memory reserved per GPU at its start."""
    cap_mib: int | None
    """Its memory cap per GPU, the last one; null: none was enforced."""
    peak_mib: int | None
    """Its largest memory on one GPU."""
    smact: float | None
    """Its mean SM activity, 0..1."""
    energy_j: float | None
    """Its energy."""


class Requested(Document):
    """Who asked for the end of an attempt."""

    kind: str
    """What was asked for."""
    planner: str | None = None
    """The planner that asked."""
    user: str | None = None
    """The user who asked."""
    why: str | None = None
    """The planner's reason."""


class Reservation(Document):
    """What a planner, or a running job, has reserved on a GPU."""

    kind: Reserved
    """What it is for."""
    owner: str
    """Whose it is."""
    job: int | None
    """The job."""
    planner: str | None
    """The planner that made it."""
    index: int
    """The GPU's index."""
    reserved_mib: int
    """How much."""
    start_at: float
    """From when."""
    end_at: float | None
    """Until when; null: until it is removed."""


class Result(Document):
    """What a command did to one job."""

    id: int | str
    """Its id; the word that was typed, if it names no job."""
    label: str
    """Its label; that word."""
    name: str | None
    """Its name."""
    state: State | None
    """Its state before the command."""
    error: str | None
    """Why nothing was done."""
    followers: tuple[str, ...] = ()
    """Cancel: the jobs that fail with it."""
    warning: str | None = None
    """Edit: why it cannot end in time, what its start would miss, who is not told."""
    saves: bool = False
    """Requeue: it saves its work first, and runs on until then."""


class Change(Document):
    """A job after the change, with the fields of `job`; without waiting or after an error, those of
    `result`."""

    id: int | str
    """Its id; the word that was typed, if it names no job."""
    label: str
    """Its label; that word."""
    name: str | None
    """Its name."""
    state: State | None
    """Its state."""
    error: str | None
    """Why nothing was done."""
    OTHERS: ClassVar[Any] = Any
    """The other fields of a job."""


class Submitted(Document):
    """With --cluster or --pilot, a dry run has the same, without ticket and id."""

    ticket: str | None
    """Its name in the spool; null: it was not submitted, or it is a job of Slurm."""
    id: int | None
    """Its id, with --cluster Slurm's; null: no daemon runs."""
    name: str | None
    """The job's name."""
    file: str | None
    """The job file; null: a command."""
    error: str | None
    """Why it was not submitted."""


class Understood(Document):
    """What a submission would be. After an error only its first three fields."""

    name: str | None
    """The job's name."""
    file: str | None
    """The job file; null: a command."""
    error: str | None
    """Why it would not be submitted."""
    elements: int | UnsetType = UNSET
    """The jobs that it makes; 1 for a single job."""
    at_once: int | UnsetType | None = UNSET
    """How many of them may run at once; null: no limit."""
    gpus: int | UnsetType = UNSET
    """The GPUs with which a job starts."""
    gpu_memory_mib: int | UnsetType | None = UNSET
    """The declared memory per GPU."""
    gpu_memory_max_mib: int | UnsetType | None = UNSET
    """Its limit per GPU."""
    memory_mib: int | UnsetType | None = UNSET
    """The host memory of a job."""
    time_limit_s: float | UnsetType | None = UNSET
    """Its time limit."""
    estimate_mib: int | UnsetType | None = UNSET
    """The memory per GPU that earlier runs or declared figures tell."""
    estimate_upper_mib: int | UnsetType | None = UNSET
    """The most that it should be."""
    estimate_source: str | UnsetType | None = UNSET
    """The estimator."""
    notes: tuple[str, ...] | UnsetType = UNSET
    """What its submitter should know, in a line each."""
    first: tuple[DryElement, ...] | UnsetType = UNSET
    """Of a sweep, the first elements and the last one."""


class DryElement(Document):
    """An element of a sweep, as it would be."""

    index: int
    """Its number."""
    name: str
    """Its name."""
    params: dict[str, str]
    """Its values, by parameter."""
    command: tuple[str, ...] | None
    """Its command with the values; null: a job file."""
