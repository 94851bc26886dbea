"""The stand-in of libnvidia-ml.so.1, built and told what to answer: for tests and benchmarks.

nvml/README.md says how; nvml/state.h says what there is to tell. Nothing of pytest stands
here, so that a benchmark needs none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

SOURCES = Path(__file__).parent / "nvml"
STATE_VARIABLE = "STAND_IN_NVML_STATE"
CALLS_VARIABLE = "STAND_IN_NVML_CALLS"

FLAGS = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-shared", "-pthread"]
FLAGS += ["-fvisibility=hidden", "-Wl,-Bsymbolic"]
# No soname: a process that has loaded this file by its path must not find it by the name.

Figures = dict[str, object]

GPU_FIGURES: Figures = {
    "memory_reserved_mib": 600,
    "utilization_gpu": 0,
    "utilization_memory": 0,
    "power_mw": 60_000,
    "energy_mj": 1_000_000,
    "temperature_c": 35,
    "temperature_shutdown_c": 95,
    "temperature_slowdown_c": 90,
    "clocks_reasons": 0,
    "ecc_mode": 1,
    "ecc_volatile_corrected": 0,
    "ecc_volatile_uncorrected": 0,
    "ecc_aggregate_corrected": 0,
    "ecc_aggregate_uncorrected": 0,
    "remapped_corrected": 0,
    "remapped_uncorrected": 0,
    "remapped_pending": 0,
    "remapped_failed": 0,
    "recovery_action": 0,
    "compute_mode": 0,
    "persistence_mode": 1,
    "event_types": 0x8 | 0x2 | 0x1,
    "mig_mode": 0,
    "mig_max": 7,
    "gpm": 0,
}
A100: Figures = {
    **GPU_FIGURES,
    "name": "NVIDIA A100-SXM4-40GB",
    "memory_total_mib": 40960,
    "power_limit_mw": 400_000,
    "compute_major": 8,
    "compute_minor": 0,
}
H100: Figures = {
    **GPU_FIGURES,
    "name": "NVIDIA H100 80GB HBM3",
    "memory_total_mib": 81559,
    "power_limit_mw": 700_000,
    "compute_major": 9,
    "compute_minor": 0,
    "gpm": 1,
    "graphics_util": 0,
    "sm_util": 0,
    "sm_occupancy": 0,
    "tensor_util": 0,
    "dram_util": 0,
}


class NoCompiler(Exception):
    """The library cannot be built here."""


def compile_library(folder: Path) -> Path:
    """Compile the library into `folder`; its path. Raises NoCompiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise NoCompiler("no C compiler (cc) to build the stand-in of libnvidia-ml.so.1 with")
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "libnvidia-ml.so.1"
    sources = [str(source) for source in sorted(SOURCES.glob("*.c"))]
    done = subprocess.run(
        [compiler, *FLAGS, "-o", str(library), *sources],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return library


class Nvml:
    """What the library answers: each method appends lines to its state file.

    A later line wins, so a state is changed while processes read it, and jobs may append
    lines themselves.
    """

    def __init__(self, state: Path, library: Path) -> None:
        self.state = state
        self.library = library
        self.calls_file = state.with_suffix(".calls")
        self.instances: dict[str, int] = {}
        self.gpus = 0
        self.write("driver 550.54.15", "nvml 12.550.54.15", "cuda 12040")

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs so that its `pynvml` finds the library and the library its state."""
        return {
            "LD_LIBRARY_PATH": f"{self.library.parent}:{os.environ.get('LD_LIBRARY_PATH', '')}",
            STATE_VARIABLE: str(self.state),
            CALLS_VARIABLE: str(self.calls_file),
        }

    def write(self, *lines: str) -> None:
        """Append lines, all at once: no reader sees half of them."""
        with self.state.open("ab", buffering=0) as file:
            file.write("".join(f"{line}\n" for line in lines).encode())

    # ------------------------------------------------------------- devices

    def gpu(self, uuid: str | None = None, model: Figures = A100, **figures: object) -> str:
        """Add a GPU; its UUID."""
        number = self.gpus
        self.gpus += 1
        uuid = uuid or f"GPU-{number + 1:08d}-0000-0000-0000-000000000000"
        own = {"pci": f"00000000:{0x17 + number:02X}:00.0"}
        self.write(f"gpu {uuid}", *_sets(uuid, {**model, **own, **figures}))
        return uuid

    def mig(self, gpu: str, profile: str, uuid: str | None = None, **figures: object) -> str:
        """Put a GPU into MIG mode, if it is not, and add an instance; its UUID.

        Slices and memory follow from the profile: "3g.20gb", or "1c.3g.20gb" for a compute
        instance that has one of its GPU instance's three slices.
        """
        count = self.instances[gpu] = self.instances.get(gpu, 0) + 1
        uuid = uuid or f"MIG-{count:08d}-{gpu.split('-')[1]}-5000-8000-000000000000"
        *compute, slices, memory = profile.split(".")
        own = {
            "profile": profile,
            "gpu_instance": count,
            "compute_instance": 0,
            "gpu_slices": slices.removesuffix("g"),
            "compute_slices": (compute or [slices])[0].rstrip("cg"),
            "multiprocessors": 14 * int(slices.removesuffix("g")),
            "memory_total_mib": int(memory.removesuffix("gb")) * 1024 - 256,
            "memory_reserved_mib": 0,
            "sm_util": 0,
        }
        self.write(f"set {gpu} mig_mode 1", f"mig {uuid} {gpu}", *_sets(uuid, {**own, **figures}))
        return uuid

    def set(self, uuid: str, **figures: object) -> None:
        """Change figures; None for one that the device does not offer (any more)."""
        self.write(*_sets(uuid, figures))

    def gone(self, uuid: str) -> None:
        """The device is there no more: a destroyed instance, a GPU without its driver."""
        self.write(f"gone {uuid}")

    # ------------------------------------------------------------- processes

    def process(
        self, uuid: str, pid: int, mib: float | None, kind: str = "compute", foreign: bool = True
    ) -> None:
        """A process holds `mib` (None: cannot be told) on a device.

        It is listed until `exit`; with `foreign=False` only as long as such a process
        lives on this machine, as the driver does it. `kind`: compute, mps, graphics.
        """
        held = "N/A" if mib is None else f"{mib:g}"
        self.write(f"process {uuid} {pid} {held} {kind}" + (" foreign" if foreign else ""))

    def exit(self, uuid: str, pid: int) -> None:
        self.write(f"exit {uuid} {pid}")

    # ------------------------------------------------------------- trouble

    def xid(self, uuid: str, number: int) -> None:
        """An Xid happens: event sets that are registered by now are told, each once."""
        self.write(f"xid {uuid} {number}")

    def fail(self, function: str, error: int, uuid: str | None = None) -> None:
        """Calls of `function` (a shell pattern) give this error number; 0: no more."""
        self._trouble("fail", function, error, uuid)

    def hang(self, function: str, uuid: str | None = None) -> None:
        """Calls do not answer until `release` (or for ten minutes)."""
        self._trouble("hang", function, 1, uuid)

    def release(self, function: str, uuid: str | None = None) -> None:
        self._trouble("hang", function, 0, uuid)

    def _trouble(self, kind: str, function: str, value: float, uuid: str | None) -> None:
        self.write(f"{kind} {function} {value} {uuid or ''}".rstrip())

    # ------------------------------------------------------------- what was called

    def calls(self, function: str | None = None) -> list[str]:
        """The functions that were called, in order, by all processes; or those of one name."""
        if not self.calls_file.exists():
            return []
        names = [line.split()[1] for line in self.calls_file.read_text().splitlines()]
        return [name for name in names if function in (None, name)]


def _sets(uuid: str, figures: Figures) -> list[str]:
    return [
        f"set {uuid} {name} {'N/A' if value is None else value}" for name, value in figures.items()
    ]
