"""The driver, its GPUs, MPS, SM activity.

`look` asks `pynvml` a few questions that no reading needs. `radrm.host.gpus.nvml` makes the
readings of a daemon.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from radrm.core.units import gpus_named
from radrm.host.gpus import nvml
from radrm.host.health.finding import Finding, fail, ok, warn
from radrm.host.processes.procfs import start_of

_NVIDIA = "0x10de"
_EXCLUSIVE_PROCESS, _PROHIBITED = 3, 2
_MPS_LIMITS_SINCE = 495
_MPS_CONTROL = "nvidia-cuda-mps-control"
_OTHERWISE = "to run on simulated GPUs: radrm daemon --gpus sim:4xA100-40GB"


@dataclass(frozen=True, slots=True)
class Gpu:
    """The driver's facts about a GPU, without its readings. None is unknown."""

    index: int
    name: str
    mig: tuple[int, int] | None
    """Whether MIG is on now, and whether it will be on after a reset."""
    persistence: bool | None
    compute_mode: int | None
    gpm: bool


@dataclass(frozen=True, slots=True)
class Driver:
    """The driver and its GPUs. `reason` says why there is no GPU; `errors` are of single GPUs."""

    gpus: tuple[Gpu, ...] = ()
    version: str | None = None
    reason: str | None = None
    errors: tuple[str, ...] = ()


def look(pynvml: Any, found: nvml.Found) -> Driver:
    """Ask the driver about its GPUs. Raises `DeviceError` if the driver stops meanwhile."""
    if found.gpus is None:
        return Driver(reason=found.reason)
    try:
        found.gpus.devices()  # finds the problems
        errors = found.gpus.problems
        version = _asked(pynvml, pynvml.nvmlSystemGetDriverVersion)
        count = found.gpus.count()
        gpus = tuple(g for g in (_gpu(pynvml, index) for index in range(count)) if g is not None)
        text = None if version is None else _text(version)
        return Driver(gpus, text, None, errors)
    finally:
        found.gpus.close()


def _gpu(pynvml: Any, index: int) -> Gpu | None:
    """The GPU with this index; None if it cannot be reached (`Driver.errors` has the reason)."""
    handle = _asked(pynvml, pynvml.nvmlDeviceGetHandleByIndex, index)
    if handle is None:
        return None
    mig = _asked(pynvml, pynvml.nvmlDeviceGetMigMode, handle)
    persistence = _asked(pynvml, pynvml.nvmlDeviceGetPersistenceMode, handle)
    gpm = _asked(pynvml, getattr(pynvml, "nvmlGpmQueryDeviceSupport", lambda _: None), handle)
    return Gpu(
        index=index,
        name=_text(_asked(pynvml, pynvml.nvmlDeviceGetName, handle) or "unknown"),
        mig=None if mig is None else (mig[0], mig[1]),
        persistence=None if persistence is None else bool(persistence),
        compute_mode=_asked(pynvml, pynvml.nvmlDeviceGetComputeMode, handle),
        gpm=bool(gpm is not None and gpm.isSupportedDevice),
    )


def _asked(pynvml: Any, question: Callable[..., Any], *about: Any) -> Any:
    """The driver's answer to a question; None if it has none."""
    try:
        return question(*about)
    except pynvml.NVMLError:
        return None


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


# ------------------------------------------------------------------ judging


def devices(driver: Driver, hardware: bool) -> Finding:
    """Whether the GPUs can be used. `hardware`: the machine has NVIDIA devices on its bus."""
    name = "GPUs"
    if driver.reason is not None:
        if hardware:
            there = f"there is NVIDIA hardware, but it cannot be used: {driver.reason}"
            return fail(name, there, "see what nvidia-smi and dmesg say")
        return warn(name, f"none that can be used: {driver.reason}", _OTHERWISE)
    if driver.errors:
        return fail(name, "; ".join(driver.errors), "the other GPUs can be used meanwhile")
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


def driver_version(driver: Driver) -> Finding:
    name, version = "GPU driver", driver.version
    if version is None:
        return warn(name, "its version is unknown", "see what nvidia-smi says")
    major = re.match(r"\d+", version)
    if major is not None and int(major[0]) < _MPS_LIMITS_SINCE:
        old = f"{version} has no memory limits for jobs under MPS"
        return warn(name, old, f"install {_MPS_LIMITS_SINCE} or newer")
    return ok(name, version)


def mig(driver: Driver) -> Finding:
    name = "MIG"
    pending = [g.index for g in driver.gpus if g.mig is not None and g.mig[0] != g.mig[1]]
    if pending:
        waits = f"a change of mode is pending on {gpus_named(pending)}"
        return warn(
            name,
            waits,
            "when idle: radrm mps stop --all, stop radrm, nvidia-smi --gpu-reset -i INDEX",
        )
    on = [g.index for g in driver.gpus if g.mig is not None and g.mig[0]]
    if on:
        return ok(name, f"on for {gpus_named(on)}")
    return ok(name, "off" if any(g.mig for g in driver.gpus) else "these GPUs have none")


