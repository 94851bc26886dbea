"""Real GPUs, read through `nvidia-smi`: for where NVML itself cannot be used from Python.

Two long-lived children print CSV, one line per GPU and one per process and round; none is
started per sample. What `nvidia-smi` does not tell: the memory of MIG instances (so they
take no job here), who holds what under MPS, and what the driver has counted of errors.

`[N/A]`, `[Not Supported]`, `[Unknown Error]`, `ERR!` and the like are what is not known.
Its options: nvidia-smi(1), `--query-gpu`, `--query-compute-apps`, `-lms`, `-L`.
"""

from __future__ import annotations

import csv
import math
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from radrm.core.records import Device, Instant, Reading
from radrm.core.words import DeviceKind
from radrm.errors import DeviceError
from radrm.host.source import OwnerOf, whose
from radrm.host.strangers import Strangers
from radrm.host.stream import Heard, Stream, ask

SMACT_SOURCE = "nvidia-smi-utilization"
INTERVAL_MS = 1000
SILENT_S = 5.0
"""Real seconds after which a line says nothing about now."""
GONE_S = 2.5
"""Real seconds after which a process that is not printed any more has ended."""

_GPU_FIELDS = (
    "uuid,index,name,memory.total,memory.reserved,memory.used,utilization.gpu,power.draw,"
    "mig.mode.current"
)
_OLD_GPU_FIELDS = "uuid,index,name,memory.total,memory.used,utilization.gpu,power.draw"
"""For drivers before 510, which refuse the others."""
_APP_FIELDS = "gpu_uuid,pid,used_memory"
_FORMAT = "--format=csv,noheader,nounits"
_MIB_MAX = 1 << 30
_POWER_MAX_W = 100_000.0
_NO_MIG = "nvidia-smi does not tell the memory of a MIG instance; install nvidia-ml-py to read it"


# ------------------------------------------------------------------ what it prints


@dataclass(frozen=True, slots=True)
class GpuLine:
    """One GPU in one round. What is not told is None."""

    uuid: str
    index: int
    name: str
    total_mib: int | None
    reserved_mib: int | None
    used_mib: int | None
    utilization: float | None
    power_w: float | None
    mig: bool


@dataclass(frozen=True, slots=True)
class AppLine:
    """One process on one GPU in one round."""

    uuid: str
    pid: int
    used_mib: int | None


def parse_gpu(line: str, fields: str = _GPU_FIELDS) -> GpuLine | None:
    """A line of `--query-gpu`; None for anything else."""
    cells = _cells(line, fields)
    if cells is None or not _is_uuid(cells["uuid"], "GPU-") or _count(cells["index"]) is None:
        return None
    total = _count(cells["memory.total"])
    utilization = _within(cells["utilization.gpu"], 100.0)
    return GpuLine(
        uuid=cells["uuid"],
        index=_count(cells["index"]) or 0,
        name=cells["name"],
        total_mib=total,
        reserved_mib=_count(cells.get("memory.reserved"), total),
        used_mib=_count(cells["memory.used"], total),
        utilization=None if utilization is None else utilization / 100,
        power_w=_within(cells["power.draw"], _POWER_MAX_W),
        mig=cells.get("mig.mode.current") == "Enabled",
    )


def parse_app(line: str) -> AppLine | None:
    """A line of `--query-compute-apps`; None for anything else."""
    cells = _cells(line, _APP_FIELDS)
    pid = _count(cells["pid"]) if cells else None
    if cells is None or not pid or not re.fullmatch(r"(GPU|MIG)-[\w/-]+", cells["gpu_uuid"]):
        return None
    return AppLine(cells["gpu_uuid"], pid, _count(cells["used_memory"]))


def parse_instances(printed: str) -> dict[str, list[tuple[str, str]]]:
    """MIG instances, as (UUID, profile), by the UUID of their GPU, from `nvidia-smi -L`."""
    found: dict[str, list[tuple[str, str]]] = {}
    gpu: str | None = None
    for line in printed.splitlines():
        if match := re.match(r"GPU \d+: .*\(UUID: (GPU-[\w-]+)\)", line):
            gpu = match[1]
        match = re.match(r"\s+MIG (\S+)\s+Device\s+\d+: \(UUID: (MIG-[\w/-]+)\)", line)
        if match and gpu is not None:
            found.setdefault(gpu, []).append((match[2], match[1]))
    return found


def _cells(line: str, fields: str) -> dict[str, str] | None:
    """The values on a line by name; None where it has more or fewer."""
    try:
        (values,) = csv.reader([line], skipinitialspace=True)
    except (csv.Error, ValueError):
        return None
    names = fields.split(",")
    return (
        dict(zip(names, map(str.strip, values), strict=True)) if len(values) == len(names) else None
    )


def _is_uuid(word: str, prefix: str) -> bool:
    return word.startswith(prefix) and re.fullmatch(r"[\w-]+", word, re.ASCII) is not None


def _count(word: str | None, limit: int | None = None) -> int | None:
    if word is None or not re.fullmatch(r"[0-9]{1,10}", word):
        return None
    value = int(word)
    return value if value <= (_MIB_MAX if limit is None else limit) else None


def _within(word: str, limit: float) -> float | None:
    try:
        value = float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value <= limit else None


# ------------------------------------------------------------------ the source


