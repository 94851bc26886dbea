"""The settings: a frozen dataclass for each table, with meanings and defaults.

The docstrings of the fields are the reference of docs/configuration.md, which
`tools/config_reference.py` makes. Each rule has its own settings, and `radrm.core.settings` has
those of `[core]`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from enum import Enum
from typing import Any

from msgspec import Struct

from radrm.config import values as v
from radrm.config.values import Table
from radrm.core.settings import CoreSettings, fixed, settings_of
from radrm.core.words import Collocation

_CHECK = "check"


def setting(default: Any, check: v.Check) -> Any:
    """Return a field that a file can set to what passes `check`. A type stands for an empty one."""
    made: dict[str, Any] = {"default_factory": default} if default is dict else {"default": default}
    return field(**made, metadata={_CHECK: check})


def checks_of(shape: type) -> dict[str, v.Check]:
    """Return the check of each setting of a table, and of each table of a configuration."""
    return {
        name: each.metadata.get(_CHECK) or _check_of_table(type(each.default))
        for name, each in settings_of(shape).items()
    }


def _check_of_table(shape: Any) -> v.Check:
    return v.settings(checks_of(shape), getattr(shape, "of_file", shape))


@dataclass(frozen=True, slots=True)
class SlurmConfig:
    """Jobs of a Slurm partition whose GPUs radrm shares. Commands on login nodes read this, too."""

    enabled: bool = setting(False, v.switch)
    """Take the jobs of this node that Slurm has started.

    A node of a cluster whose partition radrm shares."""
    partition: str = setting("shared", v.slurm_name)
    """The partition of Slurm whose jobs share GPUs.

    A site that has named it otherwise."""
    gres: str = setting("gpumem", v.slurm_name)
    """The name of the counted GRES by which Slurm chooses the node: MiB of GPU memory.

    A site that has named it otherwise."""
    default_gpumem: str = setting("6G", v.gpu_memory)
    """What a job asks of it of which nothing is known, for each GPU.

    A site whose usual job is smaller or larger."""
    local_wait_s: float = setting(1800.0, v.between(1, 31_536_000))
    """Time that a job waits on a node for its GPU. Then it goes back to Slurm, for another node, at
    most three times; then it fails. While it waits, its time limit is longer by this time.

    A site with many nodes: elsewhere a GPU may be free sooner."""
    only: bool = setting(False, v.switch)
    """Refuse jobs that do not come from Slurm.

    A site whose users must not pass Slurm's accounting."""
    node: str = setting("", v.slurm_node)
    """The name of this node in Slurm; empty: what Slurm takes this server for.

    A site whose host names are not Slurm's names."""
    home: str = setting("", v.home)
    """The folder of the node's daemon (its RADRM_HOME); `%n` is the node's name. Empty: the daemon
    of the server, else that of the user. A daemon in such a folder serves the user who started it.

    Who has several nodes on one server, as in a test."""
    fence: bool = setting(False, v.switch)
    """End the jobs of a node that Slurm's controller has not answered for `SlurmdTimeout`: it may
    have started them on another node.

    A site that requeues jobs of nodes that are down."""


RuleTables = Mapping[str, Table]
"""A rule's settings, by the rule's name."""


@dataclass(frozen=True, slots=True)
class MpsConfig:
    """CUDA MPS for jobs that share a GPU."""

    enabled: bool = setting(False, v.gpus)
    """Let jobs of one user share a GPU through MPS, with memory limits. A list of indices and UUIDs
    (or their beginnings) enables it on some GPUs: `[0, "GPU-1a2b3c4d"]`.

    A site whose users share GPUs with jobs that are known: MPS is faster than time-slicing, but
    one job's fault can end the others of its user."""
    only: tuple[str, ...] = fixed(())
    """The GPUs of that list; empty: all. A file has this list in `enabled`."""
    spans: bool = fixed(False)
    """One control daemon serves all GPUs, also jobs on several: in simulations of published
    systems. Where each GPU has its own, a fault ends no client on another GPU."""
    active_thread_percentage: int = setting(100, v.whole(1, 100))
    """Limit of one client's share of the SMs, 1 to 100.

    A site where one client must not take a whole GPU."""
    multiuser: bool = setting(False, v.switch)
    """Let several users share one MPS server, if the driver can. Root only. Nothing separates their
    memory.

    A site whose users trust one another."""

    @classmethod
    def of_file(cls, enabled: bool | tuple[str, ...] = False, **others: Any) -> MpsConfig:
        """Return the table that a file has: `enabled` may be the list of the GPUs."""
        only = enabled if isinstance(enabled, tuple) else ()
        return cls(enabled=bool(enabled), only=only, **others)


