"""The ledger of a device as plain data, and the ledger that is made from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from radrm.core.records import Device, Instant, Reading, Reservation
from radrm.core.settings import CoreSettings
from radrm.core.state.cohort import CohortData
from radrm.core.state.holding import Holding
from radrm.core.state.ledger import DeviceLedger
from radrm.core.state.load import LoadData


@dataclass(frozen=True, slots=True)
class LedgerData:
    """A ledger, without what only its own next change needs: the energy meter and shared times."""

    device: Device
    version: int
    drained: str | None
    vanished: bool
    reading: Reading | None
    unmanaged_mib: int | None
    fresh_from_s: float
    holdings: tuple[Holding, ...]
    reservations: tuple[Reservation, ...]
    load: LoadData
    cohort: CohortData


def ledger_data(ledger: DeviceLedger) -> LedgerData:
    """Return a ledger as plain data, which later changes of the ledger do not change."""
    return LedgerData(
        device=ledger.device,
        version=ledger.version,
        drained=ledger.drained,
        vanished=ledger.vanished,
        reading=ledger.reading,
        unmanaged_mib=ledger.unmanaged_mib,
        fresh_from_s=ledger.fresh_from_s,
        holdings=tuple(_copied(holding) for holding in ledger.holdings.values()),
        reservations=ledger.reserved.every(),
        load=ledger.load.data(),
        cohort=ledger.cohort.data(),
    )


def _copied(holding: Holding) -> Holding:
    beside = {others: replace(part) for others, part in holding.beside.items()}
    return replace(holding, beside=beside)


def ledger_of(
    data: LedgerData, settings: CoreSettings, clock: Callable[[], Instant]
) -> DeviceLedger:
    """Return the ledger that `data` was made from."""
    found = DeviceLedger(data.device, settings, data.load.window, clock)
    found.drained, found.vanished = data.drained, data.vanished
    found.reading, found.unmanaged_mib = data.reading, data.unmanaged_mib
    found.fresh_from_s = data.fresh_from_s
    found.holdings.update((holding.job_id, holding) for holding in data.holdings)
    for reservation in data.reservations:
        found.reserved.put(reservation)
    found.load.recall(data.load)
    found.cohort.recall(data.cohort)
    found.version = data.version
    return found
