"""Real GPUs, read through `nvidia-smi`, for machines where Python cannot use NVML.

Theory of operation. Two long-lived children print CSV in rounds: one line per GPU, and one per
process. No child is started per sample. CSV has no memory of MIG instances; if there are any, a
third child prints a full report as XML, less often. One thread per child stores each parsed line
with its time; the reading thread uses lines that are recent enough. `nvidia-smi` does not report
who uses how much under MPS, nor the errors that the driver counted. A restart starts new
children.

`[N/A]`, `[Not Supported]`, `[Unknown Error]`, `ERR!` and the like mean unknown. nvidia-smi(1) has
the options `--query-gpu`, `--query-compute-apps`, `-lms`, `-L`, `-q -x -l`.
"""

from __future__ import annotations

import csv
import math
import re
import shutil
import time
from collections.abc import Mapping, Sequence

from msgspec import Struct

from radrm.core.records import Device, Instant, Reading
from radrm.core.words import DeviceKind
from radrm.errors import DeviceError
from radrm.host.gpus.processes import Processes
from radrm.host.gpus.source import (
    NO_PROCESS_LIST,
    GpuSource,
    OwnerOf,
    print_every_ms,
    split_by_owner,
)
from radrm.host.gpus.stream import LineKind, Stream, ask
from radrm.host.gpus.unified import UnifiedMemory
from radrm.structs import replace

# ------------------------------------------------------------------
# Parse the CSV of `nvidia-smi`: in each round one line per GPU and one per process.


GPU_FIELDS = (
    "uuid,index,name,memory.total,memory.reserved,memory.used,utilization.gpu,power.draw,"
    "mig.mode.current"
)
OLD_GPU_FIELDS = "uuid,index,name,memory.total,memory.used,utilization.gpu,power.draw"
"""For drivers before 510, which refuse `memory.reserved`."""
APP_FIELDS = "gpu_uuid,pid,used_memory"
_NOT_OFFERED = ("[N/A]", "N/A", "[Not Supported]")
_MIB_MAX = 1 << 30
_POWER_MAX_W = 100_000.0


class GpuLine(Struct, frozen=True):
    """One GPU in one round. None: unknown."""

    uuid: str
    index: int
    name: str
    total_mib: int | None
    reserved_mib: int | None
    used_mib: int | None
    utilization: float | None
    power_w: float | None
    mig: bool
    unified: bool = False
    """The driver offers no memory of the GPU, which so uses the server's."""


class AppLine(Struct, frozen=True):
    """One process on one GPU in one round."""

    uuid: str
    pid: int
    used_mib: int | None


def parse_gpu(line: str, fields: str = GPU_FIELDS) -> GpuLine | None:
    """Parse a line of `--query-gpu`; return None for any other line."""
    cells = _cells(line, fields)
    if cells is None or not is_uuid(cells["uuid"], "GPU-") or count(cells["index"]) is None:
        return None
    total = count(cells["memory.total"])
    utilization = _within(cells["utilization.gpu"], 100.0)
    mig = cells.get("mig.mode.current") == "Enabled"
    return GpuLine(
        uuid=cells["uuid"],
        index=count(cells["index"]) or 0,
        name=cells["name"],
        total_mib=total,
        reserved_mib=count(cells.get("memory.reserved"), total),
        used_mib=count(cells["memory.used"], total),
        utilization=None if utilization is None else utilization / 100,
        power_w=_within(cells["power.draw"], _POWER_MAX_W),
        mig=mig,
        unified=not mig and cells["memory.total"] in _NOT_OFFERED,
    )


def parse_app(line: str) -> AppLine | None:
    """Parse a line of `--query-compute-apps`; return None for any other line."""
    cells = _cells(line, APP_FIELDS)
    pid = count(cells["pid"]) if cells else None
    if cells is None or not pid or not re.fullmatch(r"(GPU|MIG)-[\w/-]+", cells["gpu_uuid"]):
        return None
    return AppLine(cells["gpu_uuid"], pid, count(cells["used_memory"]))


