"""The size of the CUDA context here, compared with what an estimator assumes.

A context depends on the kind of GPU, the driver, and the CUDA that a program was built with.
It takes 1.7 GiB where all kernels are loaded at once (*eagerly*), and 0.5 GiB where each is loaded
when it is needed (*lazily*). It is equal for small and large jobs, so the correction is a
difference. It comes before the correction by an estimator's past ratios.

Without a measurement the versions decide (`loading`). The figures of estimators count an eager
context: so figures of different times, which are stored with runs, can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from msgspec import Struct

from radrm.core.records import Estimate
from radrm.estimators.interface import Description, PastRun
from radrm.estimators.memory import LAZY_CONTEXT_MIB, LAZY_KERNELS_MIB, context_mib

LEAST_RUNS = 3
"""The least number of runs that show the size of a context; fewer may differ for other reasons."""
COUNTED_IN = ("trace", "script", "summary")
"""The estimators whose figures have a context apart from the tensors, the more reliable first."""
SMALLEST_MIB = 64.0
LARGEST_MIB = 8192.0
"""No context is smaller or larger: such a figure has another cause."""
LAZY_MOST_MIB = 900.0
"""A bare context up to this size was loaded lazily."""

Software = tuple[str | None, str | None]
"""The versions of the driver and of the program's CUDA; None: unknown."""


class Correction(Struct, frozen=True):
    """`shift_mib` is added to the figure, and `why` tells the user. `runs` are the past runs that
    show the estimator's other errors, each with the shift of its own figure."""

    shift_mib: float = 0.0
    why: str | None = None
    runs: tuple[tuple[PastRun, float], ...] = ()


def correction(estimate: Estimate, job: Description, runs: Sequence[PastRun]) -> Correction:
    """Return the correction of a figure for the context of this job's software.

    `runs` are past runs on its kind of GPU, the latest first.
    """
    counted_mib = estimate.context_mib
    if estimate.source not in COUNTED_IN or counted_mib is None:
        return Correction(runs=tuple((run, 0.0) for run in runs))
    cuda = _version(estimate.cuda)
    mine: Software = (job.driver, cuda)
    shifts = _learned(runs)
    measured_mib = _measured(job.contexts, cuda)
    if measured_mib is not None:
        shift_mib = measured_mib - counted_mib
        if measured_mib <= LAZY_MOST_MIB:
            shift_mib -= _saved_mib(estimate)
        why = f"{measured_mib:.0f} MiB, measured on this machine"
    elif mine in shifts:
        shift_mib = max(shifts[mine], SMALLEST_MIB - counted_mib)
        count = sum(_software(run) == mine for run in runs)
        why = f"{counted_mib + shift_mib:.0f} MiB, learned from {count} runs on this machine"
    else:
        found = loading(job.driver, cuda, job.module_loading)
        shift_mib = 0.0
        if found.lazy:
            shift_mib = min(LAZY_CONTEXT_MIB - counted_mib, 0.0) - _saved_mib(estimate)
        size_mib = counted_mib + estimate.kernels_mib + shift_mib
        why = f"{size_mib:.0f} MiB, assumed: {found.why}"
    shifts[mine] = shift_mib
    known = [(run, shifts.get(_software(run))) for run in runs]
    usable = tuple((run, shift) for run, shift in known if shift is not None)
    return Correction(shift_mib, f"CUDA context: {why}", usable)


def _saved_mib(estimate: Estimate) -> float:
    """Return by how much an estimate counts more kernels than lazy loading loads."""
    return max(estimate.kernels_mib - LAZY_KERNELS_MIB, 0.0)


class Loading(Struct, frozen=True):
    """Whether kernels are loaded when they are needed, and the reason, for the user."""

    lazy: bool
    why: str


_LAZY_CUDA = (11, 7)
"""The first version of CUDA with lazy loading, on request."""
_LAZY_CUDA_DEFAULT = (12, 2)
"""The first version of CUDA that loads lazily by default on Linux (CUDA Programming Guide, Lazy
Loading). PyTorch requests it from 1.13 on, without effect if the program called
`torch.cuda.is_available()` before (issue 113326): with older CUDA a script may have either context,
and the larger one is assumed."""
_LAZY_DRIVER = 515
_LAZY_DRIVER_DEFAULT = 535
"""Likewise for the driver; 535 came with CUDA 12.2."""


def loading(driver: str | None, cuda: str | None, asked: str | None) -> Loading:
    """Return how a program loads its kernels, from what is known before its first run.

    `driver` and `cuda` are versions, `asked` is its CUDA_MODULE_LOADING. Without a version a
    present one is assumed: all PyTorch since 2.6 is built with CUDA that can load lazily.
    """
    word = (asked or "").strip().upper()
    major, built = _numbers(driver), _numbers(cuda)
    if major and major[0] < _LAZY_DRIVER:
        return Loading(False, f"driver {driver} loads all kernels at once")
    if built and built < _LAZY_CUDA:
        return Loading(False, f"CUDA {cuda} loads all kernels at once")
    if word in ("EAGER", "LAZY"):
        return Loading(word == "LAZY", f"CUDA_MODULE_LOADING={word}")
    if built and built < _LAZY_CUDA_DEFAULT:
        return Loading(False, f"CUDA {cuda} can load all kernels at once")
    if major and major[0] < _LAZY_DRIVER_DEFAULT:
        return Loading(False, f"driver {driver} can load all kernels at once")
    which = f"CUDA {cuda}" if built else "CUDA of version 12.2 or later"
    return Loading(True, f"{which} loads kernels when they are needed")


def assumed_mib(cuda: str | None, asked: str | None) -> float:
    """Return the context of a training step on an unknown GPU, with its kernels."""
    lazy = loading(None, _version(cuda), asked).lazy
    return LAZY_CONTEXT_MIB + LAZY_KERNELS_MIB if lazy else context_mib()


def _numbers(version: str | None) -> tuple[int, ...]:
    """Return the first two numbers of a version; none if it has another form."""
    parts = (version or "").split(".")[:2]
    if not all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts):
        return ()
    return tuple(map(int, parts))


def _version(cuda: str | None) -> str | None:
    """Return the version of CUDA. A PyTorch without CUDA says nothing about that of the job."""
    return None if cuda == "none" else cuda


def _software(run: PastRun) -> Software:
    return run.driver, _version(run.cuda)


def _measured(contexts: Mapping[str, float], cuda: str | None) -> float | None:
    """Return the measured size; for a program of unknown CUDA the largest one."""
    sound = {k: mib for k, mib in contexts.items() if SMALLEST_MIB <= mib <= LARGEST_MIB}
    if cuda is None:
        return max(sound.values(), default=None)
    return sound.get(cuda)


def _learned(runs: Sequence[PastRun]) -> dict[Software, float]:
    """Return, by software, the median of measured minus estimated, if there are three runs."""
    found: dict[Software, dict[float, list[float]]] = {}
    for run in runs:
        figure = next((run.told[name] for name in COUNTED_IN if run.told.get(name, 0.0) > 0), None)
        if figure is not None:
            of_software = found.setdefault(_software(run), {})
            of_software.setdefault(figure, []).append(run.peak_mib - figure)
    # Runs of the same job have the same error, so they count once.
    return {
        software: max(-LARGEST_MIB, min(LARGEST_MIB, median(map(median, off.values()))))
        for software, off in found.items()
        if sum(map(len, off.values())) >= LEAST_RUNS
    }
