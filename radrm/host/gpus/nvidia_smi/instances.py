"""Parse what `nvidia-smi` prints about MIG instances: the list (`-L`), the memory (`-q -x`)."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from radrm.host.gpus.nvidia_smi.lines import count, is_uuid
from radrm.host.gpus.stream import LineKind

_NUMBERS = ("gpu_instance_id", "compute_instance_id")


@dataclass(frozen=True, slots=True)
class InstanceLine:
    """One MIG instance. `number` is its index in its GPU."""

    uuid: str
    profile: str
    number: int


def parse_instances(printed: str) -> dict[str, list[InstanceLine]]:
    """Return the MIG instances by the UUID of their GPU, from `nvidia-smi -L`."""
    found: dict[str, list[InstanceLine]] = {}
    gpu: str | None = None
    for line in printed.splitlines():
        if match := re.match(r"GPU \d+: .*\(UUID: (GPU-[\w-]+)\)", line):
            gpu = match[1]
        match = re.match(r"\s+MIG (\S+)\s+Device\s+(\d{1,9}): \(UUID: (MIG-[\w/-]+)\)", line)
        if match and gpu is not None:
            instance = InstanceLine(match[3], match[1], int(match[2]))
            found.setdefault(gpu, []).append(instance)
    return found


@dataclass(frozen=True, slots=True)
class InstanceMemory:
    """The memory of a MIG instance in one round, and the numbers of its GPU instance and compute
    instance."""

    total_mib: int
    reserved_mib: int
    used_mib: int
    numbers: tuple[int, int] | None = None


class Report:
    """Parses the lines of `-q -x` and keeps the memory of MIG instances.

    `memory` has the time (monotonic seconds) and the memory, by the UUID of the GPU and the
    instance's index in it. A GPU is stored when its element ends, so never in part.
    """

    def __init__(self) -> None:
        self.memory: dict[tuple[str, int], tuple[float, InstanceMemory]] = {}
        self._gpu: str | None = None
        self._found: dict[int, InstanceMemory] = {}
        self._instance: dict[str, int] | None = None
        self._in_memory = False

    def take(self, line: str) -> LineKind:
        """Take a line, which holds one element. A GPU that is cut off is dropped."""
        match = re.fullmatch(r"<(/?)([\w.]{1,40})\b[^>]{0,200}>(?:([^<]{1,100})</\2>)?", line)
        if match is None:
            return LineKind.HEADER if line.startswith("<") else LineKind.MESSAGE
        name, value = match[1] + match[2], match[3]
        if name == "gpu":
            self._gpu, self._found, self._instance = None, {}, None
        elif name == "mig_device":
            self._instance, self._in_memory = {}, False
        elif name == "uuid" and self._instance is None and value and is_uuid(value, "GPU-"):
            self._gpu = value
        elif name == "/mig_device":
            self._keep()
        elif name == "/gpu" and self._gpu is not None:
            now_s = time.monotonic()
            for number, memory in self._found.items():
                self.memory[self._gpu, number] = (now_s, memory)
            return LineKind.DATA
        elif self._instance is not None:
            self._figure(name, value)
        return LineKind.HEADER

    def _figure(self, name: str, value: str | None) -> None:
        assert self._instance is not None
        if name.endswith("fb_memory_usage"):  # `shared_...` if compute instances share the memory
            self._in_memory = not name.startswith("/")
        elif name in ("index", *_NUMBERS) or (
            self._in_memory and name in ("total", "reserved", "used")
        ):
            figure = count(value.removesuffix(" MiB") if value else None)
            if figure is not None:
                self._instance[name] = figure

    def _keep(self) -> None:
        found, self._instance = self._instance or {}, None
        total, used = found.get("total"), found.get("used")
        if "index" in found and total and used is not None and used <= total:
            gpu, compute = (found.get(name) for name in _NUMBERS)
            numbers = None if gpu is None or compute is None else (gpu, compute)
            memory = InstanceMemory(total, min(found.get("reserved", 0), total), used, numbers)
            self._found[found["index"]] = memory
