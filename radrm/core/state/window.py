"""The mean SM activity of a device since something last changed on it."""

from __future__ import annotations

from collections import deque
from typing import Protocol


class Window(Protocol):
    """The mean SM activity of a device, as a ledger uses it.

    The daemon uses a `SmactWindow` of readings. A simulator may know the activity without
    readings, and passes windows of its own to `Scheduler`.
    """

    def add(self, boot_s: float, smact: float) -> None:
        """Take in a reading (SM activity 0..1)."""

    def forget(self, now_s: float) -> None:
        """Forget readings that are older than the window."""

    def restart(self) -> None:
        """Forget all readings: the device's jobs have changed."""

    @property
    def last_s(self) -> float:
        """Boot time of the last reading; minus infinity if there is none."""
        ...

    @property
    def mean(self) -> float | None:
        """Mean SM activity, 0..1; None without readings."""
        ...


class SmactWindow:
    """The readings of the last `length_s` seconds, forgotten when the device's jobs change.

    A mean over a change describes neither the old jobs nor the new ones.
    """

    __slots__ = ("_length_s", "_readings", "_sum")

    def __init__(self, length_s: float) -> None:
        self._length_s = length_s
        self._readings: deque[tuple[float, float]] = deque()
        self._sum = 0.0

    def add(self, boot_s: float, smact: float) -> None:
        self._readings.append((boot_s, smact))
        self._sum += smact
        self.forget(boot_s)

    def forget(self, now_s: float) -> None:
        """Forget readings older than the window. A reading without SM activity calls it, too."""
        while self._readings and self._readings[0][0] < now_s - self._length_s:
            self._sum -= self._readings.popleft()[1]

    def restart(self) -> None:
        self._readings.clear()
        self._sum = 0.0

    def __len__(self) -> int:
        return len(self._readings)

    @property
    def last_s(self) -> float:
        """Boot time of the last reading; minus infinity if there is none."""
        return self._readings[-1][0] if self._readings else float("-inf")

    @property
    def mean(self) -> float | None:
        """Mean SM activity, 0..1; None without readings."""
        if not self._readings:
            return None
        # Rounding errors of the running sum can put the mean just outside of 0..1.
        return min(1.0, max(0.0, self._sum / len(self._readings)))
