"""How much more or less the CUDA context takes here than an estimator assumes.

A context depends on the kind of GPU, the driver and the CUDA that a program was built with:
1.7 GiB where all kernels are loaded at once, 0.5 GiB where they are loaded when they are
needed. It is the same for small jobs and large ones, so it is corrected by a difference,
before anything is learned of an estimator's ratios.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from radrm.core.records import Estimate
from radrm.core.rules import Description, PastRun

LEAST_RUNS = 3
"""So many runs tell a context; fewer may all be off for reasons of their own."""
COUNTED_IN = ("trace", "summary")
"""The estimators whose figures hold a context apart from the tensors, the surer first."""
SMALLEST_MIB = 64.0
LARGEST_MIB = 8192.0
"""No context is smaller or larger; what says so tells of something else."""

Software = tuple[str | None, str | None]
"""The driver's version, and that of the program's CUDA; None: not known."""


@dataclass(frozen=True, slots=True)
class Correction:
    """`shift_mib` is added to the figure, `why` is for the user. `runs`: past runs, each with
    what is added to its own figure, that tell of an estimator's other errors."""

    shift_mib: float = 0.0
    why: str | None = None
    runs: tuple[tuple[PastRun, float], ...] = ()


def correction(told: Estimate, job: Description, runs: Sequence[PastRun]) -> Correction:
    """What the context of this job's software does to a figure. `runs`: the latest first, on
    its kind of GPU."""
    context_mib = told.context_mib
    if told.source not in COUNTED_IN or context_mib is None:
        return Correction(runs=tuple((run, 0.0) for run in runs))
    mine: Software = (job.driver, told.cuda)
    shifts = _learned(runs)
    measured_mib = _measured(job.contexts, told.cuda)
    if measured_mib is not None:
        shift_mib = measured_mib - context_mib
        why = f"{measured_mib:.0f} MiB, measured on this machine"
    elif mine in shifts:
        shift_mib = max(shifts[mine], SMALLEST_MIB - context_mib)
        count = sum((run.driver, run.cuda) == mine for run in runs)
        why = f"{context_mib + shift_mib:.0f} MiB, learned from {count} runs on this machine"
    else:
        shift_mib, why = 0.0, f"{context_mib:.0f} MiB, assumed: it is not measured here"
    shifts[mine] = shift_mib
    known = [(run, shifts.get((run.driver, run.cuda))) for run in runs]
    usable = tuple((run, shift) for run, shift in known if shift is not None)
    return Correction(shift_mib, f"CUDA context: {why}", usable)


def _measured(contexts: Mapping[str, float], cuda: str | None) -> float | None:
    """Of a program whose CUDA is not known the largest there is."""
    sound = {k: mib for k, mib in contexts.items() if SMALLEST_MIB <= mib <= LARGEST_MIB}
    if cuda is None:
        return max(sound.values(), default=None)
    return sound.get(cuda)


def _learned(runs: Sequence[PastRun]) -> dict[Software, float]:
    """By software: the median of what was measured less what was said, from three runs on."""
    found: dict[Software, dict[float, list[float]]] = {}
    for run in runs:
        said = next((run.told[name] for name in COUNTED_IN if run.told.get(name, 0.0) > 0), None)
        if said is not None:
            of_software = found.setdefault((run.driver, run.cuda), {})
            of_software.setdefault(said, []).append(run.peak_mib - said)
    # Of the same thing, run again and again, the error counts once.
    return {
        software: max(-LARGEST_MIB, min(LARGEST_MIB, median(map(median, off.values()))))
        for software, off in found.items()
        if sum(map(len, off.values())) >= LEAST_RUNS
    }