@dataclass(frozen=True, slots=True)
class ReadingsConfig:
    """How GPUs are read. Simulated GPUs use `interval_s` only."""

    source: str = setting("auto", v.choice("auto", "nvml", "nvidia-smi"))
    """How GPUs are listed and read: `nvml`, `nvidia-smi`, or `auto`: the first that works.
    `nvidia-smi` reads no MIG instances, and no GPU that uses the server's memory.

    Who finds that one of the two does not work on this server."""
    smact: str = setting("auto", v.choice("auto", "gpm", "dcgm", "dcgm-exporter", "utilization"))
    """The source of SM activity: `gpm` (NVML, Hopper and newer), `dcgm` (`dcgmi dmon`),
    `dcgm-exporter`, or `utilization`, from which it is only estimated. `auto`: for each GPU the
    first that works. With a named source no other replaces it.

    Who wants no other source: for a measurement, or because a tool of NVIDIA's disturbs
    another."""
    dcgm_exporter: str = setting("http://127.0.0.1:9400/metrics", v.loopback_url)
    """The address of dcgm-exporter on this machine. Enable DCGM_FI_PROF_SM_ACTIVE there and set
    `--collect-interval=1000`. `auto` uses it only if root or the daemon's user serves the port.

    A site whose dcgm-exporter has another port."""
    interval_s: float = setting(1.0, v.between(0.2, 10))
    """Time between two readings (RAD-RM thesis, section 6.2.1). A shorter one costs CPU time; with
    a longer one radrm sees changes later. When a job starts or ends, GPUs are read at once.

    A site with few CPUs, or who measures."""


@dataclass(frozen=True, slots=True)
class UnmanagedConfig:
    """Processes on a GPU that radrm did not start. Their memory always counts as used, and `radrm
    gpus` shows them."""

    action: str = setting("count", v.choice("count", "warn", "drain", "signal"))
    """`count`: no action. `warn`: log each process once, and show it in `radrm status` and `radrm
    doctor`. `drain`: a GPU takes no new job while they use more than `core.idle_unmanaged_mib`.
    `signal`: as `warn`; a process gets TERM after `grace_s` without a gap, and KILL 30 s
    later. Only a daemon of root sends signals, and never on a drained GPU.

    A site that wants all GPU work under radrm."""
    grace_s: float = setting(300.0, v.grace)
    """Time on a GPU before TERM.

    A site that gives its users longer to notice."""
    kill_grace_s: float = fixed(30.0)
    """Time from TERM to KILL: a process without a handler is gone at once."""
    spare: tuple[str, ...] = setting((), v.names)
    """Programs that `warn` and `signal` ignore, by the executable's name: `["ollama"]`. Only root
    may own and write the file. Display servers, MPS and NVIDIA's services are always ignored.

    A site with services on its GPUs."""
    spare_users: tuple[str, ...] = setting((), v.names)
    """Users whose processes `warn` and `signal` ignore.

    A site whose administrators test without radrm."""


@dataclass(frozen=True, slots=True)
class EstimationConfig:
    """Limits of the estimators."""

    time_limit_s: float = fixed(5.0)
    """Limit for one estimate: all of radrm's answer within a tenth of it."""
    trace: bool = setting(True, v.switch)
    """Trace the training step of jobs with `--model-factory`, as their user and in their Python.

    A site that runs no code of users before their jobs start."""
    script: bool = setting(True, v.switch)
    """With `trace`: trace the command of jobs that declare nothing about their memory, too.

    A site where a job's command must run only once."""
    probe: bool = setting(True, v.switch)
    """Measure the CUDA context once for each kind of GPU, driver and CUDA, by a job.

    A site where no job may start that no user has submitted."""
    trace_limit_s: float = setting(60.0, v.between(1, 3600))
    """Processor time for one trace, 1 to 3600 s; it ends after four times as long on the clock.

    A site with large models: their step takes longer to trace."""
    trace_memory_mib: int = fixed(8192)
    """Host memory for one trace: PyTorch and a model's description need less."""


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """What jobs can book of this server (`--cpus`, `--memory`). Both may exceed what there is."""

    cpus: float | str = setting("auto", v.cpus)
    """The number of CPUs. `auto`: those that the daemon may use, by affinity and control groups.

    A site that keeps CPUs for other work, or lets jobs book more than there are."""
    cpu_bind: str = setting("socket", v.choice("socket", "numa", "none"))
    """The CPUs on which jobs run: those of their GPUs' `socket` or `numa` node, or all (`none`). A
    job's own `--cpu-bind` comes first. See [nearness.md](administrators.md#cpus).

    A site whose jobs are better off on all CPUs."""
    memory: str = setting("auto", v.host_memory)
    """Host memory, as `"480G"`. `auto`: all, or the limit of the daemon's control group.

    A site that keeps host memory for other work."""


