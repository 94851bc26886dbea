"""Amounts and times as people read them; `-` for unknown ones."""

from __future__ import annotations

import time

from radrm.client.text import WAITING
from radrm.core.units import WHOLE_DEVICE_MIB, show_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.client.text import Document


def number(value: float) -> str:
    """A number without an exponent: `1234567`, `2.5`."""
    return f"{value:.0f}" if abs(value) >= 1e5 else f"{value:g}"


def when(epoch_s: float | None, now: float) -> str:
    """A time as local time, and its distance from now."""
    if epoch_s is None:
        return "-"
    moment = local_time(epoch_s)
    if epoch_s > now:
        return f"{moment} (in {show_seconds(epoch_s - now)})"
    return f"{moment} ({show_seconds(now - epoch_s)} ago)"


def local_time(epoch_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(epoch_s))


def clock(epoch_s: float, now: float) -> str:
    """A time near now in few words: `18:00`, `tomorrow 9:00`, `fri 9:00`; else with its date."""
    then, today = time.localtime(epoch_s), time.localtime(now)
    of_day = f"{then.tm_hour}:{then.tm_min:02}"
    noon, noon_today = (time.mktime((*each[:3], 12, 0, 0, 0, 0, -1)) for each in (then, today))
    days = round((noon - noon_today) / _DAY_S)
    if days == 0:
        return of_day
    if days == 1:
        return f"tomorrow {of_day}"
    if 1 < days < 7:
        return f"{_DAYS[then.tm_wday]} {of_day}"
    return f"{then.tm_year}-{then.tm_mon:02}-{then.tm_mday:02} {of_day}"


_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY_S = 86_400


def span(seconds: float) -> str:
    """How late something is, roughly: `45s`, `40m`, `1h05m`, `3d04h`."""
    return f"{seconds // 60:.0f}m" if 60 <= seconds < 3600 else show_seconds(seconds)


def starts_in(job: Document, now: float) -> str:
    """When a waiting job is expected to start: `in 20-40m (est.)`, `in 1h05m or later (est.)`, or,
    if only time limits are known, `at the latest in 5h32m`; "" if unknown."""
    start, latest = job.get("expected_start_at"), job.get("latest_start_at")
    if job["state"] not in WAITING:
        return ""
    if start is not None:
        return f"{_between(start, latest, now)} (est.)"
    return "" if latest is None else f"at the latest in {span(max(0.0, latest - now))}"


def _between(start: float, latest: float | None, now: float) -> str:
    soonest = span(max(0.0, start - now))
    if latest is None:
        return f"in {soonest} or later"
    last = span(max(0.0, latest - now))
    if last == soonest:
        return f"in {soonest}"
    if soonest[-1] == last[-1] and soonest[:-1].isdigit() and last[:-1].isdigit():
        soonest = soonest[:-1]
    return f"in {soonest}-{last}"


def due_text(job: Document, now: float) -> str:
    """When a job is due, and how late it is: `18:00`, `18:00, late 40m`, `late 2h10m`; "" without
    a due time."""
    due, late_s = job.get("due_at"), job.get("late_s") or 0.0
    if due is None:
        return ""
    late = f"late {span(late_s)}" if late_s >= 1 else ""
    return late if late and now >= due else ", ".join(filter(None, (clock(due, now), late)))


def show_joules(joules: float | None) -> str:
    """Energy: `850 J`, `12.3 kJ`, `4.1 MJ`."""
    if joules is None:
        return "-"
    if joules < 1000:
        return f"{joules:.0f} J"
    return f"{joules / 1e3:.1f} kJ" if joules < 1e6 else f"{joules / 1e6:.1f} MJ"


def show_smact(smact: float | None) -> str:
    return "-" if smact is None else f"{smact:.2f}"


SCALED = "scaled by SMs and clock"
"""The source of SM activity that was predicted for another kind of GPU."""


def shown_smact(smact: float, upper: float | None, source: str) -> str:
    """Predicted SM activity: `0.62, at most 0.71 (from history)`."""
    return _shown(show_smact(smact), show_smact(upper), source)


def shown_duration(seconds: float, upper_s: float | None, source: str) -> str:
    """A predicted duration: `1h20m, at most 1h30m (from history)`."""
    return _shown(show_seconds(seconds), show_seconds(upper_s), source)


def _shown(value: str, upper: str, source: str) -> str:
    most = f", at most {upper}" if upper not in ("-", value) else ""
    given = source in ("declared", "measured", SCALED)
    return f"{value}{most} ({source if given else f'from {source}'})"


def show_watts(power_w: float | None) -> str:
    return "-" if power_w is None else f"{power_w:.0f}"


def sane_mib(mib: int | None) -> int | None:
    """The size, or None for the value that means a whole device of any size."""
    return None if mib is None or mib >= WHOLE_DEVICE_MIB else mib
