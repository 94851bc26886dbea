"""Parse the CSV of `nvidia-smi`: in each round one line per GPU and one per process."""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class GpuLine:
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


@dataclass(frozen=True, slots=True)
class AppLine:
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