@dataclass(frozen=True, slots=True)
class GpusConfig:
    """Which GPUs are used, which of them first, and what a job can open and use of them."""

    only: tuple[str, ...] = setting((), v.gpu_names)
    """Indices and UUIDs (or their beginnings) of the GPUs that radrm uses: `[0, 1]`. The others are
    not read, and no job gets one. A GPU's name stands for its MIG instances, too. Empty: all.

    A site that keeps GPUs for other work."""
    until: str = setting("", v.moment)
    """Until when radrm has them, in local time: `"2030-01-31T18:00"`. A job starts only if its time
    limit ends before. Empty: for ever.

    Who has the server for a time: in a Slurm job, or lent."""
    order: tuple[str, ...] = setting((), v.gpu_order)
    """Types, indices and UUIDs (or their beginnings), best first: `["a100", "a6000", 3]`. The rest
    come last. A job's own `--prefer-gpus` and `--avoid-gpus` come first.

    A site with unlike GPUs."""
    isolate: bool = setting(True, v.switch)
    """Let the kernel deny jobs the GPUs that they were not given
    ([security.md](security.md#gpus)). Root only.

    A site whose jobs need a GPU beyond their own, as for a monitor."""
    misplaced: str = setting("notify", v.choice("notify", "cancel"))
    """What follows when a job uses a GPU that it was not given, which `isolate` prevents: `notify`
    (its user is warned), or `cancel`: a minute later the job is cancelled, if it holds more there
    than a CUDA context (1.5 GiB).

    A site whose daemon is not root, or whose jobs are not isolated."""
    memory_caps: bool = setting(True, v.switch)
    """Let the driver cap the memory of jobs that share a GPU without MPS, where it can
    ([mps.md](administrators.md#caps-by-the-driver)). Root only.

    A site whose jobs allocate more than they use."""


@dataclass(frozen=True, slots=True)
class ProgressConfig:
    """What jobs report of their progress ([progress-reports.md](progress-reports.md))."""

    interval_s: float = setting(10.0, v.between(1, 3600))
    """Least time between two reports of a job to planners, 1 to 3600.

    A site that plays with planners of running jobs, or has thousands of them."""


@dataclass(frozen=True, slots=True)
class CheckpointConfig:
    """Requests to running jobs to save their work."""

    patience_s: float = setting(300.0, v.between(1, 86_400))
    """Time for a job to save after a request, 1 to 86400; at least three times its
    `--checkpoint-cost`.

    A site whose jobs save many GiB."""


@dataclass(frozen=True, slots=True)
class DeadlinesConfig:
    """What late jobs cost (`--due`, `--weight`)."""

    cost_per_hour: float = setting(1.0, v.between(0, 1e9))
    """Cost of an hour's delay of a job with weight 1, in `energy.currency`.

    A site that pays for lateness, to weigh it against energy."""


