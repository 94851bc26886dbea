"""One job of a trace: its submission, its needs, and its behaviour alone on a server."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from radrm.core.constraints.kinds import is_name_of
from radrm.core.records import Device, Estimate, Profiled
from radrm.errors import BadFile
from radrm.lab.simulator.traces.table import shown
from radrm.simulated.training import StepModel
from radrm.structs import replace


class TraceJob(Struct, frozen=True):
    """A line of a trace (design: `submit_s,name,gpus,duration_s,memory_mib,smact`).

    - `duration_s`: its duration alone on the server, with the start-up.
    - `memory_mib`: its peak per GPU. `smact`: its mean SM activity (0..1) alone.
    - `estimates`: estimates of its memory in MiB per GPU, by estimator. `declared`: they are
      the submitter's figures.
    - `weight`: the weight of its tardiness. `family` and `batch_size` give its share weight
      (`interference.model.share_weight`).
    - `line`: its line in the source.
    - `after`: the lines of jobs that must end first; `after_arrays`: the arrays that must.
      Unknown lines and arrays are ignored.
    - `array`: the name of its array, of which `at_once` jobs run at a time.
    - `cpus`: the CPUs that it can use at once; None: it needs hardly any. Not booked. Of an elastic
      job: those of each worker at its start, which are booked.
    - `loss_k`: its loss falls as exp(-loss_k x work done). `report_s`: the seconds between its
      reports of progress. `saves`: it can save its state; `checkpoint_s`: the seconds that it
      stands still for that; None: those of the scenario.
    - `profile`: its run times alone on kinds and numbers of GPUs, by a word of the kind's name;
      `duration_s` holds for the others.
    - `gpus` 0 and `cpus_max`: it has parameter servers and workers, which are not on GPUs.
    - `gpus_max`: it may run on as many GPUs, one worker each; `gpus` are the fewest. `cpus_max`:
      the most CPUs that a worker can use. `io_s`, `compute_s`, `sync_s`: its step (see below).
    - `predicted`: what was known of its SM activity and duration when it really ran.
    """

    submit_s: float
    name: str
    gpus: int
    duration_s: float
    memory_mib: float
    smact: float
    estimates: Mapping[str, float] = field(default_factory=dict)
    declared: bool = False
    user: str = "user"
    priority: int = 0
    due_s: float | None = None
    weight: float = 1.0
    batch_size: int | None = None
    family: str | None = None
    steady_mib: float | None = None
    """Its memory after the peak. None: the simulator draws it as a part of the peak."""
    line: int = 0
    after: tuple[int, ...] = ()
    after_arrays: tuple[str, ...] = ()
    array: str | None = None
    at_once: int | None = None
    cpus: float | None = None
    loss_k: float | None = None
    report_s: float | None = None
    saves: bool = False
    checkpoint_s: float | None = None
    profile: tuple[Profiled, ...] = ()
    predicted: tuple[Estimate, ...] = ()
    gpus_max: int | None = None
    cpus_max: float | None = None
    io_s: float | None = None
    compute_s: float | None = None
    sync_s: float | None = None
    command: str | None = None
    """Its command line, for `radrm trace run` on real GPUs. The simulator does not read it."""

    @property
    def can_save(self) -> bool:
        """Whether it can save its state and go on from it."""
        return self.saves or bool(self.checkpoint_s)

    @property
    def elastic(self) -> bool:
        """Whether it may run with more GPUs, or more CPUs, than at its start."""
        return self.gpus_max is not None or self.cpus_max is not None


# ------------------------------------------------------------------
# The columns of a trace that give a job's run time on a kind of GPU.
#
#     duration_s@V100        alone on one GPU whose name has the word V100
#     duration_s@2xV100      alone on two of them
#
# A job with several of these may run on as many GPUs as any of them names.


_PREFIX = "duration_s@"
_KIND = re.compile(r"(?:([1-9]\d{0,3})x)?(?!\d+x)([a-z0-9][a-z0-9 ._-]{0,99})", re.IGNORECASE)
_MOST_COLUMNS = 256


def duration_columns(names: Sequence[str], source: str) -> list[tuple[str, int, int]]:
    """Return the kind, the number of GPUs and the place of each of these columns.

    Raises `BadFile`.
    """
    found: list[tuple[str, int, int]] = []
    for at, name in enumerate(names):
        if not name.startswith(_PREFIX):
            continue
        written = _KIND.fullmatch(name.removeprefix(_PREFIX))
        if written is None:
            raise BadFile(
                f"{source} line 1: column {shown(name)} names no kind of GPU; write "
                "duration_s@V100 or duration_s@2xV100"
            )
        kind, gpus = written[2], int(written[1] or 1)
        if any(gpus == other and kind.casefold() == named.casefold() for named, other, _ in found):
            raise BadFile(f"{source} line 1: two columns give the run time on {gpus} x {kind}")
        found.append((kind, gpus, at))
    if len(found) > _MOST_COLUMNS:
        raise BadFile(f"{source} line 1: more than {_MOST_COLUMNS} columns {_PREFIX}")
    return found


def column_of(each: Profiled) -> str:
    """Return the name of the column of a run time."""
    return f"{_PREFIX}{'' if each.gpus == 1 else f'{each.gpus}x'}{each.kind}"


def seconds_on(job: TraceJob, gpu: str, gpus: int) -> float:
    """Return a job's run time alone on so many GPUs of this name.

    More GPUs than it has a figure for do not help; without any for this kind, and for fewer than
    its least figure, it is `duration_s`.
    """
    known = [each for each in job.profile if each.gpus <= gpus and is_name_of(gpu, each.kind)]
    return max(known, key=lambda each: each.gpus).duration_s if known else job.duration_s


def most_of_each(devices: Iterable[Device]) -> dict[str, int]:
    """Return the most GPUs that one server has of each name."""
    counts = Counter((device.name, device.node) for device in devices)
    most: dict[str, int] = {}
    for (name, _), count in counts.items():
        most[name] = max(most.get(name, 0), count)
    return most


def profile_there(job: TraceJob, most: Mapping[str, int]) -> tuple[Profiled, ...]:
    """Return a job's run times on so many GPUs of these names as a server has, by their names."""
    if not job.profile:
        return ()
    return tuple(
        Profiled(name, each.gpus, each.duration_s)
        for name, count in most.items()
        for each in job.profile
        if each.gpus <= count and is_name_of(name, each.kind)
    )


