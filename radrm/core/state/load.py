"""The SM activity of a device: its mean since the last change, and what a policy uses of it.

Theory of operation
-------------------
A mean over readings describes the jobs on the device only if these have not changed meanwhile.
A training job also needs up to a minute until it computes. So each change of the jobs restarts
the window, and the mean counts again from `warm_from_s` on: `core.smact_warm_s` after the latest
job has started, and at least `CoreSettings.smact_after_exit_s` after one has ended. Then the device
is *warm*.

Until then an *expected* load stands in. After a job has come it is the load before plus
what is predicted for the new job; without a prediction it is None. After a job has left it
is the load before: the remaining jobs cause no more than all did together. With a load of
None the device takes no further job by SM activity.

A failed source or an impossible figure gives None at once, since any number could compare as
"low enough". A policy learns from `warm` whether it is worth waiting for a figure.

Figures that are only estimated from utilization (*coarse*) are used as others are, but never
together with them: a source that comes or goes restarts the window.

What a restart sees: nothing of this is stored. Adopted attempts keep their start times, so a
device with old jobs is warm with its first reading.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Protocol

from msgspec import Struct

from radrm.core.records import Reading
from radrm.core.settings import CoreSettings
from radrm.core.units import show_seconds


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
        """Boot time of the last reading; -inf before the first."""
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


_ONLY_READ = "read-only state"


class KnownWindow(Struct, frozen=True):
    """A window of SM activity in a state that is only read: changing it is an error."""

    last_s: float
    mean: float | None

    def add(self, boot_s: float, smact: float) -> None:
        """Raise: there is no later reading."""
        raise RuntimeError(_ONLY_READ)

    def forget(self, now_s: float) -> None:
        """Raise: time stands still."""
        raise RuntimeError(_ONLY_READ)

    def restart(self) -> None:
        """Raise: the jobs of the device do not change."""
        raise RuntimeError(_ONLY_READ)


class LoadData(Struct, frozen=True):
    """A `SmactLoad` as plain data."""

    window: KnownWindow
    warm_from_s: float
    expected: float | None
    error: str | None
    coarse: bool = False


class SmactLoad:
    """The SM activity of one device: a mean of readings, or an expected load."""

    __slots__ = ("_expected", "_settings", "_window", "coarse", "error", "warm_from_s")

    def __init__(self, settings: CoreSettings, window: Window) -> None:
        self._settings = settings
        self._window = window
        self.warm_from_s = float("-inf")
        """Boot time from which readings describe the jobs that are on the device now."""
        self._expected: float | None = None
        self.error: str | None = None
        """Why the last reading's SM activity cannot be used; None if it can."""
        self.coarse = False
        """The SM activity is only estimated from utilization."""

    @property
    def smact(self) -> float | None:
        """The load that a policy uses, 0..1; None while it is unknown."""
        if self.error is not None:
            return None
        if self._window.last_s >= self.warm_from_s:
            return self._window.mean
        return self._expected

    def doubt(self, reading: Reading | None) -> str | None:
        """Return why `smact` is None, given the device's last reading; None if it is known."""
        if self.error is not None:
            return self.error
        if self.smact is not None:
            return None
        if reading is not None and reading.smact is None:
            return "its SM activity is not measured"
        left_s = 1.0 if reading is None else max(1.0, self.warm_from_s - reading.at.boot_s)
        return f"its jobs changed; its SM activity is known in {show_seconds(math.ceil(left_s))}"

    def take(self, reading: Reading) -> None:
        """Take in a reading of the device with the jobs that are on it now."""
        self._window.forget(reading.at.boot_s)
        if reading.smact is not None:
            if reading.smact_coarse is not self.coarse:
                self.coarse = reading.smact_coarse
                self._window.restart()
            self._window.add(reading.at.boot_s, reading.smact)

    def counts(self, reading: Reading) -> bool:
        """Return whether a reading shows the SM activity of the jobs that are here now."""
        return reading.smact is not None and self.is_warm(reading)

    def is_warm(self, reading: Reading | None) -> bool:
        """Return whether a reading is late enough to show the jobs that are here now."""
        return reading is not None and reading.at.boot_s >= self.warm_from_s

    def before_join(self, alone: bool, predicted: float | None) -> None:
        """Note that a job comes. `alone`: no other job is there. `predicted`: its SM activity."""
        before = 0.0 if alone else self.smact
        self._expected = None
        if before is not None and predicted is not None:
            self._expected = min(1.0, before + predicted)
        self._window.restart()

    def after_leave(self, alone: bool) -> None:
        """Note that a job left. `alone`: no job is left."""
        self._expected = None if alone else self.smact
        self._window.restart()

    def warm_up(self, latest_s: float, left_s: float = float("-inf")) -> None:
        """Set when the device is warm: its latest job came at `latest_s`, one left at `left_s`."""
        self.warm_from_s = max(
            latest_s + self._settings.smact_warm_s, left_s + self._settings.smact_after_exit_s
        )

    # ------------------------------------------------------------- for another process

    def data(self) -> LoadData:
        window = KnownWindow(self._window.last_s, self._window.mean)
        return LoadData(window, self.warm_from_s, self._expected, self.error, self.coarse)

    def recall(self, data: LoadData) -> None:
        """Take over what `data` says. The window is the one of `data`."""
        self.warm_from_s, self._expected, self.error = data.warm_from_s, data.expected, data.error
        self.coarse = data.coarse
