"""Plan a launch: environment, limits and logs of a placement's processes.

docs/job-file.md lists the variables that describe a job's devices. Precedence, the last wins: the
submitted environment, what radrm sets, the job's own `--env`.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial

from msgspec import Struct, field

import radrm
from radrm import wings
from radrm.config import Config
from radrm.core.actions import Launch
from radrm.core.lifecycle.memory import told_mib
from radrm.core.records import Device, Job, Placement, Share, by_task
from radrm.core.words import CheckpointKind, Collocation, DeviceKind, Resizing
from radrm.daemon.checkpoints import Checkpoints
from radrm.daemon.launches import cpus_of, log_paths, memory_of, most_memory_of, weight_of
from radrm.daemon.progress import Reports
from radrm.daemon.slurm_variables import COMMANDS, login_shell, slurm_variables
from radrm.estimators.memory import LAZY_CONTEXT_MIB, LAZY_KERNELS_MIB
from radrm.host import isolation as bpf
from radrm.host.attempts.elastic.folders import ElasticFolders
from radrm.host.attempts.elastic.names import FOLDER_VARIABLE
from radrm.host.attempts.plan import LaunchPlan
from radrm.host.gpus.memory_caps import MemoryCaps
from radrm.host.isolation import Isolation
from radrm.host.mps.interface import Access, Mps
from radrm.host.notify import VARIABLES
from radrm.host.processes.affinity import NONE, listed, near
from radrm.host.processes.identity import Identity
from radrm.host.storage.spool import Envelope
from radrm.host.storage.submitted import Submission
from radrm.host.wall import wall_s
from radrm.jobfile.inherited import SET, SET_FOR_TASK, SUBMITTED_WITH, list_of, named_in
from radrm.jobfile.options import Options
from radrm.jobfile.relations import PARAM_VARIABLE
from radrm.jobfile.slurm import MARK

# These describe the submitter's shell, not the job.
_DEVICE_VARIABLES = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "NVIDIA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "CUDA_MPS_PIPE_DIRECTORY",
        "CUDA_MPS_LOG_DIRECTORY",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    }
)
# These belong to the service that submitted (a notebook server, for one), not to its jobs.
_OF_THE_SUBMITTER = _DEVICE_VARIABLES | frozenset(VARIABLES)
_PREALLOCATES = "XLA_PYTHON_CLIENT_PREALLOCATE"
# Frameworks that take the whole GPU prevent sharing. A job that sets these keeps its values.
_SHARING_VARIABLES = {
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    _PREALLOCATES: "false",
}
_XLA_FRACTIONS = ("XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION")
# The kernel limits CPU time, and a job still sees every CPU of the server. A program that starts a
# thread for each would spend its time in being stopped. A job that sets these keeps its values.
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "PYTHON_CPU_COUNT")
_PACKAGE = os.path.dirname(radrm.__file__)
_REPORT_PY = os.path.join(_PACKAGE, "report.py")
"""What a job's program imports or copies to report its progress, also where radrm is not
installed."""
_ELASTIC_PY = os.path.join(_PACKAGE, "elastic", "__init__.py")
"""The same for a program whose tasks can change."""
_IN_JOBS = os.path.join(_PACKAGE, "in_jobs")
"""The folder from which a job's program imports `radrm.report`."""
_LAUNCHER = "radrun"


class Site(Struct, frozen=True):
    """The properties of the server that a launch needs.

    `extra` goes into every job's environment (for example, the socket of the simulated GPUs).
    """

    device_ids: str
    checkpoints: Checkpoints
    reports: Reports
    elastic: ElasticFolders
    extra: Mapping[str, str]
    mps: Mps | None
    drop_privileges: bool
    grace_s: float
    kill_grace_s: float
    cpu_bind: str = NONE
    isolation: Isolation = field(default_factory=Isolation)
    caps: MemoryCaps | None = None


def needs_accounting(config: Config) -> bool:
    """Return whether control groups must count what jobs use: on version 1 that costs 12 ms a
    launch, and only planners of running jobs need it."""
    return not set(config.planner) <= {"strict", "backfill", "deadline"}