# ------------------------------------------------------------------
# How long a training step takes with so many workers: columns `io_s compute_s sync_s`.
#
#     step(n, c) = io_s x cpus / min(c, cpus_max) + compute_s / n + sync_s x (n - 1)
#
# in seconds, for n workers (one per GPU) with c CPUs each. The global batch is the same for any n.
#
# - `io_s`: the wait for data, if each worker has `cpus` CPUs; with more CPUs it becomes shorter, up
#   to `cpus_max`. A worker uses `io_s x cpus` CPU seconds a step for its data.
# - `compute_s`: the computing of one worker alone; workers share it out.
# - `sync_s`: what each further worker adds, for the exchange of gradients.
#
# A job with `gpus` 0 has parameter servers and workers instead (`server_steps`), by equation 1 of
# DLRover: a worker reads data for `io_s`; it computes for `compute_s` with `cpus` CPUs, and faster
# with up to `cpus_max`; a server with `cpus` CPUs updates all parameters in `sync_s`.
#
# A job without these columns computes only, so it is n times as fast with n times the GPUs. A
# trace's `duration_s` holds for the smallest size: `gpus` workers with `cpus` CPUs each.


ELASTIC = ("gpus_max", "cpus_max", "io_s", "compute_s", "sync_s")
"""The columns of elastic jobs. 0 means the same as an empty cell."""


