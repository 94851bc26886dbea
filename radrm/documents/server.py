"""The server: its GPUs, reservations for users, limits, MPS, health, settings and estimates."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType, field

from radrm.documents.base import (
    Document,
    GpuState,
    Kind,
    Level,
    MpsState,
    ProcessKind,
    ReservationState,
)
from radrm.documents.jobs import GpuUse, Reservation


class Gpu(Document):
    """One GPU or MIG instance."""

    uuid: str
    """Its UUID."""
    index: int
    """Its index, as nvidia-smi has it."""
    name: str
    """Its name."""
    kind: Kind
    """A whole GPU or a MIG instance."""
    node: str
    """Its server."""
    state: GpuState
    """In one word; `others`: processes that radrm did not start use it."""
    reason: str | None
    """Why it takes no job, or what is wrong."""
    notes: tuple[str, ...]
    """What is to be known of it."""
    total_mib: int
    """Its memory."""
    unified: bool
    """This is the server's memory, which the GPU shares with all programs."""
    simulated: bool
    """It is a simulated GPU."""
    used_mib: int | None
    """In use, by all processes."""
    free_mib: int | None
    """What a new job could reserve."""
    reserved_mib: int
    """Reserved for jobs."""
    unmanaged_mib: int | None
    """In use by processes that radrm did not start."""
    unmanaged: tuple[Process, ...]
    """Those processes."""
    misplaced: tuple[GpuUse, ...]
    """Jobs that use it and were not given it."""
    smact: float | None
    """SM activity, 0..1."""
    smact_source: str | None
    """What reads it."""
    smact_error: str | None
    """Why it cannot be read."""
    smact_coarse: bool | None
    """It is only estimated from GPU utilization."""
    power_w: float | None
    """Its power."""
    energy_split: str | None
    """How jobs divide its energy: activity or equal."""
    jobs: tuple[int, ...]
    """Ids of the jobs on it."""
    labels: tuple[str, ...]
    """Their labels."""
    users: tuple[str, ...]
    """The user of each of them."""
    jobs_mib: dict[str, int]
    """The memory in use by each of them, by label, as last read; unknown ones are absent."""
    reservations: tuple[Reservation, ...]
    """All reservations on it."""
    reserved_for: tuple[UserReservation, ...]
    """Those for users (radrm reserve), the earliest first."""
    mps: bool
    """MPS runs on it."""
    caps: tuple[str, ...]
    """Who can enforce memory caps of jobs that share it: mps, driver."""
    sm_booked: float
    """The part of its SMs that MPS clients have booked (--sm-share)."""
    profile: str | None
    """Of a MIG instance, as 1g.5gb."""
    parent: str | None
    """The UUID of the GPU of a MIG instance."""
    near: Near
    """What it is near to."""
    sms: int | None
    """Its SMs; null: unknown, as of MIG instances."""
    sm_mhz: int | None
    """Their largest clock, in MHz."""
    node_cpus: float | None
    """CPUs of its server."""
    node_cpus_booked: float | None
    """Of these, booked by jobs."""
    node_cpus_free: float | None
    """Of these, free to book."""
    node_memory_mib: int | None
    """Host memory of its server."""
    node_memory_booked_mib: int | None
    """Of this, booked by jobs."""
    node_memory_free_mib: int | None
    """Of this, free to book."""
    processes: tuple[GpuProcess, ...] | UnsetType | None = UNSET
    """With --processes: all processes on it, at most 64 of jobs and 64 others; null: unknown."""


class Process(Document):
    """A process on a GPU that radrm did not start."""

    pid: int
    """Its number."""
    used_mib: int | None
    """GPU memory that it uses."""
    user: str | None
    """Its user."""
    command: str | None
    """Its program."""
    step: str | UnsetType = UNSET
    """What was done about it."""
    seen_s: float | UnsetType = UNSET
    """How long it has been there."""
    left: Any | UnsetType = UNSET
    """Why no more is done."""


class GpuProcess(Document):
    """A process on a GPU."""

    pid: int
    """Its number."""
    kind: ProcessKind
    """Of a job, not started by radrm, or radrm's MPS server."""
    job: str | None
    """The label of its job."""
    user: str | None
    """Its user; of a job's process the job's."""
    used_mib: int | None
    """GPU memory that it uses."""
    smact: float | None
    """Its SM activity, 0..1."""
    command: str | None
    """Its command line, at most 160 characters; null: unknown, or hidden from you."""


class Near(Document):
    """What a GPU is near to."""

    nvlink_group: int | None
    """GPUs with the same number are connected by NVLink, each to each."""
    nvlinks: dict[str, int]
    """The links to each other GPU, by its index, where the links form no such group."""
    pcie_switch: int | None
    """GPUs with the same number have only PCIe switches between them."""
    host_bridge: int | None
    """GPUs with the same number have one PCIe host bridge between them."""
    numa_node: int | None
    """The NUMA node."""
    numa_cpus: str | None
    """Its CPUs that radrm may use, as 0-15,64-79."""
    socket_cpus: str | None
    """The CPUs of the GPU's socket that radrm may use."""


class UserReservation(Document):
    """GPUs that only some users may use for a time. Your own that were released are `ended`."""

    id: int
    """For radrm reserve --cancel."""
    whom: str = field(name="for")
    """A user, `group NAME`, or `maintenance`."""
    by: str
    """The user who made it."""
    own: bool
    """A user has made it for itself."""
    maintenance: bool
    """No job may use the GPUs."""
    preempt: bool
    """At its start jobs of others are stopped, where they can run again."""
    gpus: tuple[int, ...]
    """The indices of its GPUs that are there."""
    uuids: tuple[str, ...]
    """All its GPUs."""
    start_at: float
    """From when."""
    end_at: float
    """Until when."""
    state: ReservationState
    """Whether it counts now."""
    jobs: tuple[str, ...]
    """Jobs of its users that are on its GPUs now."""
    others: tuple[str, ...]
    """Jobs of others there, which run on."""
    reason: str | None
    """Why it was made, or why it has ended."""


