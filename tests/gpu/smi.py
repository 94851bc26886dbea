"""What `nvidia-smi` prints, as the acceptance tests compare with it."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass

QUERY = "uuid,index,memory.total,memory.used,memory.reserved,power.draw,mig.mode.current"


@dataclass(frozen=True)
class Row:
    """One GPU. What nvidia-smi does not tell is None."""

    uuid: str
    index: int
    total_mib: float | None
    used_mib: float | None
    reserved_mib: float | None
    power_w: float | None
    mig: bool


def rows(text: str) -> dict[str, Row]:
    """The GPUs by UUID, of `--query-gpu=QUERY --format=csv,noheader,nounits`."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == len(QUERY.split(",")):
            uuid, index, *numbers, mig = cells
            found[uuid] = Row(uuid, int(index), *map(number, numbers), mig=mig == "Enabled")
    return found


def number(cell: str) -> float | None:
    """A cell, None for `[N/A]`, `[Not Supported]` and their like."""
    try:
        return float(cell)
    except ValueError:
        return None


def ask(*words: str) -> str | None:
    """What nvidia-smi prints; None where there is none, or it cannot answer."""
    path = shutil.which("nvidia-smi")
    if path is None:
        return None
    try:
        done = subprocess.run(
            [path, *words], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def gpus() -> dict[str, Row]:
    """The GPUs as nvidia-smi sees them; none where it cannot be asked."""
    return rows(ask(f"--query-gpu={QUERY}", "--format=csv,noheader,nounits") or "")
