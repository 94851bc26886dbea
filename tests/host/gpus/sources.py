"""A source of readings and a feed of SM activity that say what a test sets."""

from __future__ import annotations

from collections.abc import Sequence

from radrm.core.records import Device, Instant, Reading
from radrm.host.gpus.source import GpuSource, OwnerOf, Sample

AT = Instant(10.0, 1000.0)
GPUS = tuple(Device(f"GPU-{n}", n, "test", 1000) for n in range(2))
NAMES = [device.uuid for device in GPUS]


class Base(GpuSource):
    """Reads all devices alike, coarsely."""

    name = "base"
    changed = False

    def __init__(self) -> None:
        self.listed = GPUS
        self.utilization: float | None = 0.2
        self.error: str | None = None
        self.acknowledged: list[str] = []
        self.closed = False

    def devices(self) -> tuple[Device, ...]:
        return self.listed

    def read(self, uuids: Sequence[str], at: Instant, owner_of: OwnerOf) -> tuple[Reading, ...]:
        if self.error:
            return tuple(Reading(device=u, at=at, error=self.error) for u in uuids)
        return tuple(
            Reading(
                device=u,
                at=at,
                used_mib=5,
                smact=self.utilization,
                smact_source="coarse",
                smact_coarse=self.utilization is not None,
            )
            for u in uuids
        )

    def acknowledge(self, uuid: str) -> None:
        self.acknowledged.append(uuid)

    def close(self) -> None:
        self.closed = True


class Feed:
    """Says what the test sets."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: list[tuple[str, ...]] = []
        self.samples: dict[str, Sample] = {}
        self.errors: dict[str, str] = {}
        self.closed = False

    def gives(self, smact: float, age_s: float = 0.0) -> None:
        self.samples = dict.fromkeys(NAMES, Sample(smact, age_s))
        self.errors = {}

    def fails(self, why: str) -> None:
        self.errors = dict.fromkeys(NAMES, why)

    def start(self, devices: Sequence[Device]) -> None:
        self.asked.append(tuple(device.uuid for device in devices))

    def latest(self, uuid: str) -> Sample | None:
        return self.samples.get(uuid)

    def error(self, uuid: str) -> str | None:
        return self.errors.get(uuid)

    def close(self) -> None:
        self.closed = True
