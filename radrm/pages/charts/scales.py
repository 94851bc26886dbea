"""Axes: what values mean, where ticks are, and how they are shown there.

Times are shown as local time. Values that a chart cannot show are unknown (`known`).
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from radrm.client.amounts import number
from radrm.core.units import show_mib, show_seconds

_LARGEST = 1e15
_LAST_S = 2.0**36
_DAY_S = 86_400
_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)
_STEPS_DAYS = (1, 2, 7, 14, 28, 91, 182, 365, 1826, 3652, 36525, 365250)


def known(value: float | None) -> float | None:
    """Return a value that a chart can show; None for others: not finite, or beyond 1e15."""
    return value if value is not None and -_LARGEST <= value <= _LARGEST else None


@dataclass(frozen=True, slots=True)
class Axis:
    """What the values of a chart are. It begins at zero.

    `title` says what is counted, and its unit; `step` returns the next round step that is not
    smaller; `top` is the least upper end.
    """

    title: str
    show: Callable[[float], str]
    step: Callable[[float], float]
    top: float = 0.0

    def ticks(self, largest: float, most: int = 5) -> list[float]:
        """Return the ticks from zero on, at most `most` + 1; the last is the axis' upper end."""
        high = max(self.top, largest, 0.0) or 1.0
        step = self.step(max(high / most, 1e-9))
        return [step * place for place in range(max(1, math.ceil(high / step - 1e-9)) + 1)]


def _round_step(least: float) -> float:
    """Return the next of 1, 2, 5, 10, 20, 50..., also below 1."""
    power = 10.0 ** math.floor(math.log10(least))
    for factor in (1, 2, 5):
        if factor * power >= least * (1 - 1e-9):
            return factor * power
    return 10 * power


def _double_step(least: float) -> float:
    """Return the next power of two, at least 1."""
    return 2.0 ** max(0, math.ceil(math.log2(least) - 1e-9))


def _time_step(least: float) -> float:
    for step in (*_STEPS_S, *(days * _DAY_S for days in _STEPS_DAYS)):
        if step >= least:
            return step
    return _round_step(least)


def _shown(value: float) -> str:
    return number(float(f"{value:.4g}"))


def counts(title: str) -> Axis:
    """Things that are counted: ticks are whole numbers."""
    return Axis(title, lambda n: f"{n:.0f}", lambda least: max(1.0, _round_step(least)), 1.0)


def numbers(title: str) -> Axis:
    """Any amounts; the title has their unit."""
    return Axis(title, _shown, _round_step)


def sizes(title: str, top_mib: float = 0.0) -> Axis:
    """Memory in MiB."""
    return Axis(title, show_mib, _double_step, max(1.0, top_mib))


def short_span(seconds: float) -> str:
    """Return a duration without zeros at its end: `2h`, `2h30m`."""
    text = show_seconds(seconds)
    return re.sub(r"(?<=[dhm])00[hms]$", "", text)


def clock_ticks(begin_s: float, end_s: float, most: int = 6) -> list[tuple[float, str]]:
    """Return ticks between two epoch seconds and their texts, at round local times and dates.

    A change of the clock moves ticks, so that their texts stay round.
    """
    begin_s, end_s = (min(max(each, 0.0), _LAST_S) for each in (begin_s, end_s))
    step = _time_step(max((end_s - begin_s) / most, 1.0))
    then = time.localtime(begin_s)
    ticks: list[tuple[float, str]] = []
    for place in range(_DAY_S // int(min(step, _DAY_S)) * 2 + most * 4 + 400):
        days, seconds = divmod(int(step) * place, _DAY_S)
        clock = seconds // 3600, seconds // 60 % 60, seconds % 60
        if step > _DAY_S:  # from the first of January on, so that ticks are the same on each day
            day = (then.tm_year, 1, 1 + days)
        else:
            day = (then.tm_year, then.tm_mon, then.tm_mday + days)
        try:
            moment = time.mktime((*day, *clock, 0, 0, -1))
        except (OverflowError, ValueError):  # years that the platform does not know
            break
        if moment > end_s or len(ticks) > 2 * most:
            break
        if moment >= begin_s and (not ticks or moment > ticks[-1][0]):
            ticks.append((moment, _moment(moment, step, end_s - begin_s)))
    return ticks


def _moment(epoch_s: float, step_s: float, span_s: float) -> str:
    then = time.localtime(epoch_s)
    date = f"{then.tm_mday} {_MONTHS[then.tm_mon - 1]}"
    if step_s >= _DAY_S:
        return f"{date} {then.tm_year}" if span_s > 300 * _DAY_S else date
    if then.tm_hour == then.tm_min == then.tm_sec == 0 and span_s > _DAY_S / 4:
        return date
    clock = f"{then.tm_hour}:{then.tm_min:02}"
    return f"{clock}:{then.tm_sec:02}" if step_s < 60 else clock


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