class NvidiaSmi:
    """A `GpuSource` over `nvidia-smi`."""

    name = "nvidia-smi"

    def __init__(self, command: str = "nvidia-smi") -> None:
        self._command = command
        self._fields = _GPU_FIELDS
        self._gpus: dict[str, tuple[float, GpuLine]] = {}
        self._apps: dict[tuple[str, int], tuple[float, AppLine]] = {}
        self._listed: dict[str, GpuLine] = {}
        self._mig: frozenset[str] = frozenset()
        self._strangers = Strangers()
        self._gpu_stream = Stream("nvidia-smi", self._gpu_command, self._take_gpu)
        self._app_stream = Stream(
            "nvidia-smi (processes)",
            lambda: self._looped("--query-compute-apps=" + _APP_FIELDS),
            self._take_app,
            silent_s=math.inf,
        )

    def devices(self) -> tuple[Device, ...]:
        """Every GPU, and in place of a GPU in MIG mode its instances. Raises `DeviceError`."""
        if not self._listed:
            self._listed = self._list()
            self._gpu_stream.start()
            self._app_stream.start()
        for _, line in list(self._gpus.values()):
            self._listed[line.uuid] = line
        instances: Mapping[str, list[tuple[str, str]]] = {}
        if any(line.mig for line in self._listed.values()):
            instances = parse_instances(ask([self._command, "-L"]))
        devices: list[Device] = []
        for line in sorted(self._listed.values(), key=lambda line: line.index):
            if line.mig:
                devices += [_instance(line, *found) for found in instances.get(line.uuid, ())]
            elif line.total_mib:
                devices.append(_gpu(line))
        self._mig = frozenset(d.uuid for d in devices if d.kind is DeviceKind.MIG)
        return tuple(devices)

    def read(self, uuids: Sequence[str], at: Instant, owner_of: OwnerOf) -> tuple[Reading, ...]:
        now_s = time.monotonic()
        held: dict[str, dict[int, int | None]] = {}
        for key, (seen_s, app) in list(self._apps.items()):
            if now_s - seen_s > GONE_S:
                self._apps.pop(key, None)
            else:
                held.setdefault(app.uuid, {})[app.pid] = app.used_mib
        return tuple(self._reading(uuid, at, now_s, held.get(uuid, {}), owner_of) for uuid in uuids)

    def close(self) -> None:
        self._gpu_stream.close()
        self._app_stream.close()

    def _reading(
        self,
        uuid: str,
        at: Instant,
        now_s: float,
        held: Mapping[int, int | None],
        owner_of: OwnerOf,
    ) -> Reading:
        if uuid in self._mig:
            return Reading(device=uuid, at=at, error=_NO_MIG)
        seen_s, line = self._gpus.get(uuid, (-math.inf, None))
        if line is None or now_s - seen_s > SILENT_S:
            quiet = "yet" if line is None else f"for {now_s - seen_s:.0f} s"
            error = self._gpu_stream.trouble or f"nvidia-smi has said nothing about it {quiet}"
            return Reading(device=uuid, at=at, error=error)
        attempts, others = whose(held, owner_of)
        unknown = self._app_stream.trouble
        return Reading(
            device=uuid,
            at=at,
            used_mib=line.used_mib,
            attempts=attempts,
            strangers=self._strangers.describe(others),
            smact=line.utilization,
            smact_source=SMACT_SOURCE if line.utilization is not None else None,
            smact_coarse=line.utilization is not None,
            power_w=line.power_w,
            notes=(unknown,) if unknown else (),
        )

    # ------------------------------------------------------------- asking

    def _list(self) -> dict[str, GpuLine]:
        """All GPUs, by a child of its own. Raises `DeviceError` where there is none."""
        try:
            printed = ask([self._command, f"--query-gpu={self._fields}", _FORMAT])
        except DeviceError as error:
            if "not a valid field" not in str(error):
                raise
            self._fields = _OLD_GPU_FIELDS
            printed = ask([self._command, f"--query-gpu={self._fields}", _FORMAT])
        lines = [parse_gpu(line, self._fields) for line in printed.splitlines()]
        listed = {line.uuid: line for line in lines if line is not None}
        if not listed:
            raise DeviceError("nvidia-smi lists no GPU")
        return listed

    def _gpu_command(self) -> Sequence[str]:
        return self._looped(f"--query-gpu={self._fields}")

    def _looped(self, query: str) -> Sequence[str]:
        if shutil.which(self._command) is None:
            raise DeviceError("nvidia-smi is not installed; install the NVIDIA driver")
        return [self._command, query, _FORMAT, "-lms", str(INTERVAL_MS)]

    def _take_gpu(self, text: str) -> Heard:
        line = parse_gpu(text, self._fields)
        if line is None:
            return Heard.WORDS
        self._gpus[line.uuid] = (time.monotonic(), line)
        return Heard.DATA

    def _take_app(self, text: str) -> Heard:
        line = parse_app(text)
        if line is None:
            return Heard.WORDS
        self._apps[line.uuid, line.pid] = (time.monotonic(), line)
        return Heard.DATA


def _gpu(line: GpuLine) -> Device:
    return Device(
        uuid=line.uuid,
        index=line.index,
        name=line.name,
        total_mib=line.total_mib or 0,
        overhead_mib=line.reserved_mib or 0,
    )


def _instance(line: GpuLine, uuid: str, profile: str) -> Device:
    """A MIG instance; its size is what its profile is called, as `3g.20gb`."""
    size = re.search(r"\.([0-9]{1,5})gb", profile)
    return replace(
        _gpu(line),
        uuid=uuid,
        name=f"{line.name} MIG {profile}",
        total_mib=int(size[1]) * 1024 if size else 0,
        overhead_mib=0,
        kind=DeviceKind.MIG,
        parent=line.uuid,
        profile=profile,
    )