class GpuResult(Document):
    """What a command did to one GPU."""

    index: int | None
    """The GPU's index; null: there is no such GPU."""
    uuid: str
    """Its UUID; the word that was typed."""
    error: str | None
    """Why nothing was done."""


class Shares(Document):
    """The recent GPU time of all users."""

    half_life_s: float
    """GPU time counts half after so long."""
    users: tuple[UserShare, ...]
    """Most GPU time first."""
    groups: tuple[GroupShare, ...]
    """The same, by group."""


class UserShare(Document):
    """The recent GPU time of one user."""

    user: str
    """The user."""
    uid: int
    """The user's number."""
    gpu_s: float
    """Recent GPU time."""
    share: float | None
    """Of all recent GPU time, 0..1."""
    gpus: float
    """GPUs in use now; a shared one counts in part."""
    running: int
    """Running jobs."""
    waiting: int
    """Waiting jobs."""
    rank: int | None
    """1 for the user whose job is next."""


class GroupShare(Document):
    """The recent GPU time of one group."""

    group: str
    """The group."""
    gpu_s: float
    """Recent GPU time."""
    share: float | None
    """Of all recent GPU time, 0..1."""
    gpus: float
    """GPUs in use now."""


class Limits(Document):
    """The limits of a user."""

    user: str
    """The user."""
    uid: int
    """The user's number."""
    note: str | None
    """Why there are no limits."""
    limits: tuple[Limit, ...]
    """Each limit."""
    shares: Shares
    """The recent GPU time of all users."""


class Limit(Document):
    """One limit."""

    name: str
    """The setting in [limits]."""
    limit: float | None
    """Its value; null: none."""
    use: float | None
    """What counts for it now; null: nothing adds up."""


class Mps(Document):
    """One MPS control daemon."""

    gpus: tuple[int, ...]
    """Indices of its GPUs."""
    uuids: tuple[str, ...]
    """Their UUIDs."""
    state: MpsState
    """What it does."""
    wanted: bool
    """Radrm keeps it running."""
    fault: str | None
    """What is wrong."""
    multiuser: bool | None
    """It serves several users at once."""
    pid: int | None
    """Its process."""
    pipes: str
    """The folder of its pipes."""
    logs: str
    """The folder of its logs."""
    servers: tuple[MpsServer, ...]
    """Its servers."""


class MpsServer(Document):
    """A server of an MPS control daemon."""

    pid: int
    """Its process."""
    status: str | None
    """As it says."""
    clients: tuple[MpsClient, ...]
    """The processes that use it."""


class MpsClient(Document):
    """A process that uses an MPS server."""

    pid: int
    """The process."""
    job: int | None
    """The job that it belongs to."""


class Finding(Document):
    """What one check found."""

    check: str
    """What was looked at."""
    level: Level
    """The verdict."""
    finding: str
    """What was found."""
    next_step: str | None
    """What to do."""


class Configuration(Document):
    """The settings that hold, with what `auto` means."""

    file: str | None
    """The configuration file; null: there is no place for one."""
    found: bool
    """It exists."""
    config: Any
    """All settings, as docs/configuration.md lists them."""
    auto: Any
    """What `auto` means now."""
    defaults: tuple[str, ...]
    """The keys that have their default."""


class Checked(Document):
    """What is wrong with a configuration file."""

    file: str | None
    """The configuration file."""
    found: bool
    """It exists."""
    errors: tuple[str, ...]
    """What is wrong, one line each."""


class Fitting(Document):
    """A batch size with which a job fits on a GPU of this server."""

    batch_size: int
    """The value of the command's own option."""
    upper_mib: float
    """The upper bound of its memory per GPU."""
    room_mib: int
    """The memory of the largest GPU."""


class Changed(Document):
    """A job with one more option of its program."""

    option: str
    """The option, such as --amp."""
    upper_mib: float
    """The upper bound of its memory per GPU."""


class Estimate(Document):
    """What one estimator says of a job file."""

    file: str
    """The job file."""
    estimator: str
    """The estimator."""
    memory_mib: float | None
    """Memory per GPU."""
    upper_mib: float | None
    """The upper bound of that."""
    smact: float | None
    """SM activity, 0..1."""
    smact_upper: float | None
    """The upper bound of that."""
    smact_source: str | None
    """What it is known from."""
    duration_s: float | None
    """Run time."""
    duration_upper_s: float | None
    """The upper bound of that."""
    duration_source: str | None
    """What it is known from."""
    seconds: float | None
    """How long the estimate took."""
    source: str | None
    """What the memory is known from."""
    basis: str
    """What was done to find it, in a sentence; or empty."""
    guesses: tuple[str, ...]
    """What was assumed."""
    notes: tuple[str, ...]
    """What could not be done."""
    fits: Fitting | None
    """The largest batch size with which it fits; null: it fits, or that is unknown."""
    changes: tuple[Changed, ...]
    """What options of its program would change, if it does not fit."""


class Summarized(Document):
    """What a summary of a model says of its memory."""

    file: str
    """The summary's file."""
    need_mib: float
    """The least memory in which the step runs."""
    memory_mib: float
    """What it will take."""
    batch_size: int | None
    """The batch size."""
    seconds: float
    """How long it took."""
    guesses: tuple[str, ...]
    """What was assumed."""
