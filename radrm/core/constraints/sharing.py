"""Why a job cannot join the jobs on a device."""

from __future__ import annotations

from radrm.core.constraints.modes import other_users_client
from radrm.core.constraints.overlap import idle_for, who_reserved
from radrm.core.constraints.turns import refuse_for_turn
from radrm.core.records import Job, Refusal
from radrm.core.state.ledger import DeviceLedger
from radrm.core.state.state import State
from radrm.core.words import Collocation


def refuse_company(
    state: State, job: Job, ledger: DeviceLedger, mode: Collocation
) -> Refusal | None:
    """Return why the job cannot join the jobs there in this mode; None if it can."""
    uuid = ledger.device.uuid
    others = [h for h in ledger.holdings.values() if h.job_id != job.id]
    for holding in others:
        if holding.collocation.whole_device:
            return Refusal("taken", f"job {holding.job_id} uses it exclusively", uuid)
        # It died of out-of-memory before, and its memory may still grow.
        if holding.recovering and not holding.settled:
            why = f"job {holding.job_id} recovers on it, and its memory has not settled yet"
            return Refusal("recovering", why, uuid)
    if mode.whole_device and not idle_for(state, job, ledger):
        whom = who_reserved(state, job, ledger) or "it is reserved or in use"
        whom = f"job {others[0].job_id} is on it" if others else whom
        return Refusal("not idle", f"needs an idle device; {whom}", uuid)
    for holding in others:
        if holding.collocation is not mode and not _mix(state, holding.collocation, mode):
            theirs = holding.collocation.value
            why = f"job {holding.job_id} shares it by {theirs}; this job would by {mode.value}"
            return Refusal("mode", why, uuid)
    if mode is not Collocation.MPS or ledger.device.mps_multiuser:
        return None
    other = other_users_client(job, ledger)
    if other is not None:
        return Refusal("cohort", f"job {other.job_id} of another user is on its MPS server", uuid)
    return refuse_for_turn(state, job, ledger)


def _mix(state: State, one: Collocation, other: Collocation) -> bool:
    """Return whether jobs in these two modes may be on one device together.

    For the GPU the MPS server is one process, which it time-slices with the others.
    """
    if one is other:
        return True
    both = {one, other} == {Collocation.MPS, Collocation.TIMESLICE}
    return both and state.settings.mps_timeslice_others
