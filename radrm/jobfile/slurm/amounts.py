"""Times and amounts of memory as Slurm writes them."""

from __future__ import annotations

import re

from radrm.jobfile.values import shown


def parse_time(text: str) -> int | None:
    """Return Slurm's time limit in seconds; None for none. A plain number is minutes.

    Raises ValueError.
    """
    if text.upper() in ("0", "INFINITE", "UNLIMITED", "-1"):
        return None
    found = re.fullmatch(
        r"(?:([0-9]{1,6})-)?([0-9]{1,9})(?::([0-9]{1,9}))?(?::([0-9]{1,9}))?", text
    )
    if not found:
        raise ValueError(f"{shown(text)} is not a time; write 90 (minutes), 1:30:00 or 1-00:00:00")
    days, *parts = found.groups()
    numbers = [int(part) for part in parts if part is not None]
    if days is not None:  # D-H, D-H:M, D-H:M:S
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
    elif len(numbers) == 3:
        hours, minutes, seconds = numbers
    else:  # M, M:S
        hours, (minutes, seconds) = 0, (*numbers, 0)[:2]
    total = ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    return total or None


def parse_memory(text: str) -> float:
    """Return an amount of memory in MiB; a plain number is MiB. Raises ValueError."""
    found = re.fullmatch(r"([0-9]{1,12})([KMGT]?)B?", text, re.IGNORECASE)
    if not found:
        raise ValueError(f"{shown(text)} is not an amount; write 16G or 16000 (MiB)")
    return int(found[1]) * {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024**2}[found[2].upper()]
