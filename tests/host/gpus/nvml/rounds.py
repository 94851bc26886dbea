"""Rounds of readings of some GPUs, at a time that goes on."""

from __future__ import annotations

import pynvml
from pytest_mock import MockerFixture

from radrm.core.records import Instant, Reading
from radrm.host.gpus.nvml import NvmlGpus
from tests.host.gpus.nvml.driver import Chip, Driver


class World:
    """These GPUs, listed and read once, at a time that goes on with each round."""

    def __init__(self, mocker: MockerFixture, *chips: Chip) -> None:
        self.driver = Driver(mocker, *chips)
        self.gpus = NvmlGpus(pynvml)
        self.now_s = 1000.0
        self.uuids = [d.uuid for d in self.gpus.devices()]
        self.read()

    def read(self, after_s: float = 1.0) -> dict[str, Reading]:
        self.now_s += after_s
        at = Instant(self.now_s, self.now_s)
        return {r.device: r for r in self.gpus.read(self.uuids, at, lambda pid: None)}

    def one(self, after_s: float = 1.0) -> Reading:
        return self.read(after_s)[self.uuids[0]]
