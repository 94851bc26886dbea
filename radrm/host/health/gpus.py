"""The driver and its GPUs.

`look` asks `pynvml` a few questions that no reading needs. `radrm.host.gpus.nvml` makes the
readings of a daemon.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from radrm.core.units import gpus_named
from radrm.host.health.finding import Finding, fail, ok, warn

if TYPE_CHECKING:
    from radrm.host.gpus import nvml

_NVIDIA = "0x10de"
_EXCLUSIVE_PROCESS, _PROHIBITED = 3, 2
_OTHERWISE = "to run on simulated GPUs: radrm daemon --gpus sim:4xA100-40GB"


class Gpu(Struct, frozen=True):
    """The driver's facts about a GPU, without its readings. None is unknown."""

    index: int
    name: str
    mig: tuple[int, int] | None
    """Whether MIG is on now, and whether it will be on after a reset."""
    persistence: bool | None
    compute_mode: int | None


class Driver(Struct, frozen=True):
    """The driver and its GPUs. `reason` says why there is no GPU; `errors` are of single GPUs."""

    gpus: tuple[Gpu, ...] = ()
    reason: str | None = None
    errors: tuple[str, ...] = ()


def absent() -> str | None:
    """Why there is no driver to ask; None if there may be one. Asked first: the import of what
    reads GPUs takes most of the time of `radrm doctor`."""
    if os.environ.get("RADRM_NVML_LIBRARY"):
        return None
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return "the NVIDIA driver is not installed (no libnvidia-ml.so.1)"
    return None


def look(pynvml: Any, found: nvml.Found) -> Driver:
    """Ask the driver about its GPUs. Raises `DeviceError` if the driver stops meanwhile."""
    if found.gpus is None:
        return Driver(reason=found.reason)
    try:
        found.gpus.devices()  # finds the problems
        errors = found.gpus.problems
        count = found.gpus.count()
        gpus = tuple(g for g in (_gpu(pynvml, index) for index in range(count)) if g is not None)
        return Driver(gpus, None, errors)
    finally:
        found.gpus.close()


def _gpu(pynvml: Any, index: int) -> Gpu | None:
    """The GPU with this index; None if it cannot be reached (`Driver.errors` has the reason)."""
    handle = _asked(pynvml, pynvml.nvmlDeviceGetHandleByIndex, index)
    if handle is None:
        return None
    mig = _asked(pynvml, pynvml.nvmlDeviceGetMigMode, handle)
    persistence = _asked(pynvml, pynvml.nvmlDeviceGetPersistenceMode, handle)
    return Gpu(
        index=index,
        name=_text(_asked(pynvml, pynvml.nvmlDeviceGetName, handle) or "unknown"),
        mig=None if mig is None else (mig[0], mig[1]),
        persistence=None if persistence is None else bool(persistence),
        compute_mode=_asked(pynvml, pynvml.nvmlDeviceGetComputeMode, handle),
    )


def _asked(pynvml: Any, question: Callable[..., Any], *about: Any) -> Any:
    """The driver's answer to a question; None if it has none."""
    try:
        return question(*about)
    except pynvml.NVMLError:
        return None


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def devices(driver: Driver, hardware: bool) -> Finding:
    """Whether the GPUs can be used. `hardware`: the machine has NVIDIA devices on its bus."""
    name = "GPUs"
    if driver.reason is not None:
        if hardware:
            there = f"there is NVIDIA hardware, but it cannot be used: {driver.reason}"
            return fail(name, there, "see why: nvidia-smi; sudo dmesg | grep -i nvrm")
        return warn(name, f"none that can be used: {driver.reason}", _OTHERWISE)
    if driver.errors:
        return fail(
            name,
            "; ".join(driver.errors),
            "see why: nvidia-smi -q; the other GPUs can be used meanwhile",
        )
    counts: dict[str, int] = {}
    for gpu in driver.gpus:
        counts[gpu.name] = counts.get(gpu.name, 0) + 1
    return ok(name, ", ".join(f"{count} x {kind}" for kind, count in counts.items()))


def has_hardware(sys: Path = Path("/sys")) -> bool:
    """Whether the PCI bus has a display or compute device of NVIDIA."""
    for device in (sys / "bus/pci/devices").glob("*"):
        try:
            vendor, kind = ((device / f).read_text().strip() for f in ("vendor", "class"))
        except OSError:
            continue
        if vendor == _NVIDIA and kind.startswith("0x03"):
            return True
    return False


def mig(driver: Driver) -> Finding:
    name = "MIG"
    pending = [g.index for g in driver.gpus if g.mig is not None and g.mig[0] != g.mig[1]]
    if pending:
        step = (
            "when idle: sudo radrm mps stop --all; sudo systemctl stop radrmd; sudo nvidia-smi "
            f"--gpu-reset -i {_numbers(pending)}; sudo systemctl start radrmd"
        )
        return warn(name, f"a change of mode is pending on {gpus_named(pending)}", step)
    on = [g.index for g in driver.gpus if g.mig is not None and g.mig[0]]
    if on:
        return ok(name, f"on for {gpus_named(on)}")
    return ok(name, "off" if any(g.mig for g in driver.gpus) else "these GPUs have none")


def persistence(driver: Driver) -> Finding:
    name = "persistence mode"
    off = [g.index for g in driver.gpus if g.persistence is False]
    if off:
        slow = f"off for {gpus_named(off)}: the driver is loaded again for a job on an idle GPU"
        return warn(name, slow, "sudo nvidia-smi -pm 1")
    return ok(name, "on")


def compute_mode(driver: Driver, mps: bool) -> Finding:
    """Whether jobs can use the GPUs' compute mode.

    `mps`: they share through MPS, for which NVIDIA recommends the exclusive mode.
    """
    name = "compute mode"
    closed = [g.index for g in driver.gpus if g.compute_mode == _PROHIBITED]
    if closed:
        no_jobs = f"PROHIBITED on {gpus_named(closed)}: no job can run there"
        return fail(name, no_jobs, f"sudo nvidia-smi -c DEFAULT -i {_numbers(closed)}")
    alone = [g.index for g in driver.gpus if g.compute_mode == _EXCLUSIVE_PROCESS]
    if alone:
        fails = "a job that is no client of MPS fails there while a server runs"
        if not mps:
            fails = "without MPS the second job there fails ('all CUDA-capable devices are busy')"
        exclusive = f"EXCLUSIVE_PROCESS on {gpus_named(alone)}: {fails}"
        return warn(name, exclusive, f"sudo nvidia-smi -c DEFAULT -i {_numbers(alone)}")
    return ok(name, "DEFAULT")


def _numbers(indices: Sequence[int]) -> str:
    """As nvidia-smi takes them: `0,3`."""
    return ",".join(map(str, indices))
