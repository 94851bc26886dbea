"""The mean SM activity of a device since something last changed on it."""

from __future__ import annotations

from collections import deque


class SmactWindow:
    """Readings of the last `length_s` seconds, forgotten whenever the device's jobs change.

    A mean over a time in which the jobs changed describes neither the old jobs
    nor the new ones, so `restart` drops what was read before.
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
        """Let go of what is older than the window: also where nothing new is read."""
        while self._readings and self._readings[0][0] < now_s - self._length_s:
            self._sum -= self._readings.popleft()[1]

    def restart(self) -> None:
        self._readings.clear()
        self._sum = 0.0

    def __len__(self) -> int:
        return len(self._readings)

    @property
    def last_s(self) -> float:
        """When the last of these readings was taken; before all times without one."""
        return self._readings[-1][0] if self._readings else float("-inf")

    @property
    def mean(self) -> float | None:
        """0..1, or None without readings."""
        if not self._readings:
            return None
        return min(1.0, max(0.0, self._sum / len(self._readings)))