class StepTimes(Struct, frozen=True):
    """The parts of a job's step in seconds, its fewest workers, and the range of their CPUs."""

    io_s: float
    compute_s: float
    sync_s: float
    workers: int
    cpus: float | None = None
    cpus_max: float | None = None

    def wait_s(self, cpus: float | None = None) -> float:
        """Return the part of a step in which workers with so many CPUs each wait for data."""
        if self.cpus is None or cpus is None:
            return self.io_s
        return self.io_s * self.cpus / min(cpus, self.cpus_max or self.cpus)

    def step_s(self, workers: int, cpus: float | None = None) -> float:
        """Return the time of a step; `cpus` None: those of the smallest size."""
        return self.wait_s(cpus) + self.compute_s / workers + self.sync_s * (workers - 1)

    @property
    def least_size_s(self) -> float:
        """The time of a step at the smallest size."""
        return self.step_s(self.workers)

    def pace(self, workers: int, cpus: float | None = None) -> float:
        """Return how many times as fast the job is as at its smallest size."""
        return self.least_size_s / self.step_s(workers, cpus)

    def data_wait(self, workers: int, cpus: float | None = None) -> float:
        """Return the part of a step (0..1) in which the workers wait for data."""
        return self.wait_s(cpus) / self.step_s(workers, cpus)

    def activity(self, workers: int, cpus: float | None = None) -> float:
        """Return a GPU's SM activity as a multiple of that at the smallest size.

        GPUs are as active as they compute: each of more workers computes less of a step.
        """
        return self.pace(workers, cpus) * self.workers / workers

    def cpu_s(self, steps: float) -> float | None:
        """Return the CPU seconds of a worker for so many steps; None if its CPUs are unknown."""
        return None if self.cpus is None else steps * self.io_s * self.cpus


def server_steps(job: TraceJob) -> StepModel:
    """Return the step of a job with parameter servers."""
    io_s, compute_s, sync_s = _parts(job)
    cpus = job.cpus or 1.0
    most = max(cpus, job.cpus_max or cpus)
    return StepModel(io_s, compute_s * cpus / most, sync_s, most, sync_s * cpus)


def _parts(job: TraceJob) -> tuple[float, float, float]:
    parts = job.io_s or 0.0, job.compute_s or 0.0, job.sync_s or 0.0
    return parts if any(parts) else (0.0, 1.0, 0.0)


def step_times(job: TraceJob) -> StepTimes | None:
    """Return the step of an elastic job of a trace on GPUs; None for another job."""
    if not job.elastic or not job.gpus:
        return None
    return StepTimes(*_parts(job), job.gpus, job.cpus, job.cpus_max)


def best_of(job: TraceJob) -> tuple[float, float]:
    """Return the least GPU time and the least run time of an elastic job at any of its sizes, as
    parts of those at its smallest size. With parameter servers there is no such bound: 0."""
    steps = step_times(job)
    if steps is None:
        return 0.0, 0.0
    sizes = range(job.gpus, (job.gpus_max or job.gpus) + 1)
    paces = [steps.pace(workers, job.cpus_max) for workers in sizes]
    # An activity above 1 is cut off: the GPU then does less work than the model counts.
    loads = [
        min(1.0, job.smact * steps.activity(n, job.cpus_max)) * n / pace
        for n, pace in zip(sizes, paces, strict=True)
    ]
    whole = job.smact * job.gpus
    return (min(loads) / whole if whole else 1.0), 1 / max(paces)


def with_sizes(
    job: TraceJob, gpus_max: int, cpus_max: float | None, parts: Sequence[float | None]
) -> TraceJob:
    """Return a job with its largest size and the parts of its step. Raises ValueError."""
    if gpus_max and gpus_max < job.gpus:
        raise ValueError(f"gpus_max {gpus_max} is below gpus {job.gpus}, which is the fewest")
    if cpus_max and cpus_max < (job.cpus or cpus_max + 1):
        start = f"cpus {job.cpus:g}, with which it starts" if job.cpus else "what it starts with"
        raise ValueError(f"cpus_max {cpus_max:g} is below {start}; write cpus, too")
    if gpus_max and job.profile:
        raise ValueError("gpus_max and duration_s@KIND both say how it scales; leave one out")
    if not job.gpus and (gpus_max or not cpus_max):
        raise ValueError("gpus 0 is for parameter servers: write cpus and cpus_max, no gpus_max")
    io_s, compute_s, sync_s = parts
    return replace(
        job,
        gpus_max=gpus_max or None,
        cpus_max=cpus_max,
        io_s=io_s,
        compute_s=compute_s,
        sync_s=sync_s,
    )
