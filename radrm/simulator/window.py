"""SM activity over a window, from what a device shows rather than from readings of it.

A modelled device's activity is constant between events, so what readings at a steady
interval would tell is known at any time without one of them being taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from radrm.core.state.window import SmactWindow

_ROUNDING_S = 1e-6


class Shown(Protocol):
    """A device that remembers what it has shown."""

    activity: float

    def mean(self, from_s: float, until_s: float) -> tuple[float, float]:
        """Mean memory (MiB) and SM activity from then to then."""
        ...


class PiecewiseWindow(SmactWindow):
    """What a `SmactWindow` would tell that had a reading every `interval_s` seconds."""

    __slots__ = ("_clock", "_device", "_interval_s", "_told", "_told_for", "restarted_s")

    def __init__(
        self, length_s: float, interval_s: float, device: Shown, clock: Callable[[], float]
    ) -> None:
        super().__init__(length_s)
        self._interval_s = interval_s
        self._device = device
        self._clock = clock
        self.restarted_s = clock()
        self._told_for: tuple[float, float] | None = None
        self._told = 0.0

    def add(self, boot_s: float, smact: float) -> None:
        """A reading tells nothing new."""

    def forget(self, now_s: float) -> None:
        """Nothing is kept that could be too old."""

    def restart(self) -> None:
        self.restarted_s = self._clock()
        self._told_for = None

    def __len__(self) -> int:
        seen_s = min(self._length_s, self._clock() - self.restarted_s)
        return int((seen_s + _ROUNDING_S) / self._interval_s)

    @property
    def last_s(self) -> float:
        return self._clock() if len(self) else float("-inf")

    @property
    def mean(self) -> float | None:
        now_s = self._clock()
        if (now_s, self._device.activity) != self._told_for:
            self._told_for = now_s, self._device.activity
            from_s = max(self.restarted_s, now_s - self._length_s)
            self._told = min(1.0, max(0.0, self._device.mean(from_s, now_s)[1]))
        return self._told if len(self) else None

    @property
    def falls_by(self) -> float:
        """How far the mean has still to fall; it is then that time alone may let somebody in."""
        mean = self.mean
        return 0.0 if mean is None else max(0.0, mean - self._device.activity)
