"""SMs and largest SM clock of common GPUs, for figures about a GPU that is not here.

Of GPUs that are here the driver tells both. SMs: NVIDIA's architecture white papers; clocks: what
`nvidia-smi -q -d CLOCK` prints as `Max Clocks` for the SXM form, where there is one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from radrm.core.constraints.kinds import is_name_of
from radrm.core.records import Chip

_COMMON = (
    ("V100", 80, 1530),
    ("T4", 40, 1590),
    ("A100", 108, 1410),
    ("L4", 58, 2040),
    ("L40S", 142, 2520),
    ("H100", 132, 1980),
    ("H200", 132, 1980),
)


def chip_of(gpu_type: str, here: Iterable[Chip] = ()) -> Chip | None:
    """Return the chip of a type as users write it: one that is here, else a common one.

    None if nothing is known of it.
    """
    found = [chip for chip in here if is_name_of(chip.name, gpu_type)]
    known = sms_of(gpu_type)
    if not found and known is not None:
        return Chip(gpu_type, float(known[0] * known[1]))
    return found[0] if found else None


def sms_of(name: str) -> tuple[int, int] | None:
    """Return the SMs of a GPU of this name, and their largest clock (MHz); None: not common."""
    found = [(sms, mhz) for word, sms, mhz in _COMMON if is_name_of(name, word)]
    return found[0] if found else None


# ------------------------------------------------------------------
# SM activity from utilisation, for devices that tell no more.
#
# Utilisation, as `nvidia-smi` shows it, is the part of the time with any kernel. A kernel rarely
# fills all SMs, so SM activity is lower: by 0.05 to 0.08 from 0.5 on, and to a fifth where small
# kernels follow one another with gaps. The table is a least-squares fit to the 2,100 trainings of
# multilayer perceptrons on A100-40GB that GPUMemNet's study measured, whose utilisation is at most
# 0.89. Fitted on four fifths of them it is as good on the rest. The last line is a guess: the jobs
# of the published exclusive run show up to 0.93, many 0.6, and Lucid's pairs fit better with less
# than 0.92. `benchmarks.simulation.sharing` prints the errors.


SMACT_ERROR = 0.057
"""The root mean square error of these trainings: 0.02 below a utilisation of 0.2, 0.07 from there
to 0.5, 0.03 above. Of other kinds of models, and of other GPUs, nothing is known."""
_TABLE = (
    (0.0, 0.0),
    (0.1, 0.013),
    (0.2, 0.044),
    (0.3, 0.126),
    (0.4, 0.254),
    (0.5, 0.421),
    (0.6, 0.517),
    (0.7, 0.637),
    (0.8, 0.752),
    (0.88, 0.813),
    (1.0, 0.85),
)
_BY_SMACT = [smact for _, smact in _TABLE]


def utilization_at(smact: float) -> float:
    """Return the utilisation (0..1) at which this SM activity (0..1) is typical."""
    after = min(bisect_right(_BY_SMACT, smact), len(_TABLE) - 1)
    (low, from_smact), (high, to_smact) = _TABLE[after - 1], _TABLE[after]
    return min(1.0, max(0.0, low + (high - low) * (smact - from_smact) / (to_smact - from_smact)))


def smact_from_utilization(utilization: float) -> float:
    """Return the SM activity (0..1) that is typical at this utilisation (0..1)."""
    at = min(max(0.0, utilization), 1.0)
    after = min(bisect_right(_TABLE, (at, 2.0)), len(_TABLE) - 1)
    (low, from_smact), (high, to_smact) = _TABLE[after - 1], _TABLE[after]
    return from_smact + (to_smact - from_smact) * (at - low) / (high - low)
