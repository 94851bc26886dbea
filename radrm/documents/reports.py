"""The past: reports of use and energy, the overview, and the list of jobs that have ended."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from radrm.documents.base import Document, Outcome, State
from radrm.documents.jobs import Job


class Energy(Document):
    """`radrm report --energy`."""

    by: str
    """User, job, gpu, day or group."""
    since: float
    """The begin, in seconds since the epoch."""
    until: float
    """The end, in seconds since the epoch."""
    first: int | None
    """The first hour that was recorded, in seconds since the epoch."""
    currency: str
    """Of the costs."""
    pue: float
    """Energy of the building for each unit of energy of the server."""
    simulated: bool
    """The GPUs of the server are simulated."""
    rows: tuple[EnergyRow, ...]
    """The users, jobs, GPUs or days."""
    more: EnergyMore
    """The rows that are only added up."""
    idle: EnergySum
    """While no job was on the GPU."""
    total: EnergySum
    """All rows."""
    equally_kwh: float
    """Of this, divided equally among jobs, since their SM activity is unknown."""
    unread: tuple[Unread, ...]
    """For how long GPUs were not read."""


class Named(Document):
    """One user, group, job, GPU or day: only the fields that name it are there."""

    user: str | UnsetType | None = UNSET
    """The user."""
    group: str | UnsetType | None = UNSET
    """The group."""
    job: int | UnsetType | None = UNSET
    """The job's id."""
    label: str | UnsetType = UNSET
    """The job's label."""
    name: str | UnsetType | None = UNSET
    """The job's or the GPU's name."""
    gpu: str | UnsetType | None = UNSET
    """The GPU's UUID."""
    index: int | UnsetType | None = UNSET
    """The GPU's index."""
    day: str | UnsetType | None = UNSET
    """The day, as 2030-01-31."""


class EnergySum(Document):
    """Energy that is added up."""

    kwh: float
    """Energy in kWh."""
    cost: float
    """Its cost."""
    share: float | None
    """Of the total, 0..1."""


class EnergyRow(Named, kw_only=True):
    """Energy of one user, group, job, GPU or day."""

    kwh: float
    """Energy in kWh."""
    cost: float
    """Its cost."""
    share: float | None
    """Of the total, 0..1."""
    idle_kwh: float | UnsetType = UNSET
    """Of this, while no job was there."""


class EnergyMore(EnergySum):
    """Rows that are only added up."""

    rows: int
    """How many rows."""


class Unread(Document):
    """For how long a GPU was not read."""

    gpu: str
    """The GPU's UUID."""
    index: int | None
    """Its index."""
    seconds: float | None
    """How long; null: it was never read."""


class Ends(Document):
    """How jobs ended."""

    jobs: int
    """Jobs that ended in the time, each once."""
    completed: int
    """Of their runs that ended, COMPLETED; a job has another one for each `radrm requeue` after its
    end."""
    failed: int
    """Of these runs, FAILED."""
    timeout: int
    """Of these runs, TIMEOUT."""
    cancelled: int
    """Of these runs, CANCELLED."""
    oom_deaths: int
    """Attempts that died of GPU out-of-memory in the time."""


class ReportSums(Ends):
    """What jobs have used together."""

    runs: int
    """Their runs that ended."""
    waited_s: float | None
    """The mean time from submission, or requeue, to start of these runs; null: unknown."""
    gpu_s: float
    """GPU-seconds; jobs that share a GPU divide its time."""
    kwh: float
    """Energy in kWh."""
    cost: float
    """Its cost."""


class Report(Document):
    """`radrm report`. What each figure means: docs/reports.md."""

    by: str
    """User, job, gpu, day or group."""
    since: float
    """The begin, in seconds since the epoch."""
    until: float
    """The end, in seconds since the epoch."""
    removed_until: float | None
    """Jobs that ended until then are removed; null: none."""
    energy_since: int | None
    """The first hour of which energy is known."""
    currency: str
    """Of the costs."""
    pue: float
    """Energy of the building for each unit of energy of the server."""
    gpus: int
    """The GPUs of the server now."""
    simulated: bool
    """They are simulated."""
    rows: tuple[ReportRow, ...]
    """The users, jobs, GPUs, days or groups."""
    more: ReportMore
    """The rows that are only added up."""
    idle: ReportIdle
    """Energy while no job was on the GPU."""
    total: ReportSums
    """All of them; each job once."""


class Overview(Document):
    """`radrm report --overview`. What each figure means: docs/reports.md."""

    since: float
    """The begin, in seconds since the epoch."""
    until: float
    """The end, in seconds since the epoch."""
    known_since: float
    """The first record in that time; the begin without one."""
    removed_until: float | None
    """Jobs that ended until then are removed; null: none."""
    energy_since: int | None
    """The first hour of which energy is known."""
    currency: str
    """Of the costs."""
    pue: float
    """Energy of the building for each unit of energy of the server."""
    gpus: int
    """The GPUs of the server now."""
    simulated: bool
    """They are simulated."""
    total: OverviewTotal
    """All jobs together."""
    waited: OverviewWaited
    """How long jobs waited."""
    use: OverviewUse
    """How jobs used all GPUs."""
    deaths: OverviewDeaths
    """GPU out-of-memory."""
    estimators: tuple[OverviewEstimator, ...]
    """What estimators had said, beside the peaks."""
    users: tuple[OverviewUser, ...]
    """The users with the most GPU time."""
    more_users: int
    """Users that are not among these."""
    devices: tuple[OverviewDevice, ...]
    """The GPUs that there are or were."""
    times: tuple[OverviewTime, ...]
    """Hours, days, or several days, from the first record on."""
    bars: tuple[OverviewBar, ...]
    """The attempts that held GPUs longest."""
    more_bars: int
    """Attempts that are not among these."""


