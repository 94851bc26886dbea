"""The mean SM activity of a simulated device over a window, without readings.

Between two events a simulated device's activity is constant. So the mean that readings at
a steady interval would give is known at any time.
"""

from __future__ import annotations

from typing import Protocol

_ROUNDING_S = 1e-6


class Clock(Protocol):
    now_s: float


class ObservedDevice(Protocol):
    """A device that remembers its activity over time."""

    activity: float
    steady_s: float
    """The time since which the activity is what it is, or a later one."""

    def mean_smact(self, from_s: float, until_s: float) -> float:
        """Return the mean SM activity between the two times."""
        ...


class PiecewiseWindow:
    """A ledger's window, as if the device were read every `interval_s` seconds."""

    __slots__ = (
        *("_clock", "_device", "_interval_s", "_length_s"),
        *("_cached", "_cached_at_s", "_cached_for"),
        "restarted_s",
    )

    def __init__(
        self, length_s: float, interval_s: float, device: ObservedDevice, clock: Clock
    ) -> None:
        self._length_s = length_s
        self._interval_s = interval_s
        self._device = device
        self._clock = clock
        self.restarted_s = clock.now_s
        # The mean at a time and present activity.
        self._cached_at_s = float("nan")
        self._cached_for = 0.0
        self._cached = 0.0

    def add(self, boot_s: float, smact: float) -> None:
        """Do nothing: a reading adds no information."""

    def forget(self, now_s: float) -> None:
        """Do nothing: no reading is kept that could be too old."""

    def restart(self) -> None:
        self.restarted_s = self._clock.now_s
        self._cached_at_s = float("nan")

    def __len__(self) -> int:
        seen_s = min(self._length_s, self._clock.now_s - self.restarted_s)
        return int((seen_s + _ROUNDING_S) / self._interval_s)

    @property
    def last_s(self) -> float:
        now_s = self._clock.now_s
        seen_s = now_s - self.restarted_s
        return now_s if (seen_s + _ROUNDING_S) / self._interval_s >= 1.0 else float("-inf")

    @property
    def mean(self) -> float | None:
        now_s, device = self._clock.now_s, self._device
        seen_s = now_s - self.restarted_s
        if (seen_s + _ROUNDING_S) / self._interval_s < 1.0:
            return None
        activity = device.activity
        if now_s != self._cached_at_s or activity != self._cached_for:
            self._cached_at_s, self._cached_for = now_s, activity
            from_s = now_s - self._length_s
            if from_s < self.restarted_s:
                from_s = self.restarted_s
            mean = device.mean_smact(from_s, now_s)
            self._cached = 0.0 if mean < 0.0 else 1.0 if mean > 1.0 else mean
        return self._cached

    @property
    def falls_by(self) -> float:
        """Return how far the mean will still fall. If it falls, a job may fit without an event."""
        device, now_s = self._device, self._clock.now_s
        if device.steady_s <= self.restarted_s or device.steady_s <= now_s - self._length_s:
            return 0.0  # the activity was the same over the whole window
        mean = self.mean
        return 0.0 if mean is None else max(0.0, mean - device.activity)