def plan_launch(
    action: Launch,
    job: Job,
    submission: Submission,
    devices: Sequence[Device],
    site: Site,
    progress: str = "",
) -> LaunchPlan:
    """The plan that the runner carries out. Raises `RadrmError` for an unusable job file.

    `progress` is the path of the attempt's progress socket, "" without one.
    """
    envelope, job_file = submission.envelope, submission.job_file()
    options, shares = job_file.options, action.placement.shares
    given = Given(job, action.placement, action.cap_mib, options, devices, site)
    cwd = os.path.join(envelope.cwd, options.chdir or "")
    as_slurm = envelope.environment.get(MARK) == "1"
    stdout, stderr = log_paths(job, action.number, options, cwd, as_slurm)
    environment = given.environment(action, envelope, progress, cwd)
    if options.snapshot is not None:  # the logs stay outside
        cwd = os.path.join(cwd, options.snapshot)
    ours = job.outer is None  # Slurm limits the processes of its steps
    rules = site.isolation.rules(devices) if ours else None
    access = given.access(action.placement.devices)
    program = job_file.program()
    login = login_shell(job_file.interpreter_words()) if COMMANDS in environment else None
    return LaunchPlan(
        serial=action.serial,
        job_id=job.id,
        attempt=action.number,
        uid=submission.uid if site.drop_privileges else None,
        gid=submission.gid if site.drop_privileges else None,
        user=job.spec.user,
        argv=program.words,
        script=program.script,
        interpreter=login or program.interpreter,
        cwd=cwd,
        snapshot=options.snapshot is not None,
        environment=environment,
        stdout=stdout,
        stderr=stderr,
        umask=envelope.umask,
        rlimits=envelope.rlimits,
        token=secrets.token_hex(16),
        grace_s=site.grace_s,
        kill_grace_s=site.kill_grace_s,
        cpus=cpus_of(shares) if ours else None,
        memory_mib=memory_of(job, shares) if ours else None,
        memory_most_mib=most_memory_of(job) if ours else None,
        cpu_weight=weight_of(shares) if ours else None,
        progress_pattern=options.progress_pattern,
        progress_file=options.progress_file,
        silent_s=options.silent_limit_s,
        cpu_list=cpus_near(shares, devices, options, site) if ours else None,
        binds_tasks=job.spec.resizing is Resizing.LIVE,
        waits_for_all=options.background == "wait",
        prepare=None if rules is None else partial(bpf.attach, rules=rules),
        ends_clients=access.ends_clients if access is not None else None,
        step=None if job.outer is None else Identity(*job.outer.step),
    )


def cpus_near(
    shares: Sequence[Share], devices: Sequence[Device], options: Options, site: Site
) -> list[int] | None:
    """The CPUs near all devices of these shares, on which their processes run; None: all."""
    scope = options.cpu_bind or site.cpu_bind
    return near(devices, scope, cpus_of(shares), os.sched_getaffinity(0))


