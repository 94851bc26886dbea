"""The numbers of NVIDIA's device files.

/dev/nvidiaN has the major number 195 and the minor number N, which is no index of NVML and no
order of the PCI bus. /dev/nvidiactl, nvidia-modeset and nvidia-uvm belong to no GPU. A MIG instance
is used through its GPU's file and two files /dev/nvidia-caps/nvidia-capN, one for the GPU
instance and one for the compute instance. Their major number is in /proc/devices; their minor
numbers are a table of the driver, which is fixed while it is loaded.

Sources: nv-caps.c and nv-chardev-numbers.h of NVIDIA/open-gpu-kernel-modules; MIG User Guide,
"Device Nodes and Capabilities".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from radrm.host.processes.procfs import start_of

GPU_MAJOR = 195
SHARED_MINORS = frozenset({254, 255})
"""nvidia-modeset and nvidiactl."""

_TABLES = ("mig-minors", "nvlink-minors", "sys-minors")
_MOST_BYTES = 1 << 20
"""The table of 32 GPUs with 15 GPU instances of 8 compute instances each has about 110 kB."""
_LINE = re.compile(r"([\w/-]{1,127}) (\d{1,7})")
_OF_AN_INSTANCE = re.compile(r"gpu\d+/gi\d+/")


@dataclass(frozen=True, slots=True)
class Numbers:
    """`shared` are the minor numbers of `gpu_major` that every job may open.

    `caps_major` is that of nvidia-caps, None if the driver has none; `caps_shared` are its minor
    numbers that belong to no instance. `caps` has the others, by names as `gpu0/gi1/ci0/access`.
    """

    gpu_major: int = GPU_MAJOR
    shared: frozenset[int] = SHARED_MINORS
    caps_major: int | None = None
    caps_shared: frozenset[int] = frozenset()
    caps: Mapping[str, int] = field(default_factory=dict)


def read(proc: str = "/proc") -> Numbers:
    """Return the numbers of this machine."""
    major = _caps_major(start_of(f"{proc}/devices", _MOST_BYTES).decode("ascii", "replace"))
    if major is None:
        return Numbers()
    found: dict[str, int] = {}
    for table in _TABLES:
        text = start_of(f"{proc}/driver/nvidia-caps/{table}", _MOST_BYTES).decode(
            "ascii", "replace"
        )
        for line in text.splitlines():
            if (pair := _LINE.fullmatch(line.strip())) is not None:
                found[pair[1]] = int(pair[2])
    caps = {name: minor for name, minor in found.items() if _OF_AN_INSTANCE.match(name)}
    shared = frozenset(minor for name, minor in found.items() if name not in caps)
    return Numbers(caps_major=major, caps_shared=shared, caps=caps)


def _caps_major(devices: str) -> int | None:
    """Return the major number of nvidia-caps in the text of /proc/devices."""
    characters = devices.partition("Block devices:")[0]
    found = re.search(r"^\s*(\d{1,5}) nvidia-caps$", characters, re.MULTILINE)
    return int(found[1]) if found else None