def parse_missing(line: str) -> str | None:
    """Return the UUID of a GPU whose processes cannot be listed; None for any other line.

    Empty if the line names no GPU: then it holds for all.
    """
    values = line.split(", ")
    if len(values) == len(APP_FIELDS.split(",")) and _is_unavailable(values[1]):
        uuid = values[0]
        return uuid if is_uuid(uuid, "GPU-") else "" if _is_unavailable(uuid) else None
    return "" if _is_unavailable(line) else None


def _is_unavailable(word: str) -> bool:
    return word in (*_NOT_OFFERED, "[Insufficient Permissions]")


def _cells(line: str, fields: str) -> dict[str, str] | None:
    """Return the values of a line by field; None if their number is wrong."""
    try:
        (values,) = csv.reader([line], skipinitialspace=True)
    except (csv.Error, ValueError):
        return None
    names = fields.split(",")
    return (
        dict(zip(names, map(str.strip, values), strict=True)) if len(values) == len(names) else None
    )


def is_uuid(word: str, prefix: str) -> bool:
    """Return whether a word has the form of a UUID with this prefix."""
    return word.startswith(prefix) and re.fullmatch(r"[\w-]+", word, re.ASCII) is not None


def count(word: str | None, limit: int | None = None) -> int | None:
    """Return a number of 0..limit; None for any other word."""
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


# ------------------------------------------------------------------
# Parse what `nvidia-smi` prints about MIG instances: the list (`-L`), the memory (`-q -x`).


_NUMBERS = ("gpu_instance_id", "compute_instance_id")


class InstanceLine(Struct, frozen=True):
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


class InstanceMemory(Struct, frozen=True):
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


# ------------------------------------------------------------------
# The GPU source that reads long-lived `nvidia-smi` children.


SMACT_SOURCE = "nvidia-smi-utilization"
INSTANCES_S = 2
"""Seconds between two reports about MIG instances: a full report takes nvidia-smi some work."""
SILENT_S = 5.0
"""Real seconds after which a line is too old for a reading."""
GONE_S = 2.5
"""Real seconds after which a process that is no longer printed has ended."""
LEAST_SHARE = 0.95
"""Least share of its nominal size that an instance has: 4864 MiB in 1g.5gb (NVIDIA, MIG User
Guide, tables of profiles)."""

_FORMAT = "--format=csv,noheader,nounits"
_NO_MIG = (
    "nvidia-smi does not report the memory of this MIG instance{}; install nvidia-ml-py to read it"
)


