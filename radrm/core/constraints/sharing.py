"""Why a job cannot join the jobs on a device, and its part of the SMs there.

An MPS client may declare the part of the SMs that it uses (`--sm-share`). MPS caps that, and
guarantees none. So radrm books what jobs declare: the clients of a device book at most all of it. A
job without a share books nothing. What counts is the declared part, also while a planner gives
less: it may give all of that again. In other modes nothing limits a job's SMs, and nothing is
booked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from radrm.core.constraints.modes import other_users_client
from radrm.core.constraints.overlap import idle_for, who_reserved
from radrm.core.constraints.turns import refuse_for_turn
from radrm.core.records import Job, Placement, Refusal, Share
from radrm.core.state.ledger import DeviceLedger
from radrm.core.state.state import State
from radrm.core.words import Collocation

_ROUNDING = 1e-6
_MIXED = {Collocation.MPS, Collocation.TIMESLICE}
"""For the GPU the MPS server is one process, which it time-slices with the others: whether that is
worth it, the policy decides."""


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
        if {holding.collocation, mode} not in ({mode}, _MIXED):
            theirs = holding.collocation.value
            why = f"job {holding.job_id} shares it by {theirs}; this job would by {mode.value}"
            return Refusal("mode", why, uuid)
    if mode.whole_device or ledger.device.mps_multiuser:
        return None
    if mode is not Collocation.MPS:
        # Time-sliced jobs that keep coming would hold a place on the server for ever, too.
        return refuse_for_turn(state, job, ledger) if others else None
    other = other_users_client(job, ledger)
    if other is not None:
        return Refusal("cohort", f"job {other.job_id} of another user is on its MPS server", uuid)
    return refuse_for_turn(state, job, ledger)


# ------------------------------------------------------------------ SM shares


def refuse_booked(
    state: State, job: Job, ledger: DeviceLedger, mode: Collocation
) -> Refusal | None:
    """Return that the clients there leave too few SMs for the job's share; None if they do not."""
    wanted = job.spec.sm_share
    if wanted is None or mode is not Collocation.MPS:
        return None
    others = (
        state.jobs[holding.job_id].spec.sm_share or 0.0
        for holding in ledger.holdings.values()
        if holding.collocation is Collocation.MPS and holding.job_id != job.id
    )
    left = max(0.0, 1.0 - sum(others))
    if wanted <= left + _ROUNDING:
        return None
    why = f"needs {wanted:.0%} of its SMs, {left:.0%} are not booked"
    return Refusal("sm-share", why, ledger.device.uuid, wanted, left)


def refuse_more(job: Job, shares: Iterable[Share]) -> Refusal | None:
    """Return which share has a larger part of the SMs than the job declares; None if none has."""
    most = job.spec.sm_share
    for share in shares:
        if most is not None and (share.sm_fraction or 0.0) > most + _ROUNDING:
            why = f"may have {most:.0%} of the SMs, {share.sm_fraction:.0%} would be booked"
            return Refusal("shares", why, share.device, share.sm_fraction, most)
    return None


def with_fraction(job: Job, placement: Placement) -> Placement:
    """Return the placement of a new attempt, with its SM fraction: that which it names, else the
    last that a planner gave the job. An MPS client gets at most what its job declares."""
    fraction, most = placement.sm_fraction, job.spec.sm_share
    fraction = job.sm_fraction if fraction is None else fraction
    if most is not None and placement.collocation is Collocation.MPS:
        fraction = most if fraction is None else min(fraction, most)
    if fraction == placement.sm_fraction:
        return placement
    given = tuple(replace(share, sm_fraction=fraction) for share in placement.shares)
    return replace(placement, shares=given)