@dataclass(frozen=True, slots=True)
class EnergyConfig:
    """What [energy](administrators.md#energy) costs."""

    price: float | Mapping[str, float] = setting(0.25, v.price)
    """Price of a kWh. By local hour: `{ "00:00" = 0.18, "06:00" = 0.31, "22:00" = 0.18 }`.

    A site that wants costs in its reports, from its contract."""
    pue: float = setting(1.33, v.between(1, 10))
    """Energy of the site for each part that its servers use, 1 to 10.

    A site that knows the figure of its machine room."""
    currency: str = setting("EUR", v.currency)
    """The currency of all costs.

    A site outside the euro."""
    node_watts: Mapping[str, tuple[float, ...]] = setting(dict, v.node_watts)
    """Power of a whole server by the number of its GPUs in use, for each type of GPU, as in
    `--gpu-type`: `{ "V100" = [530, 700], "T4" = [400] }`. Without it planners count only the GPUs.

    A site that has measured its servers, for planner `andreas`."""
    wait_for_cheap: bool = setting(False, v.switch)
    """Let planner `deadline` hold a job back until energy is cheaper, if it surely ends in time.

    A site whose price changes with the hour."""


@dataclass(frozen=True, slots=True)
class SlotsConfig:
    """Time slots: a running job that can save its work gives way to waiting jobs."""

    length_s: float = setting(0.0, v.slot)
    """Length of a slot, 60 to 31536000; 0: none.

    A site where long jobs hold all GPUs."""
    warn_s: float = setting(600.0, v.between(0, 31_536_000))
    """The job is asked to save this long before its slot ends; less than `length_s`.

    A site whose jobs save slowly."""


@dataclass(frozen=True, slots=True)
class IdleConfig:
    """Running jobs that leave all their GPUs idle ([idle.md](administrators.md#idle-jobs))."""

    action: str = setting("off", v.choice("off", "notify", "requeue", "cancel"))
    """What follows: `notify` (only a warning), `requeue`, `cancel`, or `off`: sessions of
    `radrm run` are warned, and no other jobs.

    A site whose users forget sessions or hung jobs."""
    smact_below: float = fixed(0.05)
    """SM activity below this is idle: a driver's own work shows a few percent."""
    for_s: float = setting(1800.0, v.between(60, 31_536_000))
    """Idle time before the warning, 60 to 31536000.

    A site whose jobs rest between steps."""
    warmup_s: float = fixed(600.0)
    """Time after a job's start that does not count: imports, downloads, data."""
    warn_s: float = setting(600.0, v.between(60, 31_536_000))
    """Time from the warning to the action, 60 to 31536000.

    A site that gives its users longer to react."""
    interactive_for_s: float = setting(0.0, v.none_or(v.between(60, 31_536_000)))
    """`for_s` of sessions of `radrm run`, 60 to 31536000; 0: `for_s`.

    A site where people think between two commands."""


@dataclass(frozen=True, slots=True)
class RetentionConfig:
    """Finished jobs that are kept; 0: all. Unfinished jobs, what estimators have learned, and
    users' files stay."""

    finished_days: float = setting(180.0, v.none_or(v.between(1, 36_500)))
    """Time for which finished jobs are kept, 1 to 36500. An array counts from its last end.

    A site with rules on how long records of persons may, or must, be kept."""
    finished_jobs: int = setting(100_000, v.none_or(v.whole(100, 10**9)))
    """Finished jobs of one user that are kept, from 100: the newest. None goes in its first hour.

    A site with little room in `/var`: a job takes about 2 KiB."""
    refused_mib: int = fixed(1024)
    """Size of all files together that lay in the spool and were no envelopes. The oldest go."""

    @property
    def words(self) -> str:
        """For how long finished jobs are kept, for users."""
        limits = [
            f"{self.finished_days:g} days" if self.finished_days else "",
            f"the newest {self.finished_jobs} of a user" if self.finished_jobs else "",
        ]
        return ", ".join(filter(None, limits)) or "no limit now"


@dataclass(frozen=True, slots=True)
class NotifyConfig:
    """Notices to users about their jobs ([notices.md](notices.md))."""

    default: tuple[str, ...] = setting((), v.targets)
    """Targets for jobs that name none, as `--notify` takes them: `["mail:fail"]`.

    A site that wants all users told of failures."""
    kinds: tuple[str, ...] = setting(("mail", "webhook", "command"), v.kinds)
    """The kinds of target that jobs may have.

    A site that sends no data to other servers, or has no mail."""
    per_hour: int = fixed(60)
    """Notices of one user in an hour. More of them are not sent."""
    mail_from: str = setting("", v.sender)
    """The sender of mails; empty: the user, as `sendmail` says.

    A site whose mail server refuses the users' names."""
    mail_domain: str = setting("", v.domain)
    """The domain of the target `mail`, USER@DOMAIN; empty: the user's mailbox on this server.

    A site whose users read their mail elsewhere."""
    sendmail: str = fixed("/usr/sbin/sendmail")
    """The program that sends mails, where all mail servers for Unix put it."""


