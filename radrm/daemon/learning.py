"""What an attempt that has ended teaches about its job's need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from radrm.core.records import Attempt, Job
from radrm.core.rules import PastRun
from radrm.core.state.ledger import DeviceLedger
from radrm.core.state.state import Decision
from radrm.core.words import Outcome, Quantity
from radrm.host.storage.store import Run

SHOWN_S = 300.0
"""An attempt that was ended from outside has shown its peak if it ran so long."""


def runs_of(
    decision: Decision,
    jobs: Mapping[int, Job],
    ledgers: Mapping[str, DeviceLedger],
    driver: str | None = None,
) -> Iterator[Run]:
    """The runs to remember of those that a decision has ended. `jobs`: the unfinished ones;
    `driver`: the version of the GPUs' driver."""
    ended = {r.id: r for r in decision.changed if isinstance(r, Job)}
    for record in decision.changed:
        if isinstance(record, Attempt) and record.ended is not None:
            job = ended.get(record.job_id) or jobs.get(record.job_id)
            past = _past(record, job, ledgers, driver) if job is not None else None
            if job is not None and past is not None:
                yield Run(record.serial, job.spec.uid, job.fingerprint, past)


def _past(
    attempt: Attempt, job: Job, ledgers: Mapping[str, DeviceLedger], driver: str | None
) -> PastRun | None:
    peak_mib = attempt.peak_mib
    if not peak_mib or attempt.started is None or not _has_shown(attempt):
        return None
    kinds = {ledgers[uuid].device.name for uuid in attempt.used if uuid in ledgers}
    if len(kinds) != 1:
        return None
    told = {
        e.source: e.value if e.raw is None else e.raw
        for e in reversed(job.estimates)
        if e.quantity is Quantity.MEMORY
    }
    completed = attempt.outcome is Outcome.COMPLETED
    return PastRun(
        peak_mib=peak_mib,
        device_kind=kinds.pop(),
        smact=attempt.smact_mean,
        alone=not any(u.shared for u in attempt.used.values()),
        duration_s=attempt.ran_s if completed else None,
        told=told,
        driver=driver,
        cuda=next((e.cuda for e in job.estimates if e.cuda is not None), None),
    )


def _has_shown(attempt: Attempt) -> bool:
    """Whether its peak is what its job needs. One that died of out-of-memory had wanted more."""
    if attempt.outcome in (Outcome.OOM, Outcome.LOST, None):
        return False
    return attempt.outcome is Outcome.COMPLETED or (attempt.ran_s or 0.0) >= SHOWN_S
