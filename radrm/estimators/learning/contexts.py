"""The size of the CUDA context here, compared with what an estimator assumes.

A context depends on the kind of GPU, the driver, and the CUDA that a program was built with.
It takes 1.7 GiB where all kernels are loaded at once, and 0.5 GiB where each is loaded when
it is needed. It is equal for small and large jobs, so the correction is a difference. It
comes before the correction by an estimator's past ratios.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from msgspec import Struct

from radrm.core.records import Estimate
from radrm.estimators.interface import Description, PastRun

LEAST_RUNS = 3
"""The least number of runs that show the size of a context; fewer may differ for other reasons."""
COUNTED_IN = ("trace", "script", "summary")
"""The estimators whose figures have a context apart from the tensors, the more reliable first."""
SMALLEST_MIB = 64.0
LARGEST_MIB = 8192.0
"""No context is smaller or larger: such a figure has another cause."""

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
    context_mib = estimate.context_mib
    if estimate.source not in COUNTED_IN or context_mib is None:
        return Correction(runs=tuple((run, 0.0) for run in runs))
    mine: Software = (job.driver, estimate.cuda)
    shifts = _learned(runs)
    measured_mib = _measured(job.contexts, estimate.cuda)
    if measured_mib is not None:
        shift_mib = measured_mib - context_mib
        why = f"{measured_mib:.0f} MiB, measured on this machine"
    elif mine in shifts:
        shift_mib = max(shifts[mine], SMALLEST_MIB - context_mib)
        count = sum((run.driver, run.cuda) == mine for run in runs)
        why = f"{context_mib + shift_mib:.0f} MiB, learned from {count} runs on this machine"
    else:
        shift_mib, why = 0.0, f"{context_mib:.0f} MiB, assumed: not measured on this machine"
    shifts[mine] = shift_mib
    known = [(run, shifts.get((run.driver, run.cuda))) for run in runs]
    usable = tuple((run, shift) for run, shift in known if shift is not None)
    return Correction(shift_mib, f"CUDA context: {why}", usable)


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
            of_software = found.setdefault((run.driver, run.cuda), {})
            of_software.setdefault(figure, []).append(run.peak_mib - figure)
    # Runs of the same job have the same error, so they count once.
    return {
        software: max(-LARGEST_MIB, min(LARGEST_MIB, median(map(median, off.values()))))
        for software, off in found.items()
        if sum(map(len, off.values())) >= LEAST_RUNS
    }