class NvidiaSmi(GpuSource):
    """The GPUs and MIG instances that `nvidia-smi` prints."""

    name = "nvidia-smi"

    def __init__(self, command: str = "nvidia-smi", *, interval_s: float = 1.0) -> None:
        self._command = command
        self._every_ms = print_every_ms(interval_s)
        self._fields = GPU_FIELDS
        self._gpus: dict[str, tuple[float, GpuLine]] = {}
        self._apps: dict[tuple[str, int], tuple[float, AppLine]] = {}
        self._unlisted: dict[str, float] = {}
        """When a line said that the processes of a GPU cannot be listed; "" for all GPUs."""
        self._listed: dict[str, GpuLine] = {}
        self._mig: dict[str, tuple[str, int]] = {}
        """The UUID of the GPU and the index in it, by the UUID of the instance."""
        self._report = Report()
        self._sized: dict[str, int | None] = {}
        """The size that `devices` returned for each instance; None: from its profile."""
        self._unified: dict[str, UnifiedMemory] = {}
        """By the UUIDs of GPUs without memory of their own."""
        self._processes = Processes()
        self._gpu_stream = Stream("nvidia-smi", self._gpu_command, self._take_gpu)
        self._app_stream = Stream(
            "nvidia-smi (processes)",
            lambda: self._looped("--query-compute-apps=" + APP_FIELDS),
            self._take_app,
            silent_s=math.inf,
        )
        self._report_stream = Stream(
            "nvidia-smi (MIG instances)", self._report_command, self._report.take
        )

    @property
    def changed(self) -> bool:
        """True when an instance has another size than `devices` returned."""
        return any(
            memory is not None and memory[1].total_mib != self._sized[uuid]
            for uuid, memory in ((uuid, self._memory(uuid)) for uuid in self._sized)
        )

    def devices(self) -> tuple[Device, ...]:
        """Return every GPU, or its instances if it is in MIG mode. Raises `DeviceError`."""
        if not self._listed:
            self._listed = self._list()
            self._gpu_stream.start()
            self._app_stream.start()
        for _, line in list(self._gpus.values()):
            self._listed[line.uuid] = line
        instances: Mapping[str, list[InstanceLine]] = {}
        if any(line.mig for line in self._listed.values()):
            instances = parse_instances(ask([self._command, "-L"]))
        devices: list[Device] = []
        for line in sorted(self._listed.values(), key=lambda line: line.index):
            if line.mig:
                devices += self._instances(line, instances.get(line.uuid, ()))
            elif line.unified:
                devices += self._unified_gpu(line)
            elif line.total_mib:
                devices.append(_gpu(line))
        there = {d.uuid for d in devices if d.kind is DeviceKind.MIG}
        for known in (self._mig, self._sized):
            for uuid in known.keys() - there:
                del known[uuid]
        return tuple(devices)

    def _instances(self, line: GpuLine, found: Sequence[InstanceLine]) -> list[Device]:
        if found:
            self._report_stream.start()
        devices = []
        for instance in found:
            place = (line.uuid, instance.number)
            if self._mig.get(instance.uuid) != place:
                self._report.memory.pop(place, None)  # of an earlier instance at this index
            self._mig[instance.uuid] = place
            seen = self._memory(instance.uuid)
            self._sized[instance.uuid] = seen[1].total_mib if seen else None
            devices.append(_instance(line, instance, seen[1] if seen else None))
        return devices

    def _unified_gpu(self, line: GpuLine) -> list[Device]:
        """Return a GPU with the server's memory; nothing if that is not known either."""
        apps = [app for _, app in list(self._apps.values())]
        held = [app.used_mib or 0 for app in apps if app.uuid == line.uuid]
        memory = self._unified.setdefault(line.uuid, UnifiedMemory()).listed(sum(held) << 20)
        if memory is None:
            return []
        sizes = replace(line, total_mib=memory.total >> 20, reserved_mib=-(-memory.reserved >> 20))
        return [replace(_gpu(sizes), unified=True)]

    def _used_mib(self, line: GpuLine, held: Mapping[int, int | None]) -> int | None:
        if not line.unified:
            return line.used_mib
        mib = sum(each or 0 for each in held.values())
        memory = self._unified[line.uuid].now(mib << 20) if line.uuid in self._unified else None
        return None if memory is None else memory.used >> 20

    def _memory(self, uuid: str) -> tuple[float, InstanceMemory] | None:
        place = self._mig.get(uuid)
        return self._report.memory.get(place) if place is not None else None

    def read(self, uuids: Sequence[str], at: Instant, owner_of: OwnerOf) -> tuple[Reading, ...]:
        now_s = time.monotonic()
        held: dict[str, dict[int, int | None]] = {}
        for key, (seen_s, app) in list(self._apps.items()):
            if now_s - seen_s > GONE_S:
                self._apps.pop(key, None)
            else:
                held.setdefault(app.uuid, {})[app.pid] = app.used_mib
        return tuple(
            self._reading_of_instance(uuid, at, now_s, held, owner_of)
            if uuid in self._mig
            else self._reading(uuid, at, now_s, held.get(uuid, {}), owner_of)
            for uuid in uuids
        )

    def close(self) -> None:
        self._gpu_stream.close()
        self._app_stream.close()
        self._report_stream.close()

    def _reading(
        self,
        uuid: str,
        at: Instant,
        now_s: float,
        held: Mapping[int, int | None],
        owner_of: OwnerOf,
    ) -> Reading:
        seen_s, line = self._gpus.get(uuid, (-math.inf, None))
        if line is None or now_s - seen_s > SILENT_S:
            quiet = "yet" if line is None else f"for {now_s - seen_s:.0f} s"
            error = self._gpu_stream.error or f"nvidia-smi has not printed this device {quiet}"
            return Reading(device=uuid, at=at, error=error)
        attempts, owners = split_by_owner(held, owner_of)
        missing = self._why_unlisted(uuid, now_s)
        return Reading(
            device=uuid,
            at=at,
            used_mib=self._used_mib(line, held),
            attempts=attempts if missing is None else None,
            processes=self._processes.describe(held, owners),
            smact=line.utilization,
            smact_source=SMACT_SOURCE if line.utilization is not None else None,
            smact_coarse=line.utilization is not None,
            power_w=line.power_w,
            notes=(missing,) if missing else (),
        )

    def _why_unlisted(self, uuid: str, now_s: float) -> str | None:
        """Return why the processes of a GPU are unknown; None if they are listed."""
        seen_s = max(self._unlisted.get(name, -math.inf) for name in (uuid, ""))
        return NO_PROCESS_LIST if now_s - seen_s <= GONE_S else self._app_stream.error

    def _reading_of_instance(
        self,
        uuid: str,
        at: Instant,
        now_s: float,
        held: Mapping[str, Mapping[int, int | None]],
        owner_of: OwnerOf,
    ) -> Reading:
        seen_s, memory = self._memory(uuid) or (-math.inf, None)
        if memory is None or now_s - seen_s > SILENT_S:
            cause = self._report_stream.error
            return Reading(device=uuid, at=at, error=_NO_MIG.format(f" ({cause})" if cause else ""))
        gpu, _ = self._mig[uuid]
        # Some drivers list processes for the whole GPU, without their instance. So a job's
        # processes go to every instance, with unknown memory; only the job's own one counts them.
        jobs = {pid: None for pid in held.get(gpu, {}) if owner_of(pid) is not None}
        here = {**jobs, **held.get(uuid, {})}
        attempts, owners = split_by_owner(here, owner_of)
        missing = self._why_unlisted(gpu, now_s)
        return Reading(
            device=uuid,
            at=at,
            used_mib=memory.used_mib,
            attempts=attempts if missing is None else None,
            processes=self._processes.describe(here, owners),
            notes=(missing,) if missing else (),
        )

    # ------------------------------------------------------------- the children

    def _list(self) -> dict[str, GpuLine]:
        """List all GPUs with a short-lived child. Raises `DeviceError` if there is none."""
        try:
            printed = ask([self._command, f"--query-gpu={self._fields}", _FORMAT])
        except DeviceError as error:
            if "not a valid field" not in str(error):
                raise
            self._fields = OLD_GPU_FIELDS
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
        return [self._command, query, _FORMAT, "-lms", str(self._every_ms)]

    def _report_command(self) -> Sequence[str]:
        return [self._command, "-q", "-x", "-l", str(INSTANCES_S)]

    def _take_gpu(self, text: str) -> LineKind:
        line = parse_gpu(text, self._fields)
        if line is None:
            return LineKind.MESSAGE
        self._gpus[line.uuid] = (time.monotonic(), line)
        return LineKind.DATA

    def _take_app(self, text: str) -> LineKind:
        line = parse_app(text)
        if line is None:
            missing = parse_missing(text)
            if missing is None:
                return LineKind.MESSAGE
            self._unlisted[missing] = time.monotonic()
            return LineKind.DATA
        self._apps[line.uuid, line.pid] = (time.monotonic(), line)
        return LineKind.DATA


