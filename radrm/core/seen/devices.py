"""A device with its jobs, its reservations and its last reading, as a record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from radrm.core.records import Device, Reading, Reservation, Usage
from radrm.core.settings import CoreSettings
from radrm.core.state.holding import Holding
from radrm.core.state.ledger import DeviceLedger
from radrm.core.state.readings import why_unreadable
from radrm.core.words import Collocation


@dataclass(frozen=True, slots=True)
class Occupant:
    """A live attempt on one device, and its measured use there."""

    job_id: int
    serial: int
    collocation: Collocation
    since_s: float
    """Boot-time second at which it came."""
    settled: bool
    """Its memory has stopped growing."""
    usage: Usage

    def unused_for(self, now_s: float) -> float | None:
        """Return the seconds since it came, if it has used no memory of the device.

        None if it has used some, or if that is unknown.
        """
        return now_s - self.since_s if self.usage.peak_mib == 0 else None


@dataclass(frozen=True, slots=True)
class DeviceSnapshot:
    """One device: its record, last reading, occupants and reservations."""

    device: Device
    vanished: bool
    """It is no longer listed, but attempts are still on it."""
    drained: str | None
    """Why it is drained; None if it is not."""
    reading: Reading | None
    unmanaged_mib: int | None
    """Memory of unmanaged processes; None while it is unknown."""
    reserved_mib: int
    free_mib: int | None
    """Memory that can be reserved; None while unmanaged memory is unknown."""
    smact: float | None
    """The SM activity that a policy uses, 0..1; None while it is unknown."""
    smact_refusal: str | None
    """Why `smact` is None."""
    warm_from_s: float
    """Boot-time second from which readings of SM activity count again."""
    occupants: Mapping[int, Occupant]
    """By job."""
    reservations: tuple[Reservation, ...]
    fresh_from_s: float
    """Boot-time second of the last leave. Earlier readings may still count the job that left."""
    stale_after_s: float

    def unreadable(self, now_s: float) -> str | None:
        """Return why the last reading is not usable at this time; None if it is."""
        return why_unreadable(self.reading, self.fresh_from_s, self.stale_after_s, now_s)


def device_snapshot(ledger: DeviceLedger, settings: CoreSettings) -> DeviceSnapshot:
    """Return a device as it is now."""
    uuid = ledger.device.uuid
    occupants = {job_id: _occupant(held, uuid) for job_id, held in ledger.holdings.items()}
    return DeviceSnapshot(
        device=ledger.device,
        vanished=ledger.vanished,
        drained=ledger.drained,
        reading=ledger.reading,
        unmanaged_mib=ledger.unmanaged_mib,
        reserved_mib=ledger.reserved_mib,
        free_mib=ledger.free_now_mib,
        smact=ledger.smact,
        smact_refusal=ledger.smact_refusal,
        warm_from_s=ledger.warm_from_s,
        occupants=MappingProxyType(occupants),
        reservations=ledger.reserved.every(),
        fresh_from_s=ledger.fresh_from_s,
        stale_after_s=settings.stale_after_s,
    )


def in_order(found: Iterable[DeviceSnapshot]) -> tuple[DeviceSnapshot, ...]:
    """Return devices by node and index."""
    return tuple(sorted(found, key=lambda each: (each.device.node, each.device.index)))


def _occupant(holding: Holding, uuid: str) -> Occupant:
    return Occupant(
        job_id=holding.job_id,
        serial=holding.serial,
        collocation=holding.collocation,
        since_s=holding.since_s,
        settled=holding.settled,
        usage=holding.usage(uuid),
    )
