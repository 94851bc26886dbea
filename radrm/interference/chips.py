"""SMs and largest SM clock of common GPUs, for figures about a GPU that is not here.

Of GPUs that are here the driver tells both. SMs: NVIDIA's architecture white papers; clocks: what
`nvidia-smi -q -d CLOCK` prints as `Max Clocks` for the SXM form, where there is one.
"""

from __future__ import annotations

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
