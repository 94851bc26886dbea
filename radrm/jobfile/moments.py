"""Moments as users write them, and their absolute form: `--due` now, and options like it.

Theory of operation
-------------------
    2030-01-31T18:00    also with a space, seconds, and an offset: +01:00 or Z
    18:00               the next time that a clock shows this
    today 18:00, tomorrow 9:00, fri 9:00
    +90m                from now
    none                no moment: takes an earlier one away

All but the first form with an offset mean another moment in another zone or at another time. So
they are resolved once, where the user is, to a date and time with an offset. This file does not
read the clock: a `Here` has the time, and the offset of the local zone at any time. `submit`
uses it while a user waits, so it imports neither `datetime` nor `re`.

Where the clocks go forward some local times do not exist: they are read by the offset before the
change, so 02:30 is 03:30. Where they go back some exist twice: a date and time is the first one,
and `02:30` the next one.
"""

from __future__ import annotations

from time import gmtime

from radrm.core.units import parse_seconds, show_seconds
from radrm.errors import shown
from radrm.jobfile.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

NONE = "none"
EXAMPLE = "write 2030-01-31T18:00, 18:00, 'tomorrow 9:00', 'fri 9:00' or +90m"
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_LONG_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_LONGEST = 40
_DAY_S = 86_400
_MOST_S = 10 * 366 * _DAY_S
_LAST_S = 253_402_300_799 - 2 * _DAY_S
"""The end of the year 9999, in any zone."""


class Here(Record):
    """Where and when a user writes: epoch seconds, and seconds east of UTC at an epoch second."""

    now_s: float
    offset_s: Callable[[float], float]


class Moment(Record):
    """A moment as written. One of `after_s`, `day` and `date_s` is used.

    `clock_s` is the time of day. `day` is 0 for today, 1 for tomorrow, "next" for the next such
    time, or the name of a weekday. `date_s`: midnight of a date, in seconds as if in UTC.
    `offset_s` is None for local times.
    """

    clock_s: int = 0
    after_s: float | None = None
    day: int | str | None = None
    date_s: int | None = None
    offset_s: int | None = None

    @property
    def absolute_s(self) -> float | None:
        """The epoch second that it means everywhere; None if that depends on zone or time."""
        if self.date_s is None or self.offset_s is None:
            return None
        return float(self.date_s + self.clock_s - self.offset_s)

    def at(self, here: Here) -> float:
        """Return the epoch second that it means here."""
        if self.absolute_s is not None:
            return self.absolute_s
        if self.after_s is not None:
            return here.now_s + self.after_s
        if self.date_s is not None:
            return _epoch_s(self.date_s + self.clock_s, here)[0]
        local_s = int(here.now_s + here.offset_s(here.now_s))
        today_s = local_s - local_s % _DAY_S
        if isinstance(self.day, int):
            return _epoch_s(today_s + self.day * _DAY_S + self.clock_s, here)[0]
        days = range(-1, 3)  # a change of the offset can make a day of the calendar early or late
        if self.day in _DAYS:
            ahead = (_DAYS.index(self.day) - _weekday(today_s)) % 7
            days = range(ahead, ahead + 8, 7)
        return min(
            at_s
            for day in days
            for at_s in _epoch_s(today_s + day * _DAY_S + self.clock_s, here)
            if at_s > here.now_s
        )


def read(text: str) -> Moment:
    """Return what a text means. Raises ValueError, with an example, if it is no moment."""
    word = " ".join(text.split()).lower()
    if len(text) > _LONGEST or not word.isascii():
        raise _wrong(text, "is not a time")
    if word.startswith("+"):
        return Moment(after_s=_after_s(text, word[1:]))
    if _shape(word, "-:") == "0000-00-00" or word in (*_DAYS, *_LONG_DAYS, "today", "tomorrow"):
        raise _wrong(text, "has no time of day")
    if _shape(word[:10], "-:") == "0000-00-00" and word[10] in "t ":
        clock, sign, offset = word[11:], "", ""
        for mark in "z+-":
            if mark in clock:
                clock, sign, offset = clock.partition(mark)
        date_s = _date_s(text, *map(int, word[:10].split("-")))
        return Moment(_clock_s(text, clock), date_s=date_s, offset_s=_offset_s(text, sign, offset))
    day, _, clock = word.rpartition(" ")
    clock_s = _clock_s(text, clock)
    return Moment(clock_s, day=_day(text, day))


def _shape(word: str, marks: str) -> str:
    """Return a text with `0` for each digit and `?` for what is neither digit nor mark."""
    return "".join("0" if c.isdigit() else c if c in marks else "?" for c in word)


def _wrong(text: str, why: str) -> ValueError:
    return ValueError(f"{shown(text)} {why}; {EXAMPLE}")


