"""The time that a report is about: `--since` and `--until`."""

from __future__ import annotations

from radrm.cli.parameters import TEXT, Parameter
from radrm.core.units import parse_seconds
from radrm.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

SINCE = Parameter("since", TEXT, "Start: 7d (ago; the default), or a date.", "WHEN", ("--since",))
UNTIL = Parameter("until", TEXT, "End: 1d (ago), or a date; by default now.", "WHEN", ("--until",))

_EXAMPLE = "write 7d, 12h, 2030-01-31 or 2030-01-31T18:00"
_LAST_YEAR = 9998


def period(since: str, until: str) -> Callable[[float], tuple[float, float]]:
    """Return a function of the daemon's time that returns begin and end, in epoch seconds.

    Raises `UsageError` for what is no time; the function does for a time that ends before it
    begins.
    """
    begin, end = _moment("--since", since or "7d"), _moment("--until", until or "0")

    def at(now_s: float) -> tuple[float, float]:
        begin_s, end_s = begin(now_s), end(now_s)
        if begin_s >= end_s:
            text = f"--since {since or '7d'} is not before --until {until or 'now'}"
            raise UsageError(f"{text}; {_EXAMPLE}")
        return begin_s, end_s

    return at


def _moment(option: str, text: str) -> Callable[[float], float]:
    """Return the epoch second of a time span before now, or of a local date and time."""
    if text == "0":
        return lambda now_s: now_s
    try:
        span_s = parse_seconds(text)
        return lambda now_s: max(0.0, now_s - span_s)
    except ValueError:
        pass
    from datetime import datetime

    try:
        found = datetime.fromisoformat(text)
        if 1970 < found.year <= _LAST_YEAR:
            epoch_s = found.timestamp()
            return lambda now_s: epoch_s
    except (ValueError, OverflowError, OSError):
        pass
    raise UsageError(f"{option}: {text!r} is neither a time span nor a date; {_EXAMPLE}")