class OverviewTotal(ReportSums):
    """All jobs together."""

    running: int
    """Jobs that run now."""
    waiting: int
    """Jobs that wait now."""


class OverviewWaited(Document):
    """How long jobs waited."""

    started: int
    """Jobs that ended in the time and had started."""
    median_waited_s: float | None
    """Half of these had waited no longer (to 2%)."""
    p95_waited_s: float | None
    """95% had waited no longer (to 2%)."""
    classes: tuple[OverviewClass, ...]
    """The same jobs by how long they had waited."""


class OverviewClass(Document):
    """Jobs that waited about as long."""

    from_s: float
    """So long, and less than in the next class."""
    jobs: int
    """Jobs."""


class OverviewUse(Document):
    """How jobs used all GPUs."""

    held_s: float
    """Seconds for which GPUs had a job; shared ones count once."""
    smact: float | None
    """Mean SM activity of the GPUs, 0..1, while attempts ran."""
    peak_share: float | None
    """The peaks of attempts, in parts of the memory that was reserved for them."""


class OverviewDeaths(Document):
    """GPU out-of-memory."""

    jobs_hit: int
    """Jobs that ended in the time, with an attempt that died of out-of-memory."""
    recovered: int
    """Of these, COMPLETED."""
    not_ended: int
    """Jobs with such an attempt that have not ended yet."""
    attempts: int
    """Attempts that held GPUs in the time."""
    attempts_without_gpu: int
    """Attempts without a GPU."""
    attempts_shared: int
    """Of the attempts with GPUs, those that shared one with another attempt."""
    deaths_shared: int
    """Of these, those that died of out-of-memory in the time."""


class OverviewEstimator(Document):
    """What an estimator had said, beside the peaks."""

    estimator: str
    """Its name; declared: the users."""
    runs: int
    """Attempts that have shown what their jobs need."""
    ratio: float | None
    """The median of estimate / peak (to 2%)."""
    ratio_p5: float | None
    """Its 5th percentile."""
    ratio_p95: float | None
    """Its 95th percentile."""
    below: int
    """Estimates below the peak."""


class OverviewUser(Ends):
    """What one user has used."""

    user: str
    """The user."""
    gpu_s: float
    """As in report_sums."""
    started: int
    """As in overview_waited."""
    median_waited_s: float | None
    """As in overview_waited."""
    p95_waited_s: float | None
    """As in overview_waited."""
    jobs_hit: int
    """As in overview_deaths."""
    recovered: int
    """As in overview_deaths."""


class OverviewDevice(Document):
    """How one GPU was used."""

    gpu: str
    """The GPU's UUID."""
    index: int | None
    """Its index; null: it is gone."""
    name: str | None
    """Its name."""
    total_mib: int | None
    """Its memory."""
    held_s: float
    """As in overview_use."""
    smact: float | None
    """As in overview_use."""
    peak_share: float | None
    """As in overview_use."""


class OverviewTime(Ends):
    """One hour, day, or several days."""

    at: float
    """Its begin, in seconds since the epoch."""
    until: float
    """Its end."""
    kwh: float
    """As in report_sums."""
    cost: float
    """As in report_sums."""
    idle_kwh: float
    """Of the energy, that of GPUs without a job."""
    gpus_used: float
    """The mean number of GPUs with a job."""
    waiting: float
    """The mean number of jobs that waited for their first start."""


class OverviewBar(Document):
    """One attempt that held GPUs for long."""

    job: str
    """The job's label."""
    name: str
    """Its name, at most 40 characters."""
    user: str
    """Its user."""
    gpus: tuple[int, ...]
    """Its GPUs, as places in devices."""
    begin_at: float
    """When it began, in seconds since the epoch."""
    end_at: float | None
    """When it ended; null: it runs."""
    outcome: Outcome | None
    """How it ended; null: it runs."""
    peak_mib: int | None
    """Its largest memory on one GPU."""


class ReportRow(Named, kw_only=True):
    """One user, job, GPU, day or group."""

    jobs: int | None
    """As in report_sums."""
    runs: int | None
    """As in report_sums."""
    completed: int | None
    """As in report_sums."""
    failed: int | None
    """As in report_sums."""
    timeout: int | None
    """As in report_sums."""
    cancelled: int | None
    """As in report_sums."""
    oom_deaths: int | None
    """As in report_sums."""
    waited_s: float | None
    """As in report_sums."""
    gpu_s: float | None
    """As in report_sums."""
    kwh: float
    """Energy in kWh."""
    cost: float
    """Its cost."""
    state: State | UnsetType | None = UNSET
    """The job's state; null: it is removed, so its other figures are null, too."""


class ReportMore(ReportSums):
    """Rows that are only added up."""

    rows: int
    """How many rows."""


class ReportIdle(Document):
    """Energy while no job was on the GPU."""

    kwh: float
    """Energy in kWh."""
    cost: float
    """Its cost."""


class History(Document):
    """`radrm history`. Sums: docs/reports.md."""

    jobs: tuple[Job, ...]
    """A page of runs that have ended, the newest last: a job as it was then."""
    total: int
    """The runs of all pages."""
    sums: ReportSums
    """Of the runs of all pages, without energy (0)."""
    since: float
    """The begin, in seconds since the epoch."""
    until: float
    """The end, in seconds since the epoch."""
    removed_until: float | None
    """Jobs that ended until then are removed; null: none."""
    devices: dict[str, int]
    """The indices of the GPUs of the server now, by UUID."""
    simulated: bool
    """The GPUs of the server are simulated."""
