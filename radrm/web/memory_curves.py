"""The memory of running jobs over time, as this process has read it. Bounded, and never stored.

A curve has at most `POINTS` places. When it is full, every second one is dropped, and from then on
places are twice as far apart: so a curve of any length keeps its whole time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct, field

POINTS = 360
MOST = 512
"""Curves in all; the one that has grown least recently gives way."""
_STEP_S = 1.0
_KEEP_S = 3600.0
"""How long a curve is kept after its last reading."""

Place = tuple[float, float | None]


class Curve(Struct):
    """The memory (MiB) of one job on one GPU, by epoch second. None is a gap."""

    places: list[Place] = field(default_factory=list)
    step_s: float = _STEP_S
    seen_s: float = 0.0

    def add(self, now_s: float, mib: float) -> None:
        late = now_s - self.seen_s > 60 and bool(self.places)
        self.seen_s = now_s
        if self.places and now_s - self.places[-1][0] < self.step_s:
            return
        if late:
            self.places.append((now_s - self.step_s / 2, None))
        self.places.append((now_s, mib))
        if len(self.places) > POINTS:
            self.places = self.places[::2]
            self.step_s *= 2


class Curves:
    """The curves of jobs, by label and the index of the GPU."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], Curve] = {}

    def __len__(self) -> int:
        return len(self._known)

    def add(self, devices: Iterable[dict[str, Any]], now_s: float) -> None:
        """Add one answer of `gpus`. Readings of the past are left out."""
        for device in devices:
            for job, mib in (device.get("jobs_mib") or {}).items():
                key = (job, device["index"])
                # The one that has grown last is the last one.
                curve = self._known.pop(key, None) or Curve()
                if curve.seen_s <= now_s:
                    curve.add(now_s, mib)
                self._known[key] = curve
        while self._known:
            oldest = next(iter(self._known))
            if len(self._known) <= MOST and now_s - self._known[oldest].seen_s < _KEEP_S:
                return
            del self._known[oldest]

    def of(self, job: str) -> list[tuple[int, Sequence[Place]]]:
        """Return the curves of a job: the GPU's index and the places, the oldest first."""
        found = ((gpu, curve.places) for (name, gpu), curve in self._known.items() if name == job)
        return sorted(found, key=lambda each: each[0])
