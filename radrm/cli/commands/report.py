"""`radrm report`: show what was used, and its cost."""

from __future__ import annotations

from radrm.cli.parameters import FLAG, JSON, TEXT, Parameter
from radrm.cli.show.energy import energy_page
from radrm.cli.show.styled import show
from radrm.client.connection import Client
from radrm.client.text import print_json
from radrm.core.units import parse_seconds
from radrm.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

BY = ("user", "job", "gpu", "day", "group")
_EXAMPLE = "write 7d, 12h, 2030-01-31 or 2030-01-31T18:00"
_LAST_YEAR = 9998

PARAMETERS = (
    Parameter("energy", FLAG, "The energy that jobs used.", flags=("--energy",)),
    Parameter("by", TEXT, f"Sum by {', '.join(BY)}.", "WHAT", ("--by",)),
    Parameter("since", TEXT, "Start: 7d (ago; the default), or a date.", "WHEN", ("--since",)),
    Parameter("until", TEXT, "End: 1d (ago), or a date; by default now.", "WHEN", ("--until",)),
    JSON,
)


def report(energy: bool, by: str, since: str, until: str, as_json: bool) -> None:
    """Show the energy that users, jobs or GPUs have used, and its cost.

    Whole hours count, each at its price (energy.price, energy.pue). Idle energy has its own row:
    no job was on the GPU. All rows add up to what the GPUs' meters show.

    \b
    Examples:
      radrm report --energy
      radrm report --energy --by job --since 12h
      radrm report --energy --by day --since 2030-01-01 --until 2030-02-01
    """
    if not energy:
        raise UsageError("say what to report: radrm report --energy")
    what = by or "user"
    if what not in BY:
        raise UsageError(f"--by: {what!r} is none of {', '.join(BY)}; write --by user")
    begin, end = _moment("--since", since or "7d"), _moment("--until", until or "0")
    with Client() as client:
        now_s = client.ask("ping")["now"]
        begin_s, end_s = begin(now_s), end(now_s)
        if begin_s >= end_s:
            text = f"--since {since or '7d'} is not before --until {until or 'now'}"
            raise UsageError(f"{text}; {_EXAMPLE}")
        answer = client.ask("energy", by=what, since=begin_s, until=end_s)
    if as_json:
        print_json(answer)
    else:
        show(*energy_page(answer))


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
