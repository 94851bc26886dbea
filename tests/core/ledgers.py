"""A device's ledger for tests, and jobs that are admitted to it."""

from __future__ import annotations

from radrm.core.records import (
    Attempt,
    AttemptMemory,
    Device,
    Estimate,
    Instant,
    Job,
    JobSpec,
    Placement,
    Reading,
    Reservation,
    Share,
)
from radrm.core.settings import CoreSettings
from radrm.core.state.ledger import DeviceLedger
from radrm.core.words import Collocation, Quantity, ReservationKind
from radrm.structs import replace

NOW = Instant(1000.0, 1e9)
JOB = Job(id=1, ticket="T", spec=JobSpec("a", "ann", 1000), submitted=NOW)
DEVICE = Device(uuid="GPU-0", index=0, name="A100", total_mib=40_960, overhead_mib=424)


def ledger(**settings: float) -> DeviceLedger:
    found = DeviceLedger(DEVICE, CoreSettings(smact_warm_s=2.0, smact_after_exit_s=1.0, **settings))
    found.take(reading(1000.0, used=0))
    return found


def reading(
    boot_s: float, used: int | None, held: dict[int, int | None] | None = None, **more: object
) -> Reading:
    attempts = tuple(AttemptMemory(job, job, mib) for job, mib in (held or {}).items())
    at = Instant(boot_s, 1e9 + boot_s)
    return Reading("GPU-0", at, used, attempts, **more)


def admit(
    led: DeviceLedger,
    job_id: int,
    mib: int | None,
    smact: float | None = None,
    since_s: float = 1000.0,
) -> None:
    estimates = () if smact is None else (Estimate(Quantity.SMACT, smact, smact, "t"),)
    job = replace(JOB, id=job_id, estimates=estimates)
    placement = Placement((Share("GPU-0", mib or 0),), Collocation.TIMESLICE)
    led.reserve(
        Reservation(f"job:{job_id}", ReservationKind.RUNNING, "GPU-0", mib, NOW, job_id=job_id)
    )
    led.admit(job, Attempt(job_id, 1, job_id, placement, NOW), since_s, since_s)
