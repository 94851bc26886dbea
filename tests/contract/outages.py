"""Devices that go out of service and come back."""

from __future__ import annotations

from radrm.core import events as ev
from radrm.core.records import Device, Reading
from radrm.core.settings import CoreSettings
from radrm.core.state.ledger import OUT_OF_SERVICE_S
from radrm.structs import replace
from tests.world import World, gpus

CORE = CoreSettings(smact_warm_s=0, smact_after_exit_s=0)


def see(world: World, devices: tuple[Device, ...]) -> None:
    world.devices = devices
    world.step(ev.DevicesSeen(at=world.now, devices=devices))
    world.read()


def drain(world: World, uuid: str, reason: str | None = "fan") -> None:
    world.step(ev.DrainRequested(at=world.now, device=uuid, reason=reason))


class Faulty(World):
    """Its devices can be read and are not well."""

    faults: dict[str, str] = {}

    def _reading(self, uuid: str) -> Reading:
        return replace(super()._reading(uuid), fault=self.faults.get(uuid))


OUTAGES = ("vanished", "drained", "unreadable", "fault")


def take_away(world: Faulty, how: str) -> None:
    """GPU-3 goes out of service."""
    if how == "vanished":
        see(world, world.devices[:3])
    elif how == "drained":
        drain(world, "GPU-3")
    elif how == "unreadable":
        world.broken["GPU-3"] = "GPU is lost"
    else:
        world.faults = {"GPU-3": "Xid 48: a memory error"}


def bring_back(world: Faulty, how: str) -> None:
    if how == "vanished":
        see(world, gpus(4))
    elif how == "drained":
        drain(world, "GPU-3", None)
    world.broken, world.faults = {}, {}
    world.read()


def pass_grace(world: World) -> None:
    """Longer than a device may be in trouble and still count as in service."""
    for _ in range(2):
        world.pass_time(OUT_OF_SERVICE_S + 1)
