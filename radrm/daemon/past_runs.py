"""What ended attempts have shown, as the runs from which estimators learn."""

from __future__ import annotations

from collections.abc import Iterator

from radrm.core.decision import Decision
from radrm.core.records import Attempt, Job
from radrm.core.snapshot import Snapshot
from radrm.core.words import Outcome, Quantity
from radrm.estimators.learning.contention import alone
from radrm.estimators.learning.fingerprint import parts_of
from radrm.estimators.learning.profile import paced_s
from radrm.estimators.learning.ratios import told_of, trusted
from radrm.host.storage.runs import Run, Said, brief_mark

SHOWN_S = 300.0
"""Seconds after which an attempt that was stopped is assumed to have reached its peak."""


def runs_of(decision: Decision, now: Snapshot, driver: str | None = None) -> Iterator[Run]:
    """The runs to store of the attempts that a decision has ended.

    `now` follows the decision; `driver` is the version of the GPUs' driver.
    """
    changed = {r.id: r for r in decision.changed if isinstance(r, Job)}
    for record in decision.changed:
        if isinstance(record, Attempt) and record.ended is not None:
            job = changed.get(record.job_id) or now.job(record.job_id)
            run = _run(record, job, now, driver) if job is not None else None
            if run is not None:
                yield run


def _run(attempt: Attempt, job: Job, now: Snapshot, driver: str | None) -> Run | None:
    """The run of an attempt; None if the attempt does not show what its job needs."""
    program, length = parts_of(job.fingerprint)
    if attempt.started is None or attempt.outcome in _SHOWS_NOTHING:
        return None
    if attempt.misplaced:
        return None
    if not attempt.peak_mib or not _has_shown(attempt):
        if program is None or paced_s(attempt) is None:
            return None
        program = brief_mark(program)
    devices = [found for uuid in attempt.used if (found := now.device(uuid)) is not None]
    kinds = {found.device.name for found in devices}
    if len(kinds) != 1:
        return None
    chip = devices[0].device.chip
    told = {quantity: told_of(job.estimates, quantity, chip) for quantity in Quantity}
    said = Said(
        told=told[Quantity.MEMORY],
        told_smact=told[Quantity.SMACT],
        told_duration=told[Quantity.DURATION],
        driver=driver,
        cuda=next((e.cuda for e in job.estimates if e.cuda is not None), None),
        family=next((e.family for e in job.estimates if e.family is not None), None),
        shown=alone(attempt, trusted(told[Quantity.SMACT])),
        length=length,
        resumed=attempt.work_begun != 0.0,
        sm_rate=None if chip is None else chip.sm_rate,
    )
    return Run(attempt.serial, job.spec.uid, program, kinds.pop(), said)


_SHOWS_NOTHING = (Outcome.OOM, Outcome.LOST, None)
"""A job that ran out of memory needs more than it had, and perhaps ran on less."""


def _has_shown(attempt: Attempt) -> bool:
    """True if its peak is what its job needs."""
    return attempt.outcome is Outcome.COMPLETED or (attempt.ran_s or 0.0) >= SHOWN_S