def absolute(text: str, here: Here) -> str:
    """Return a moment as date and time with an offset: that of the local zone then, if `text` has
    none.

    Raises ValueError for text that is no moment, or one too far away. `none` stays.
    """
    if text == NONE:
        return text
    moment = read(text)
    at_s = moment.at(here)
    if not 0 <= at_s <= _LAST_S:
        raise _wrong(text, "is not in the years 1970 to 9999")
    offset_s = here.offset_s(at_s) if moment.offset_s is None else moment.offset_s
    return written(at_s, offset_s)


def refuse_past(text: str, here: Here) -> None:
    """Raise ValueError for a moment that is over."""
    at_s = read(text).at(here)
    if at_s <= here.now_s:
        now = written(here.now_s, here.offset_s(here.now_s))
        raise _wrong(text, f"is over: now it is {now}")


def too_late(needs_s: float | None, due_s: float | None, now_s: float) -> str | None:
    """Return why a job cannot end in time, even if it runs from now on; None if it can.

    `needs_s`: its expected run time from now on.
    """
    if needs_s is None or due_s is None or now_s + needs_s <= due_s:
        return None
    left, needs = show_seconds(max(0.0, due_s - now_s)), show_seconds(needs_s)
    late = show_seconds(now_s + needs_s - due_s)
    return f"it is due in {left} and needs about {needs}, so it will be late by about {late}"


def written(at_s: float, offset_s: float) -> str:
    """Return an epoch second as date and time with this offset: `2030-01-31T18:00:00+01:00`."""
    whole_s, ahead_s = int(-(-at_s // 1)), round(offset_s)
    there = gmtime(whole_s + ahead_s)
    minutes, seconds = divmod(abs(ahead_s), 60)
    offset = f"{'-' if ahead_s < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"
    offset += f":{seconds:02}" if seconds else ""
    date = f"{there.tm_year:04}-{there.tm_mon:02}-{there.tm_mday:02}"
    return f"{date}T{there.tm_hour:02}:{there.tm_min:02}:{there.tm_sec:02}{offset}"


def _epoch_s(local_s: int, here: Here) -> list[float]:
    """Return the epoch seconds at which the local clock shows `local_s`: one, or two.

    For a time that the local clock never shows: the one by the offset before the change.
    """
    before, after = (here.offset_s(local_s + side * _DAY_S) for side in (-1, 1))
    first, second = local_s - before, local_s - after
    found = [
        at_s for at_s in dict.fromkeys((first, second)) if at_s + here.offset_s(at_s) == local_s
    ]
    return sorted(found) or [first]


def _weekday(local_s: int) -> int:
    return (local_s // _DAY_S + 3) % 7  # 1970-01-01 was a Thursday


def _after_s(text: str, length: str) -> float:
    try:
        found = parse_seconds(length)
    except ValueError:
        raise _wrong(text, "is not a time from now") from None
    if found > _MOST_S:
        raise _wrong(text, "is more than ten years from now")
    return found


def _date_s(text: str, year: int, month: int, day: int) -> int:
    if year and 1 <= month <= 12:
        next_ = _days(year, month + 1) if month < 12 else _days(year + 1, 1)
        if 1 <= day <= next_ - _days(year, month):
            return (_days(year, month) + day - 1) * _DAY_S
    raise _wrong(text, "is not a date of the calendar")


def _days(year: int, month: int) -> int:
    """Return the days from 1970-01-01 to the first day of a month.

    Years begin in March here, so that the leap day is the last of a year.
    """
    year, month = year - (month < 3), (month + 9) % 12
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 - 719_468


def _clock_s(text: str, clock: str) -> int:
    if _shape(clock, ":") not in ("0:00", "00:00", "0:00:00", "00:00:00"):
        raise _wrong(text, "is not a time")
    hours, minutes, seconds = (*map(int, clock.split(":")), 0)[:3]
    if hours > 23 or minutes > 59 or seconds > 59:
        raise _wrong(text, "is not a time of day from 0:00 to 23:59")
    return hours * 3600 + minutes * 60 + seconds


def _offset_s(text: str, sign: str, offset: str) -> int | None:
    if not sign:
        return None
    if _shape(offset, ":") not in (("",) if sign == "z" else _OFFSETS):
        raise _wrong(text, "is not a time")
    digits = offset.replace(":", "").ljust(6, "0")
    hours, minutes, seconds = (int(digits[at : at + 2]) for at in (0, 2, 4))
    if hours > 23 or minutes > 59 or seconds > 59:
        raise _wrong(text, "has no offset from -23:59 to +23:59")
    size_s = hours * 3600 + minutes * 60 + seconds
    return -size_s if sign == "-" else size_s


_OFFSETS = ("0000", "00:00", "00:00:00")


def _day(text: str, word: str) -> int | str:
    if not word:
        return "next"
    if word in ("today", "tomorrow"):
        return int(word == "tomorrow")
    for short, long in zip(_DAYS, _LONG_DAYS, strict=True):
        if word in (short, long):
            return short
    raise _wrong(text, f"is not a time: {word!r} is not a day")
