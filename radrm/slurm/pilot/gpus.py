"""Which GPUs Slurm has given to the job of a pilot.

Theory of operation. Slurm numbers GPUs as the files of the driver are (/dev/nvidia0...), and puts
the numbers of a job's into CUDA_VISIBLE_DEVICES and SLURM_JOB_GPUS. With `ConstrainDevices` of
cgroup.conf the driver shows a job its own GPUs alone, and CUDA_VISIBLE_DEVICES counts from 0: then
all that it shows are the job's. Else it shows all GPUs of the node, and the numbers choose.

Source: https://slurm.schedmd.com/gres.html, "GPU Management", and sbatch(1), SLURM_JOB_GPUS.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from radrm.core.records import Device
from radrm.errors import Refused, plain

_MOST = 1024


def given(devices: Sequence[Device], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the UUIDs of the devices of a Slurm job among all that the driver shows.

    Raises `Refused` if there are none, or which they are is unknown.
    """
    visible = _words(environ.get("CUDA_VISIBLE_DEVICES", ""))
    if not visible or visible == ["NoDevFiles"]:
        raise Refused("this Slurm job has no GPU; ask for some: radrm pilot --gpus 2")
    if not all(word.isdecimal() for word in visible):
        return tuple(_named(word, devices) for word in visible)
    roots = sorted({device.parent or device.uuid for device in devices})
    if len(visible) in (len(devices), len(roots)):
        return tuple(device.uuid for device in devices)
    numbers = _words(environ.get("SLURM_JOB_GPUS", "")) or visible
    return tuple(_numbered(word, devices) for word in numbers)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")[:_MOST] if word.strip()]


def _named(word: str, devices: Sequence[Device]) -> str:
    for device in devices:
        if device.uuid.startswith(word):
            return device.uuid
    raise Refused(f"Slurm has given GPU {plain(word[:60])}, which the driver does not show here")


def _numbered(word: str, devices: Sequence[Device]) -> str:
    for device in devices:
        number = device.index if device.minor is None else device.minor
        if device.parent is None and word == str(number):
            return device.uuid
    raise Refused(
        f"Slurm has given GPU {plain(word[:20])}, and the driver shows none of this number here"
    )
