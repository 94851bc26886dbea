"""The recent readings of each GPU, and lines of bars (sparklines) of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from radrm.client.text import Document

MOST = 120
"""Readings kept of each GPU."""
_MOST_DEVICES = 1024
_BARS = "▁▂▃▄▅▆▇█"
_KEYS = ("used_mib", "smact", "power_w")


class History:
    """The last readings of each GPU, by UUID: its memory, SM activity and power."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, deque[float | None]]] = {}

    def add(self, devices: Sequence[Document]) -> None:
        """Add one answer of `gpus`. GPUs that are gone are forgotten."""
        known = {}
        for device in devices[:_MOST_DEVICES]:
            empty: dict[str, deque[float | None]] = {key: deque(maxlen=MOST) for key in _KEYS}
            of_device = self._known.get(device["uuid"], empty)
            for key in _KEYS:
                of_device[key].append(device[key])
            known[device["uuid"]] = of_device
        self._known = known

    def of(self, uuid: str, key: str) -> list[float | None]:
        """Return the readings of one GPU, the newest last. Unknown ones are None."""
        return list(self._known.get(uuid, {}).get(key, ()))

    def most(self, key: str) -> float:
        """Return the largest of the readings of all GPUs; 0 if none is known."""
        known = (each for of in self._known.values() for each in of[key] if each is not None)
        return max(known, default=0.0)


def bars(values: Sequence[float | None], most: float, width: int) -> str:
    """Return one character for each of the last `width` values, from 0 to `most`.

    A space where a value is unknown or not there yet.
    """
    shown = list(values)[-width:] if width > 0 else []
    line = "".join(
        " " if value is None else _BARS[_step(value / most if most > 0 else 0.0)] for value in shown
    )
    return line.rjust(width)


def _step(part: float) -> int:
    return min(len(_BARS) - 1, max(0, int(part * len(_BARS))))
