"""Dates and times as traces write them."""

from __future__ import annotations

import re

from radrm.simulator.traces.table import shown
from radrm.simulator.traces.trace import MAX_SECONDS, number

_MOMENT = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d(?:\.\d{1,9})?)")


def moment(cell: str) -> float:
    """Return the seconds of a time: a number, or `2017-10-09 07:01:55`, read as UTC.

    Raises ValueError.
    """
    text = cell.strip()
    found = _MOMENT.fullmatch(text.removesuffix("Z"))
    if not found:
        return number(text, "time", 0, MAX_SECONDS)
    year, month, day, hour, minute = (int(part) for part in found.groups()[:5])
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60):
        raise ValueError(f"time {shown(text)} does not exist")
    # Days since 1970-01-01 of a date in the Gregorian calendar, years counted from March.
    of_march = year - (month <= 2)
    days = (
        365 * of_march
        + of_march // 4
        - of_march // 100
        + of_march // 400
        + (153 * ((month + 9) % 12) + 2) // 5
        + day
        - 719469
    )
    return days * 86400.0 + hour * 3600 + minute * 60 + float(found[6])