class Given(Struct, frozen=True):
    """What a job is given: a placement with `devices`, in its order, each capped at `cap_mib`."""

    job: Job
    placement: Placement
    cap_mib: int | None
    options: Options
    devices: Sequence[Device]
    site: Site

    def access(self, uuids: Sequence[str]) -> Access | None:
        """What the job needs to be an MPS client on these devices; None: it is none."""
        mps, client = self.site.mps, self.placement.collocation is Collocation.MPS
        return mps.access(uuids) if mps is not None and client and uuids else None

    def environment(
        self, action: Launch, envelope: Envelope, progress: str, folder: str
    ) -> dict[str, str]:
        """The environment of one attempt.

        `folder`: the one in which it runs, or would run without `--snapshot`.
        """
        job, site, shares = self.job, self.site, self.placement.shares
        submitted, live = envelope.environment, job.spec.resizing is Resizing.LIVE
        environment = {k: v for k, v in submitted.items() if k not in _OF_THE_SUBMITTER}
        added = named_in(environment, SUBMITTED_WITH) if SUBMITTED_WITH in environment else {}
        environment.pop(SUBMITTED_WITH, None)
        defaults = _thread_variables(shares)
        if action.shared:
            defaults |= _SHARING_VARIABLES
        own = {name: value for name, value in defaults.items() if name not in environment}
        own |= {
            **site.extra,
            **self.variables(shares, self.devices, live),
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "RADRM_JOB_ID": str(job.id),
            "RADRM_JOB_NAME": job.spec.name,
            "RADRM_ATTEMPT": str(action.number),
            **_array_variables(job, submitted),
            "RADRM_CHECKPOINT_DIR": site.checkpoints.of(job),
            "RADRM_PROGRESS": progress,
            "RADRM_REPORT_PY": _REPORT_PY,
            "RADRM_SUBMIT_DIR": os.path.normpath(folder),
            "MASTER_PORT": str(free_port()),
        }
        if envelope.file is not None and not envelope.file.startswith(("/proc/", "/dev/")):
            own["RADRM_SCRIPT"] = envelope.file
        if job.spec.checkpoint.kind is not CheckpointKind.NONE:
            own["RADRM_CHECKPOINT_SIGNAL"] = str(job.spec.checkpoint.number)
        if live:
            own[FOLDER_VARIABLE] = site.elastic.of(action.serial)
            own["RADRM_ELASTIC_PY"] = _ELASTIC_PY
        if environment.get(MARK) == "1":
            own |= self._as_slurm(action, submitted)
        chosen = dict(self.options.env)
        if action.shared:
            own |= _xla_fraction(environment | own | chosen, shares, self.devices)
        environment |= own | chosen
        parameters = {k: v for k, v in chosen.items() if k.startswith(PARAM_VARIABLE)}
        rest = {k: v for k, v in (added | own).items() if k not in chosen}
        environment[SET] = list_of(rest | parameters)
        # At the end, so that no other program or module is found there first.
        as_slurm = environment.get(MARK) == "1" and job.outer is None  # there are Slurm's own
        path = _with_slurm(environment.get("PATH") or os.defpath, as_slurm)
        environment["PATH"] = _with_last(path, _folder_of_programs())
        environment["PYTHONPATH"] = _with_last(environment.get("PYTHONPATH", ""), _IN_JOBS)
        return environment

    def _as_slurm(self, action: Launch, submitted: Mapping[str, str]) -> dict[str, str]:
        """What an attempt of a job that was submitted as Slurm's gets."""
        job, shares = self.job, self.placement.shares
        near_them = cpus_near(shares, self.devices, self.options, self.site)
        every = os.sched_getaffinity(0) if near_them is None else near_them
        booked, memory_mib = cpus_of(shares), memory_of(job, shares)
        cpus = len(every) if booked is None else max(1, int(booked))
        its = action, job, submitted, self.devices, cpus, memory_mib
        found = slurm_variables(*its, os.uname().nodename, wall_s())
        # The programs with Slurm's names begin by it.
        programs = wings.programs("slurm")
        folder = {} if programs is None or job.outer is not None else {COMMANDS: programs}
        return {"RADRM_PYTHON": sys.executable, **folder, **found}

    def variables(
        self, shares: Sequence[Share], devices: Sequence[Device], live: bool
    ) -> dict[str, str]:
        """The variables about these shares of the placement, and their devices.

        `live`: the job's tasks can change while it runs.
        """
        site, options = self.site, self.options
        uuids = [device.uuid for device in devices]
        access = self.access(uuids)
        names = uuids
        isolated = site.isolation.rules(devices) is not None
        # While its tasks change, a job can open old and new GPUs, so no number is sure.
        if (options.device_ids or site.device_ids) == "index" and not (isolated and live):
            names = _by_index(devices, access, isolated)
        reserved = min((s.reserved_mib for s in shares if s.device is not None), default=0)
        cpus, bound = cpus_of(shares), cpus_near(shares, devices, options, site)
        found = {
            "CUDA_VISIBLE_DEVICES": ",".join(names),
            # A container engine does not count as a control daemon or an isolated process does.
            "NVIDIA_VISIBLE_DEVICES": ",".join(uuids if access or isolated else names) or "void",
            "RADRM_GPUS": str(len(self.placement.devices)),
            "RADRM_GPU_MEMORY_MIB": str(told_mib(self.job, self.cap_mib) or reserved or ""),
            "RADRM_CPUS": "" if cpus is None else f"{cpus:g}",
            "RADRM_CPU_LIST": "" if bound is None else listed(bound),
        }
        if access is not None:
            fraction = self.placement.sm_fraction
            found |= client_environment(access, len(uuids), self.cap_mib, fraction)
        elif site.mps is not None and devices and site.mps.empty_pipes is not None:
            found["CUDA_MPS_PIPE_DIRECTORY"] = site.mps.empty_pipes
        return found


def _xla_fraction(
    environment: Mapping[str, str], shares: Iterable[Share], devices: Iterable[Device]
) -> dict[str, str]:
    """The part of its GPUs that a job of JAX takes at its start: what is reserved, without the
    context. JAX itself would take three quarters, and as much of that as is free.

    Nothing for a job that does not insist on preallocation, or says how much it takes.
    """
    asks = environment.get(_PREALLOCATES, "") not in ("", "false", "False", "0")
    if not asks or any(environment.get(name) for name in _XLA_FRACTIONS):
        return {}
    total = {device.uuid: device.total_mib for device in devices}
    context = LAZY_CONTEXT_MIB + LAZY_KERNELS_MIB
    parts = [
        (share.reserved_mib - context) / total[share.device]
        for share in shares
        if share.device in total
    ]
    return {_XLA_FRACTIONS[0]: f"{max(min(parts), 0.01):.3f}"} if parts else {}


