"""An NVIDIA driver to test the NVML edge with: what the patched calls of `pynvml` answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml
from pytest_mock import MockerFixture

MIB = 1024 * 1024
NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, NO_FUNCTION = 3, 4, 6, 13
LOST, RESET, MISMATCH, UNKNOWN = 15, 16, 18, 999


@dataclass
class Chip:
    """One GPU or MIG instance: its figures, and which calls fail with which error."""

    uuid: str | bytes = "GPU-a"
    name: str | bytes = "NVIDIA A100-SXM4-40GB"
    total: int = 40960 * MIB
    reserved: int = 600 * MIB
    used: int = 1000 * MIB
    busy: float = 50
    power_mw: float = 250_000
    compute: list[Any] = field(default_factory=list)
    mps: list[Any] = field(default_factory=list)
    slots: list[Chip | None] | None = None
    fails: dict[str, int] = field(default_factory=dict)


class Driver:
    """What the patched functions of `pynvml` answer."""

    def __init__(self, mocker: MockerFixture, *chips: Chip) -> None:
        self.chips = list(chips)
        self.fails: dict[str, int] = {}
        self.inits = self.shutdowns = 0
        handle_calls = {
            "nvmlDeviceGetUUID": lambda chip: chip.uuid,
            "nvmlDeviceGetName": lambda chip: chip.name,
            "nvmlDeviceGetUtilizationRates": lambda chip: SimpleNamespace(gpu=chip.busy),
            "nvmlDeviceGetPowerUsage": lambda chip: chip.power_mw,
            "nvmlDeviceGetMigMode": lambda chip: [int(chip.slots is not None)] * 2,
            "nvmlDeviceGetMaxMigDeviceCount": lambda chip: len(chip.slots),
            "nvmlDeviceGetMigDeviceHandleByIndex": self.instance,
            "nvmlDeviceGetMemoryInfo": self.memory,
        }
        for version in ("v2", "v3"):
            handle_calls |= {
                f"nvmlDeviceGetComputeRunningProcesses_{version}": lambda chip: chip.compute,
                f"nvmlDeviceGetMPSComputeRunningProcesses_{version}": lambda chip: chip.mps,
            }
        for name, answer in handle_calls.items():
            mocker.patch.object(pynvml, name, side_effect=self.on_chip(name, answer))
        library_calls = {
            "nvmlInit": self.init,
            "nvmlShutdown": self.shutdown,
            "nvmlDeviceGetCount": lambda: len(self.chips),
            "nvmlDeviceGetHandleByIndex": lambda index: self.chips[index],
            "nvmlDeviceGetHandleByUUID": self.by_uuid,
        }
        for name, answer in library_calls.items():
            mocker.patch.object(pynvml, name, side_effect=self.on_library(name, answer))

    def on_chip(self, name: str, answer: Any) -> Any:
        def call(chip: Chip, *rest: Any, **named: Any) -> Any:
            self.fail(self.fails, name)
            self.fail(chip.fails, name)
            return answer(chip, *rest, **named)

        return call

    def on_library(self, name: str, answer: Any) -> Any:
        def call(*given: Any) -> Any:
            self.fail(self.fails, name)
            return answer(*given)

        return call

    @staticmethod
    def fail(fails: dict[str, int], name: str) -> None:
        code = fails.get(name, fails.get("*"))
        if code is not None:
            raise pynvml.NVMLError(code)

    def init(self) -> None:
        self.inits += 1

    def shutdown(self) -> None:
        self.shutdowns += 1

    def by_uuid(self, uuid: str) -> Chip:
        every = [*self.chips, *(s for c in self.chips for s in c.slots or () if s)]
        for chip in every:
            if chip.uuid == uuid:
                return chip
        raise pynvml.NVMLError(NOT_FOUND)

    @staticmethod
    def instance(chip: Chip, slot: int) -> Chip:
        assert chip.slots is not None
        found = chip.slots[slot]
        if found is None:
            raise pynvml.NVMLError(NOT_FOUND)
        return found

    @staticmethod
    def memory(chip: Chip, version: int | None = None) -> Any:
        if version is None:  # version 1 counts the driver's own part as used
            return SimpleNamespace(total=chip.total, used=chip.used + chip.reserved)
        Driver.fail(chip.fails, "memory_v2")
        return SimpleNamespace(total=chip.total, used=chip.used, reserved=chip.reserved)


def process(pid: int, mib: int | None) -> Any:
    return SimpleNamespace(pid=pid, usedGpuMemory=None if mib is None else mib * MIB)


def mig_gpu(*slots: Chip | None) -> Chip:
    return Chip(uuid="GPU-m", slots=list(slots))


def instance(uuid: str, profile: str) -> Chip:
    return Chip(
        uuid=uuid,
        name=f"NVIDIA A100-SXM4-40GB MIG {profile}",
        total=4864 * MIB,
        reserved=0,
        used=12 * MIB,
        fails={
            "nvmlDeviceGetUtilizationRates": NOT_SUPPORTED,
            "nvmlDeviceGetPowerUsage": NOT_SUPPORTED,
        },
    )
