"""Times, moments and amounts of memory as Slurm writes them."""

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


_CLOCKS = {
    "midnight": "00:00",
    "elevenses": "11:00",
    "noon": "12:00",
    "fika": "15:00",
    "teatime": "16:00",
}


def parse_moment(text: str) -> str | None:
    """Return Slurm's time of day, date or `now+2hours` as ours; None for now. Raises ValueError.

    What is no form of Slurm's is returned as it is: it may be one of ours.
    """
    now = re.fullmatch(r"now(?:\+([0-9]{1,9})([a-z]*))?", text.lower())
    if now is not None:
        return None if not now[1] else _from_now(int(now[1]), now[2])
    if text.lower() == "today":
        return None
    if text.lower() in ("tomorrow", *_CLOCKS):
        return _CLOCKS.get(text.lower(), "tomorrow 00:00")
    date = re.fullmatch(
        r"(?:([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})|([0-9]{2})([/.]?)([0-9]{2})\5((?:20)?[0-9]{2}))"
        r"(?:[T-](.+))?",
        text,
    )
    if date is None:
        return _of_24_hours(text)
    if date[1]:
        year, month, day = date[1], date[2], date[3]
    else:  # MMDDYY, MM/DD/YY, MM.DD.YY
        year, month, day = f"20{date[7][-2:]}", date[4], date[6]
    return f"{year}-{month:>02}-{day:>02}T{_of_24_hours(date[8] or '00:00')}"


def _of_24_hours(text: str) -> str:
    """Return `5:30 PM` as 17:30, and all else as it is."""
    clock = re.fullmatch(r"([0-9]{1,2}):([0-9]{2})(:[0-9]{2})? ?([AP])M", text, re.IGNORECASE)
    if clock is None or not 1 <= int(clock[1]) <= 12:
        return text
    hour = int(clock[1]) % 12 + (12 if clock[4].upper() == "P" else 0)
    return f"{hour:02}:{clock[2]}{clock[3] or ''}"


def _from_now(count: int, unit: str) -> str:
    units = ("seconds", "minutes", "hours", "days", "weeks")
    name = next((u for u in units if u.startswith(unit) or u[:-1] == unit), None)
    if name is None:
        raise ValueError(f"{shown(unit)} is no unit; write now+2hours")
    return f"+{count * 7}d" if name == "weeks" else f"+{count}{name[0]}"