@dataclass(frozen=True, slots=True)
class LimitsConfig:
    """What each user may have of the daemon of the whole server. `0` is no limit, but for two:
    with `reserved_gpu_hours` and `priority_max` at `0`, only root reserves and raises jobs. Root
    has no limits, and a user's own daemon applies none. A changed limit stops nothing that runs."""

    queued_jobs: int = setting(100_000, v.whole(0, 10**9))
    """Jobs that wait, held ones included; each element of an array counts. Further submissions wait
    in the spool.

    A site with many users, whose lines must stay readable."""
    running_jobs: int = setting(0, v.whole(0, 10**9))
    """Jobs that run at a time. Without this limit, the GPUs, and `core.gpuless_at_once`, bound
    them.

    A site that leaves room for others at any time."""
    gpus: int = setting(0, v.whole(0, 10**9))
    """GPUs that all running jobs have together. Each job counts its GPUs: one that two jobs share
    counts twice. A MIG instance counts as one.

    A site that leaves GPUs for others at any time."""
    reserved_gpu_hours: float = setting(0.0, v.between(0, 1e6))
    """GPU-hours that a user may have reserved for itself at a time (`radrm reserve`). `0`: only
    root reserves.

    A site that lets its users reserve GPUs."""
    array_size: int = fixed(100_000)
    """Elements of an array: more do not fit in the queue either."""
    environment_kib: int = fixed(512)
    """The environment that a job is submitted with, in KiB: far more than shells have."""
    priority_max: int = setting(0, v.whole(-1000, 1000))
    """The highest `--priority` of a user's job, -1000 to 1000. `0`: only root raises jobs above
    the others.

    A site that trusts its users with priorities."""
    spool_files: int = fixed(50_000)
    """Submissions that wait in the spool: `radrm submit` puts no more there. The daemon moves what
    is beyond to the folder `refused`."""
    spool_mib: int = fixed(1024)
    """The same in MiB."""
    connections: int = fixed(64)
    """Open connections to the daemon, which has 256 in all."""
    requests_per_s: float = fixed(200.0)
    """Mean rate of requests and connections to the daemon, after a burst of ten times as many.
    More of them wait; one that would wait for more than 10 s is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The whole configuration of a site or a user."""

    goal: str = setting("sharing", v.choice("sharing", "throughput", "turnaround", "published"))
    """What `policy = "auto"` aims at: `sharing`, `throughput`, `turnaround` or `published`. See
    [policies.md](policies.md#goals).

    A site that knows what it wants: much work in all, or short waits."""
    policy: str = setting("auto", v.name)
    """Chooses a job's GPUs; `auto`: the goal's policy.

    Who repeats a paper, or wants no sharing."""
    order: str = setting("auto", v.name)
    """Sorts the waiting jobs; `auto`: the goal's order with `policy = "auto"`, else `fifo`.

    A site that wants turns by submission, by users or by due times."""
    planner: tuple[str, ...] = setting(("auto",), v.planners)
    """Decides what starts and changes; `auto`: the goal's planner with `policy = "auto"`, else
    `strict`. A list runs several in this order: `["auto", "mine"]`, or `"auto+mine"`. Exactly one
    of them starts waiting jobs.

    A site with due times, elastic jobs or a planner of its own."""
    estimator: str = setting("auto", v.name)
    """Predicts the needs of jobs that declare none; `auto` combines several.

    Who compares estimators, or wants declared needs only."""
    recovery: str = setting("exclusive", v.name)
    """Decides what follows a GPU out-of-memory.

    A site that wants no second try, or one beside others."""
    collocation: Collocation = setting(Collocation.AUTO, v.collocation)
    """How jobs share a GPU by default: `exclusive`, `timeslice`, `mps`, or `auto`: MPS where it is
    enabled, else time-slicing.

    A site with MPS that uses it only for jobs that ask."""
    device_ids: str = setting("uuid", v.choice("uuid", "index"))
    """How `CUDA_VISIBLE_DEVICES` names a job's GPUs: `uuid`, or `index` for programs that need
    it.

    A site whose programs read numbers."""

    hints: bool = setting(True, v.switch)
    """End `radrm status` on a terminal with the two commands that its user needs next.

    A site whose users know them. One user's shell: `RADRM_HINTS=0`."""

    policies: RuleTables = setting(dict, v.every(v.table))
    orders: RuleTables = setting(dict, v.every(v.table))
    planners: RuleTables = setting(dict, v.every(v.table))
    estimators: RuleTables = setting(dict, v.every(v.table))
    recoveries: RuleTables = setting(dict, v.every(v.table))

    core: Mapping[str, float] = setting(
        dict, v.settings(dict.fromkeys(settings_of(CoreSettings), v.number))
    )
    gpus: GpusConfig = GpusConfig()
    mps: MpsConfig = MpsConfig()
    readings: ReadingsConfig = ReadingsConfig()
    estimation: EstimationConfig = EstimationConfig()
    unmanaged: UnmanagedConfig = UnmanagedConfig()
    node: NodeConfig = NodeConfig()
    progress: ProgressConfig = ProgressConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    deadlines: DeadlinesConfig = DeadlinesConfig()
    energy: EnergyConfig = EnergyConfig()
    slots: SlotsConfig = SlotsConfig()
    idle: IdleConfig = IdleConfig()
    retention: RetentionConfig = RetentionConfig()
    notify: NotifyConfig = NotifyConfig()
    limits: LimitsConfig = LimitsConfig()
    slurm: SlurmConfig = SlurmConfig()

    from_text: bool = fixed(False, compare=False)
    """Made from a file or `--set`, which have settings only. Python code (benchmarks, tests) can
    also give rules and core their fixed values."""

    @property
    def planners_joined(self) -> str:
        """The names of the planners in one word, as `--planner` takes them: `strict+mine`."""
        return "+".join(self.planner)

    def to_table(self) -> dict[str, Any]:
        """Return the whole configuration as a TOML file holds it."""
        table: dict[str, Any] = _in_file(self)
        if len(self.planner) == 1:
            table["planner"] = self.planner[0]
        if self.mps.enabled and self.mps.only:
            table["mps"]["enabled"] = _in_file(self.mps.only, "only")
        return table


