"""Convert sizes and durations from text to numbers, and back; name several GPUs.

`4G`, `4GiB`, `4096M` and `4096` are all 4096 MiB; `90`, `1:30`, `0:01:30`,
`1-00:00:00` and `90s 5min 2h 1d` are durations. Each `submit` imports this file, so it has no
regular expressions: importing `re` and compiling them takes a third of a command.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

SIMULATED_GPUS = "simulated GPUs"
"""What they are called wherever a server's GPUs are counted or summed for people."""
WHOLE_DEVICE_MIB = 2**30
"""A whole device of any size. The prototype's mark "failed or too large" becomes this."""

_MIB_PER = {
    f"{unit}{end}": mib
    for unit, mib in {"": 1.0, "k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0 * 1024.0}.items()
    for end in ("", "b", "ib")
}
_SECONDS_PER = {
    name: seconds
    for names, seconds in {
        "s sec secs second seconds": 1.0,
        "m min mins minute minutes": 60.0,
        "h hr hrs hour hours": 3600.0,
        "d day days": 86400.0,
        "w week weeks": 604_800.0,
    }.items()
    for name in names.split()
}


def is_digits(text: str, most: int = 1000) -> bool:
    """True for 1 to `most` of the digits 0 to 9."""
    return text.isascii() and text.isdecimal() and len(text) <= most


def is_decimal(text: str) -> bool:
    """True for a number without sign and exponent, as `12` and `12.5`."""
    whole, point, part = text.partition(".")
    return is_digits(whole) and (is_digits(part) or not point)


def parse_mib(text: str) -> int:
    """Return a size in MiB, rounded up. Raises ValueError for other text and for zero."""
    words = text.strip().lower()
    unit = words.lstrip("0123456789.")
    amount = words.removesuffix(unit)
    if not is_decimal(amount) or unit.strip() not in _MIB_PER:
        raise ValueError(f"{text!r} is not a size; write 4G, 4096M or a number of MiB")
    mib = float(amount) * _MIB_PER[unit.strip()]
    if not 0 < mib < float("inf"):
        raise ValueError(f"{text!r} is not a size above zero that a number holds")
    return -int(-mib // 1)


def parse_seconds(text: str) -> float:
    """Return a duration in seconds; a plain number is seconds. Raises ValueError, also for zero."""
    text = "".join(text.split())
    value = float(text) if is_decimal(text) else _of_spans(text)
    if ":" in text or "-" in text:
        value = _of_clock(text)
    if value is None:
        raise ValueError(f"{text!r} is not a duration; write 90s, 1:30:00 or 1-00:00:00")
    if not 0 < value < float("inf"):
        raise ValueError(f"{text!r} is not a duration above zero that a number holds")
    return value


def _of_clock(text: str) -> float | None:
    """The seconds of `[HOURS:]MINUTES:SECONDS`, or of `DAYS-HOURS[:MINUTES[:SECONDS]]` as in Slurm;
    None for other text."""
    days, dash, time = text.rpartition("-")
    *before, last = time.split(":")
    counts = [days, *before] if dash else before
    if len(before) > 2 or not all(map(is_digits, counts)) or not is_decimal(last):
        return None
    if before and len(last.partition(".")[0]) != 2:
        return None
    amounts = [float(each) for each in (*before, last)]
    hours, minutes, seconds = (*amounts, 0.0, 0.0)[:3] if dash else (0.0, *amounts)[-3:]
    return (float(days or 0) * 24 + hours) * 3600 + minutes * 60 + seconds


def _of_spans(text: str) -> float | None:
    """The seconds of `1h30min`; None for other text."""
    value, left = 0.0, text.lower()
    while left:
        behind = left.lstrip("0123456789.")
        after = behind.lstrip("abcdefghijklmnopqrstuvwxyz")
        amount, unit = left.removesuffix(behind), behind.removesuffix(after)
        if not is_decimal(amount) or unit not in _SECONDS_PER:
            return None
        value, left = value + float(amount) * _SECONDS_PER[unit], after
    return value if text else None


def milli(cpus: float | None) -> int:
    """Return a number of CPUs in thousandths, at least one; 0 for None and zero."""
    return max(1, round(cpus * 1000)) if cpus else 0


def show_mib(mib: float | None) -> str:
    """Return a size as text: `38.0G` from 1 GiB on, else `512M`; `-` when unknown."""
    if mib is None:
        return "-"
    return f"{mib / 1024:.1f}G" if mib >= 1024 else f"{mib:.0f}M"


def show_booked(
    cpus_booked: float, cpus: float | None, memory_booked_mib: int, memory_mib: int | None
) -> str:
    """Return what is booked of a node: `12 of 32 CPUs and 40.0G of 128.0G host memory booked`."""
    of_cpus = f"{cpus_booked:g} of {'-' if cpus is None else f'{cpus:g}'} CPUs"
    of_memory = f"{show_mib(memory_booked_mib)} of {show_mib(memory_mib)} host memory"
    return f"{of_cpus} and {of_memory} booked"


def show_seconds(seconds: float | None) -> str:
    """Return a duration as text: `4s`, `3m12s`, `2h05m`, `3d04h`; `-` when unknown."""
    if seconds is None:
        return "-"
    whole = int(max(0.0, seconds) + 0.5)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def gpu_count(number: int, simulated: bool) -> str:
    """Return `1 GPU`, `4 GPUs`, `4 simulated GPUs`: all that counts a server's GPUs for people."""
    words = SIMULATED_GPUS if simulated else "GPUs"
    return f"{number} {words[:-1] if number == 1 else words}"


def spelled_out(word: str) -> list[str]:
    """Return the indices of `0-3`, each alone; another word as it is. Raises ValueError."""
    first, dash, last = word.partition("-")
    if not (dash and is_digits(first, 4) and is_digits(last, 4)):
        return [word]
    if int(first) > int(last):
        raise ValueError(f"{word!r} has the larger index first")
    return list(map(str, range(int(first), int(last) + 1)))


def gpus_named(indices: Iterable[int]) -> str:
    """Return `GPU 0-3, 5` for these indices."""
    words = [
        f"{first}-{last}" if last - first > 1 else ", ".join(map(str, sorted({first, last})))
        for first, last in spans(indices)
    ]
    return f"GPU {', '.join(words)}"


def spans(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and the last of each row of neighbours among these numbers."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and found[-1][1] == number - 1:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return found
