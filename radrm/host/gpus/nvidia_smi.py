"""Real GPUs, read through `nvidia-smi`, for machines where Python cannot use NVML.

Theory of operation. Two long-lived children print CSV in rounds: one line per GPU, and one per
process. No child is started per sample. One thread per child stores each parsed line with its
time; the reading thread uses lines that are recent enough. The CSV has no memory of MIG instances,
nor of GPUs that use the server's memory, so such GPUs are left out: NVML reads them. `nvidia-smi`
does not report who uses how much under MPS, nor the errors that the driver counted. A restart
starts new children.

`[N/A]`, `[Not Supported]`, `[Unknown Error]`, `ERR!` and the like mean unknown. nvidia-smi(1) has
the options `--query-gpu`, `--query-compute-apps`, `-lms`.
"""

from __future__ import annotations

import csv
import logging
import math
import re
import shutil
import time
from collections.abc import Mapping, Sequence

from msgspec import Struct

from radrm.core.records import Device, Instant, Reading
from radrm.core.units import gpus_named
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

log = logging.getLogger("radrm")

# ------------------------------------------------------------------
# Parse the CSV of `nvidia-smi`: in each round one line per GPU and one per process.


GPU_FIELDS = (
    "uuid,index,name,memory.total,memory.reserved,memory.used,utilization.gpu,power.draw,"
    "mig.mode.current"
)
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


class AppLine(Struct, frozen=True):
    """One process on one GPU in one round."""

    uuid: str
    pid: int
    used_mib: int | None


def parse_gpu(line: str) -> GpuLine | None:
    """Parse a line of `--query-gpu`; return None for any other line."""
    cells = _cells(line, GPU_FIELDS)
    if cells is None or not is_uuid(cells["uuid"], "GPU-") or count(cells["index"]) is None:
        return None
    total = count(cells["memory.total"])
    utilization = _within(cells["utilization.gpu"], 100.0)
    return GpuLine(
        uuid=cells["uuid"],
        index=count(cells["index"]) or 0,
        name=cells["name"],
        total_mib=total,
        reserved_mib=count(cells["memory.reserved"], total),
        used_mib=count(cells["memory.used"], total),
        utilization=None if utilization is None else utilization / 100,
        power_w=_within(cells["power.draw"], _POWER_MAX_W),
        mig=cells["mig.mode.current"] == "Enabled",
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


def count(word: str, limit: int | None = None) -> int | None:
    """Return a number of 0..limit; None for any other word."""
    if not re.fullmatch(r"[0-9]{1,10}", word):
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
# The GPU source that reads long-lived `nvidia-smi` children.


SMACT_SOURCE = "nvidia-smi-utilization"
SILENT_S = 5.0
"""Real seconds after which a line is too old for a reading."""
GONE_S = 2.5
"""Real seconds after which a process that is no longer printed has ended."""

_FORMAT = "--format=csv,noheader,nounits"
_LEFT_OUT = (
    "nvidia-smi does not report the memory of MIG instances, nor of GPUs that use the server's; "
    'NVML does: readings.source = "nvml"'
)


class NvidiaSmi(GpuSource):
    """The GPUs that `nvidia-smi` prints."""

    name = "nvidia-smi"

    def __init__(self, command: str = "nvidia-smi", *, interval_s: float = 1.0) -> None:
        self._command = command
        self._every_ms = print_every_ms(interval_s)
        self._gpus: dict[str, tuple[float, GpuLine]] = {}
        self._apps: dict[tuple[str, int], tuple[float, AppLine]] = {}
        self._unlisted: dict[str, float] = {}
        """When a line said that the processes of a GPU cannot be listed; "" for all GPUs."""
        self._listed: dict[str, GpuLine] = {}
        self._left_out: tuple[int, ...] = ()
        self._processes = Processes()
        query = f"--query-gpu={GPU_FIELDS}"
        self._gpu_stream = Stream("nvidia-smi", lambda: self._looped(query), self._take_gpu)
        self._app_stream = Stream(
            "nvidia-smi (processes)",
            lambda: self._looped("--query-compute-apps=" + APP_FIELDS),
            self._take_app,
            silent_s=math.inf,
        )

    def devices(self) -> tuple[Device, ...]:
        """Return the GPUs whose memory nvidia-smi reports. Raises `DeviceError` if none."""
        if not self._listed:
            self._listed = self._list()
            self._gpu_stream.start()
            self._app_stream.start()
        for _, line in list(self._gpus.values()):
            self._listed[line.uuid] = line
        lines = sorted(self._listed.values(), key=lambda line: line.index)
        self._say_left_out(tuple(line.index for line in lines if not _is_read(line)))
        return tuple(_gpu(line) for line in lines if _is_read(line))

    def _say_left_out(self, indices: tuple[int, ...]) -> None:
        if indices and indices != self._left_out:
            log.warning("%s is left out: %s", gpus_named(indices), _LEFT_OUT)
        self._left_out = indices

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
            used_mib=line.used_mib,
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

    # ------------------------------------------------------------- the children

    def _list(self) -> dict[str, GpuLine]:
        """List all GPUs with a short-lived child. Raises `DeviceError` if none can be read."""
        printed = ask([self._command, f"--query-gpu={GPU_FIELDS}", _FORMAT])
        lines = [line for line in map(parse_gpu, printed.splitlines()) if line is not None]
        if not lines:
            raise DeviceError("nvidia-smi lists no GPU")
        if not any(map(_is_read, lines)):
            raise DeviceError(_LEFT_OUT)
        return {line.uuid: line for line in lines}

    def _looped(self, query: str) -> Sequence[str]:
        if shutil.which(self._command) is None:
            raise DeviceError("nvidia-smi is not installed; install the NVIDIA driver")
        return [self._command, query, _FORMAT, "-lms", str(self._every_ms)]

    def _take_gpu(self, text: str) -> LineKind:
        line = parse_gpu(text)
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


def _is_read(line: GpuLine) -> bool:
    return not line.mig and bool(line.total_mib)


def _gpu(line: GpuLine) -> Device:
    return Device(
        uuid=line.uuid,
        index=line.index,
        name=line.name,
        total_mib=line.total_mib or 0,
        overhead_mib=line.reserved_mib or 0,
    )
