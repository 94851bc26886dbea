"""Amounts and times as people read them; `-` for unknown ones."""

from __future__ import annotations

import time

from radrm.core.units import WHOLE_DEVICE_MIB, show_seconds


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


def show_joules(joules: float | None) -> str:
    """Energy: `850 J`, `12.3 kJ`, `4.1 MJ`."""
    if joules is None:
        return "-"
    if joules < 1000:
        return f"{joules:.0f} J"
    return f"{joules / 1e3:.1f} kJ" if joules < 1e6 else f"{joules / 1e6:.1f} MJ"


def show_smact(smact: float | None) -> str:
    return "-" if smact is None else f"{smact:.2f}"


def shown_smact(smact: float, upper: float | None, source: str) -> str:
    """Predicted SM activity: `0.62, at most 0.71 (from history)`."""
    return _shown(show_smact(smact), show_smact(upper), source)


def shown_duration(seconds: float, upper_s: float | None, source: str) -> str:
    """A predicted duration: `1h20m, at most 1h30m (from history)`."""
    return _shown(show_seconds(seconds), show_seconds(upper_s), source)


def _shown(value: str, upper: str, source: str) -> str:
    most = f", at most {upper}" if upper not in ("-", value) else ""
    given = source in ("declared", "measured")
    return f"{value}{most} ({source if given else f'from {source}'})"


def show_watts(power_w: float | None) -> str:
    return "-" if power_w is None else f"{power_w:.0f}"


def sane_mib(mib: int | None) -> int | None:
    """The size, or None for the value that means a whole device of any size."""
    return None if mib is None or mib >= WHOLE_DEVICE_MIB else mib
