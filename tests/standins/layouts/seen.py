"""What radrm must find on these servers, recorded or with the mock itself."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple


class Layout(NamedTuple):
    gpus: int
    name: str
    total_mib: int
    overhead_mib: int
    counters: bool
    """Whether the GPUs have hardware counters (GPM)."""
    nvlink: bool
    """Whether each GPU is linked to each."""
    idle_w: float


SEEN = {
    "a100": Layout(8, "NVIDIA A100-SXM4-40GB", 40960, 583, False, True, 72.0),
    "b200": Layout(8, "NVIDIA B200", 196608, 1024, True, False, 130.0),
    "gb200": Layout(8, "NVIDIA GB200", 196608, 1024, True, True, 145.0),
    "gb300": Layout(8, "NVIDIA GB300 NVL", 294912, 1536, True, True, 175.0),
    "h100": Layout(8, "NVIDIA H100 80GB HBM3", 81920, 1024, True, True, 95.0),
    "l40s": Layout(8, "NVIDIA L40S", 49152, 512, False, False, 45.0),
    "t4": Layout(4, "NVIDIA T4", 16384, 300, False, False, 12.0),
}
"""The mock's own figures; those of real GPUs differ a little. Its B200s have no NVLink."""


def repeated(lines: Iterable[str]) -> list[str]:
    """The lines that are said again for another GPU."""
    seen: set[str] = set()
    twice = []
    for line in lines:
        alike = re.sub(r"GPU [0-9]+\b|(GPU|MIG)-[0-9a-f-]+", "GPU", line)
        if alike in seen:
            twice.append(line)
        seen.add(alike)
    return twice