def _with_last(path: str, folder: str) -> str:
    """A search path with a folder as its last entry, unless it has it already."""
    if folder in path.split(os.pathsep):
        return path
    return f"{path}{os.pathsep}{folder}" if path else folder


def _with_slurm(path: str, wanted: bool) -> str:
    """A search path that begins with the programs that have Slurm's names; one without them for
    other jobs, which may have inherited it."""
    programs = wings.programs("slurm")
    if programs is None:
        return path
    others = [folder for folder in path.split(os.pathsep) if folder != programs]
    return os.pathsep.join([programs, *others] if wanted else others)


def _array_variables(job: Job, submitted: Mapping[str, str]) -> dict[str, str]:
    """What names the array and the element, empty outside arrays. Those of Slurm come from Slurm,
    which has set its variables for the step that submitted the job."""
    array, index = "", ""
    if job.array is not None:
        array, index = str(job.array.array_id), str(job.array.index)
    elif job.outer is not None:
        array = submitted.get("SLURM_ARRAY_JOB_ID", "")
        index = submitted.get("SLURM_ARRAY_TASK_ID", "")
    return {"RADRM_ARRAY_ID": array, "RADRM_ARRAY_TASK_ID": index}


def task_environments(
    job: Job,
    placement: Placement,
    cap_mib: int | None,
    submission: Submission,
    devices: Sequence[Device],
    site: Site,
) -> dict[tuple[str, int], dict[str, str]]:
    """What the environment of each task, by role and number, has in place of the attempt's.

    `devices` are those of the placement, in order. Raises `RadrmError` as `plan_launch` does.
    """
    options = submission.job_file().options
    given = Given(job, placement, cap_mib, options, devices, site)
    own, found = dict(options.env), {}
    for task, shares in by_task(placement.shares).items():
        uuids = {share.device for share in shares}
        its = [device for device in devices if device.uuid in uuids]
        threads = _thread_variables(shares)
        variables = {k: v for k, v in threads.items() if k not in submission.envelope.environment}
        variables |= given.variables(shares, its, live=True)
        found[task] = {key: text for key, text in variables.items() if key not in own}
        found[task][SET_FOR_TASK] = list_of(found[task])
    return found


def _thread_variables(shares: Iterable[Share]) -> dict[str, str]:
    """The variables that tell programs how many threads to start for these shares."""
    cpus = cpus_of(shares)
    return {} if cpus is None else dict.fromkeys(_THREAD_VARIABLES, str(max(1, int(cpus))))


def _by_index(devices: Sequence[Device], access: Access | None, isolated: bool) -> list[str]:
    """The devices' names for a job that asks for indices; a UUID where no index is sure.

    CUDA has no index for one instance of a GPU: 0 would be the first one. A control daemon numbers
    its GPU 0. In an isolated job CUDA counts only the GPUs that it can open (as in
    Slurm with ConstrainDevices=yes).
    """
    counted = sorted({device.index for device in devices})
    numbers = {d.uuid: counted.index(d.index) if isolated else d.index for d in devices}
    if access is not None:
        numbers = {device.uuid: place for place, device in enumerate(devices)}
    return [d.uuid if d.kind is DeviceKind.MIG else str(numbers[d.uuid]) for d in devices]


@cache
def _folder_of_programs() -> str:
    """Where `radrun` and the other programs for jobs lie: beside the program of this daemon, or
    where scripts are installed."""
    places = [os.path.dirname(os.path.abspath(sys.argv[0])), os.path.dirname(sys.executable)]
    places.append(sysconfig.get_path("scripts"))
    found = (place for place in places if os.access(os.path.join(place, _LAUNCHER), os.X_OK))
    return next(found, places[1])


def client_environment(
    access: Access, gpus: int, cap_mib: int | None, sm_fraction: float | None = None
) -> dict[str, str]:
    """The variables that make processes MPS clients. The cap is per process and device.

    The driver reads the SM fraction when a process makes its context, and never again.
    """
    environment = {"CUDA_MPS_PIPE_DIRECTORY": access.pipes}
    if access.logs is not None:
        environment["CUDA_MPS_LOG_DIRECTORY"] = access.logs
    percentages = [] if access.thread_percentage is None else [access.thread_percentage]
    if sm_fraction is not None:
        percentages.append(max(1, round(100 * sm_fraction)))
    if percentages:
        environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(min(percentages))
    if cap_mib is not None:
        limits = [f"{number}={cap_mib}M" for number in range(gpus)]
        environment["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = ",".join(limits)
    return environment


def free_port() -> int:
    """A TCP port that is free at this moment (for `torch.distributed`)."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