_OF_GPUS = frozenset({"only"})
"""Settings that are indices and UUIDs: a file has an index as a number."""


def _in_file(value: Any, name: str = "") -> Any:
    """Return a value, or a table of settings, as a file holds it."""
    if is_dataclass(value):
        return {key: _in_file(getattr(value, key), key) for key in settings_of(type(value))}
    if isinstance(value, Mapping):
        return {key: _in_file(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return [int(w) if name in _OF_GPUS and w.isdecimal() else w for w in value]
    return value.value if isinstance(value, Enum) else value


# ------------------------------------------------------------------
# Whom the limits of `[limits]` hold for.


NO_LIMITS = LimitsConfig(
    queued_jobs=0,
    running_jobs=0,
    gpus=0,
    reserved_gpu_hours=0.0,
    array_size=0,
    environment_kib=0,
    priority_max=1000,
    spool_files=0,
    spool_mib=0,
    connections=0,
    requests_per_s=0.0,
)


class UserLimits(Struct, frozen=True):
    """The limits of each user. `shared`: of a daemon of the whole server; else nobody has any."""

    limits: LimitsConfig
    exempt: frozenset[int] = frozenset()
    shared: bool = True

    def of(self, uid: int) -> LimitsConfig:
        """Return a user's limits; `NO_LIMITS` for one without."""
        return self.limits if self.shared and uid not in self.exempt else NO_LIMITS


NOBODY = UserLimits(NO_LIMITS, shared=False)
"""No user has a limit."""


def limits_of(config: Config, system: bool, uid: int) -> UserLimits:
    """Return the limits that a daemon of this user applies. `system`: that of the whole server."""
    return UserLimits(config.limits if system else NO_LIMITS, frozenset({0, uid}), system)


def spool_room(limits: UserLimits) -> Callable[[int], tuple[int, int]]:
    """Return what gives the files and the bytes that a user may have in the spool; 0: any."""

    def room(uid: int) -> tuple[int, int]:
        mine = limits.of(uid)
        return mine.spool_files, mine.spool_mib << 20

    return room


def with_limits(config: Config, limits: UserLimits) -> Config:
    """Return a configuration with the limits that hold."""
    return replace(config, limits=limits.limits)
