"""The simulator's own loop with a reading of every device each second, as the daemon has it.

Slow, and without any thought about when a reading can tell something new: what it decides
is what the sparse loop must decide.
"""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records import Device
from radrm.core.state.load import SmactWindow
from radrm.lab.simulator.scheduling import READING_INTERVAL_S, OwnLoop


@dataclass(frozen=True, slots=True)
class Second:
    pass


class EverySecond(OwnLoop):
    def _window(self, device: Device) -> SmactWindow:
        return SmactWindow(self._settings.smact_window_s)

    def _begin(self) -> None:
        self._read(range(len(self._devices)))
        self._world.at(READING_INTERVAL_S, Second())

    def _on(self, happened: object) -> None:
        if not isinstance(happened, Second):
            super()._on(happened)
            return
        self._read(range(len(self._devices)))
        if self._history.unfinished():
            self._world.at(self._world.now_s + READING_INTERVAL_S, Second())

    def _watch_falls(self) -> None:
        pass

    def _look_again(self, devices: object, after_s: float) -> None:
        pass