def persistence(driver: Driver) -> Finding:
    name = "persistence mode"
    off = [g.index for g in driver.gpus if g.persistence is False]
    if off:
        slow = f"off for {gpus_named(off)}: the driver is loaded again for a job on an idle GPU"
        return warn(name, slow, "as root: nvidia-smi -pm 1")
    return ok(name, "on")


def compute_mode(driver: Driver, mps: bool) -> Finding:
    """Whether jobs can use the GPUs' compute mode.

    `mps`: they share through MPS, for which NVIDIA recommends the exclusive mode.
    """
    name = "compute mode"
    closed = [g.index for g in driver.gpus if g.compute_mode == _PROHIBITED]
    if closed:
        no_jobs = f"PROHIBITED on {gpus_named(closed)}: no job can run there"
        return fail(name, no_jobs, "as root: nvidia-smi -c DEFAULT -i INDEX")
    alone = [g.index for g in driver.gpus if g.compute_mode == _EXCLUSIVE_PROCESS]
    if alone and not mps:
        return warn(
            name,
            f"EXCLUSIVE_PROCESS on {gpus_named(alone)}: without MPS the second job there fails "
            "('all CUDA-capable devices are busy or unavailable')",
            "as root: nvidia-smi -c DEFAULT -i INDEX, or set policy = 'exclusive'",
        )
    if alone:
        return warn(
            name,
            f"EXCLUSIVE_PROCESS on {gpus_named(alone)}: a job that is no client of MPS fails there "
            "while a server runs",
            "as root: nvidia-smi -c DEFAULT -i INDEX",
        )
    return ok(name, "DEFAULT")


INSTALL_DCGM = (
    "install DCGM: sudo apt-get install datacenter-gpu-manager, then sudo systemctl enable --now "
    "nvidia-dcgm (docs/dgx.md, step 2)"
)
_WORKSTATION = re.compile(r"geforce|rtx|titan|quadro", re.IGNORECASE)
"""GPUs whose SM activity DCGM does not read."""


def sm_activity(
    driver: Driver,
    which: Callable[[str], str | None] = shutil.which,
    wanted: str = "auto",
) -> Finding:
    """Which source could measure SM activity. `wanted` is `readings.smact`: the source to use."""
    name = "SM activity"
    offered = {
        "gpm": bool(driver.gpus) and all(gpu.gpm for gpu in driver.gpus),
        "dcgm": which("dcgmi") is not None,
    }
    there = [
        source for source, is_there in offered.items() if is_there and wanted in ("auto", source)
    ]
    if there:
        return ok(name, f"read by {there[0]}")
    if wanted in offered:
        missing = {"gpm": "not all GPUs offer it (Hopper and newer do)", "dcgm": "no dcgmi on PATH"}
        return fail(name, f"{wanted}: {missing[wanted]}", "set readings.smact = 'auto'")
    if wanted == "dcgm-exporter":
        return ok(name, "read from dcgm-exporter, as configured")
    if wanted == "utilization":
        return ok(name, "estimated from utilization, as configured")
    return only_estimated(name, "", [gpu.name for gpu in driver.gpus])


def only_estimated(name: str, which: str, models: Iterable[str]) -> Finding:
    """Report that SM activity is only estimated, for GPUs of these models, and what brings it.

    `which` names the GPUs, as ` of GPU 1`.
    """
    found = f"only estimated from utilization{which}, so at most two or three jobs share a GPU"
    if all(_WORKSTATION.search(model) for model in models):
        return ok(name, f"{found}; GPUs of this type offer no more")
    return warn(name, found, INSTALL_DCGM)


# ------------------------------------------------------------------ MPS


def mps(
    wanted: bool,
    environ: Mapping[str, str],
    which: Callable[[str], str | None] = shutil.which,
    proc: Path = Path("/proc"),
    pipes: Path = Path("/tmp/nvidia-mps"),
) -> Finding:
    """Whether MPS can be used, and whether a foreign control daemon runs. `wanted`: it is switched
    on. `pipes` is CUDA's default folder for it."""
    name = "MPS"
    found = _control_daemon(Path(environ.get("CUDA_MPS_PIPE_DIRECTORY") or pipes), proc)
    if found is not None:
        return warn(
            name,
            f"a control daemon that radrm did not start runs as process {found}: jobs may join it "
            "without radrm's knowledge",
            f"as its owner: echo quit | {_MPS_CONTROL}",
        )
    control = which(_MPS_CONTROL)
    if control is None and wanted:
        return warn(name, f"{_MPS_CONTROL} is not on PATH", "install the driver's compute tools")
    return ok(name, f"{control or _MPS_CONTROL + ' is not on PATH'}; no foreign daemon runs")


def _control_daemon(pipes: Path, proc: Path) -> int | None:
    """The control daemon that the pid file names; None if that process is no control daemon."""
    try:
        with (pipes / f"{_MPS_CONTROL}.pid").open("rb") as file:
            pid = int(file.read(20))  # limited, because any user may have written the file
    except (OSError, ValueError):
        return None
    command = start_of(f"{proc}/{pid}/cmdline", 4096)
    return pid if _MPS_CONTROL.encode() in command else None