def _gpu(line: GpuLine) -> Device:
    return Device(
        uuid=line.uuid,
        index=line.index,
        name=line.name,
        total_mib=line.total_mib or 0,
        overhead_mib=line.reserved_mib or 0,
    )


def _instance(line: GpuLine, found: InstanceLine, memory: InstanceMemory | None) -> Device:
    """Return a MIG instance as a device.

    Until its memory is known, its size is the nominal size of its profile (`3g.20gb`) times
    `LEAST_SHARE`, so that it is never too large. A compute instance (`1c.3g.20gb`) may share it.
    """
    size = re.fullmatch(r"(?:([1-9])c\.)?([1-9])g\.([0-9]{1,5})gb.{0,20}", found.profile)
    by_profile_mib = int(int(size[3]) * 1024 * LEAST_SHARE) if size else 0
    if size and size[1]:
        by_profile_mib = by_profile_mib * int(size[1]) // int(size[2])
    return replace(
        _gpu(line),
        uuid=found.uuid,
        name=f"{line.name} MIG {found.profile}",
        total_mib=memory.total_mib if memory else by_profile_mib,
        overhead_mib=memory.reserved_mib if memory else 0,
        kind=DeviceKind.MIG,
        parent=line.uuid,
        profile=found.profile,
        instance=memory.numbers if memory else None,
    )
