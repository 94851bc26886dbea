"""Why a device cannot take a job now: itself, the jobs that are there, their SMs, the memory.

`refuse_device` asks in this order, and the first answer is the reason. A policy is asked after it,
and can only refuse more.

Theory of operation: parts of the SMs
-------------------------------------
An MPS client may declare the part of the SMs that it uses (`--sm-share`). MPS caps that, and
guarantees none. So radrm books what jobs declare: the clients of a device book at most all of it. A
job without a share books nothing. What counts is the declared part, also while a planner gives
less: it may give all of that again. In other modes nothing limits a job's SMs, and nothing is
booked.
"""

from __future__ import annotations

from collections.abc import Iterable

from radrm.core.constraints.alone import mode_on, other_users_client, refuse_itself, refuse_room
from radrm.core.constraints.claims import free_for, idle_for, refuse_overlap, who_reserved
from radrm.core.constraints.need import effective_need_mib
from radrm.core.constraints.turns import refuse_for_turn
from radrm.core.records import Job, Placement, Refusal, Role, Share
from radrm.core.state.ledger import DeviceLedger
from radrm.core.state.readings import OccupantUse
from radrm.core.state.state import State
from radrm.core.units import show_seconds
from radrm.core.words import Collocation
from radrm.structs import replace

TRIAL = "trial"
"""The rule that keeps others from a device while a job is on trial there."""
_ROUNDING = 1e-6


def refuse_device(
    state: State, job: Job, role: Role, ledger: DeviceLedger, mode: Collocation | None = None
) -> Refusal | None:
    """Return the first constraint that keeps this job from this device now; None if it can join.

    `mode`: share the device in this mode. None: in the mode that the job would have there.
    """
    itself = refuse_itself(state, job, role, ledger)
    if itself is not None:
        return itself
    mode = mode_on(state, job, role, ledger) if mode is None else mode
    company = _refuse_company(state, job, ledger, mode)
    if company is not None:
        return company
    if job.spec.sm_share is not None and (booked := _refuse_booked(state, job, ledger, mode)):
        return booked
    if state.settings.overcommit:
        # A policy that ignores memory would let a job die where it died before.
        need = effective_need_mib(state, job, role) if job.recovers else None
        return refuse_room(state, job, need, ledger, need)
    return refuse_overlap(state, job, role, ledger)


# ------------------------------------------------------------------ the jobs there


def _refuse_company(
    state: State, job: Job, ledger: DeviceLedger, mode: Collocation
) -> Refusal | None:
    """Return why the job cannot join the jobs there in this mode; None if it can.

    Clients of MPS and time-sliced jobs may be together: for the GPU the MPS server is one process,
    which it time-slices with the others. Whether that is worth it, the policy decides.
    """
    uuid = ledger.device.uuid
    others = [h for h in ledger.occupants.values() if h.job_id != job.id]
    for occupant in others:
        if occupant.collocation.whole_device:
            return Refusal("taken", f"job {occupant.job_id} uses it exclusively", uuid)
        # It died of out-of-memory before, and its memory may still grow.
        if occupant.recovering and not occupant.settled:
            why = f"job {occupant.job_id} recovers on it, and its memory has not settled yet"
            return Refusal("recovering", why, uuid)
        if occupant.on_trial and not mode.whole_device and _keeps_alone(state, job, ledger):
            return Refusal(TRIAL, _trial_words(state, occupant), uuid)
    if mode.whole_device and not idle_for(state, job, ledger):
        whom = who_reserved(state, job, ledger) or ledger.in_use() or "it is reserved or in use"
        whom = f"job {others[0].job_id} is on it" if others else whom
        return Refusal("not idle", f"needs an idle GPU; {whom}", uuid)
    if mode.whole_device or ledger.device.mps_multiuser:
        return None
    if mode is not Collocation.MPS:
        # Time-sliced jobs that keep coming would hold a place on the server for ever, too.
        return refuse_for_turn(state, job, ledger) if others else None
    other = other_users_client(job, ledger)
    if other is not None:
        return Refusal("cohort", f"job {other.job_id} of another user is on its MPS server", uuid)
    return refuse_for_turn(state, job, ledger)


def _keeps_alone(state: State, job: Job, ledger: DeviceLedger) -> bool:
    """Return whether a job on trial here keeps this one away.

    Two of unknown need would both count on the memory that the other one is about to take.
    """
    if job.need_mib is None:
        return True
    room = free_for(state, job, ledger)
    return room is not None and room <= state.settings.idle_unmanaged_mib


def _trial_words(state: State, occupant: OccupantUse) -> str:
    """Return why a job has a device to itself, and for how long."""
    label, settings = state.jobs[occupant.job_id].label, state.settings
    until, most_s = "for its first steps", settings.settle_s
    if occupant.began_s is None:
        until, most_s = "until it begins to use it", settings.idle_trial_s
    why = f"job {label}'s memory is not known yet: it has the GPU to itself {until}"
    return f"{why}, at most {show_seconds(most_s)}"


# ------------------------------------------------------------------ SM shares


def _refuse_booked(
    state: State, job: Job, ledger: DeviceLedger, mode: Collocation
) -> Refusal | None:
    """Return that the clients there leave too few SMs for the job's share; None if they do not."""
    wanted = job.spec.sm_share
    if wanted is None or mode is not Collocation.MPS:
        return None
    others = (
        state.jobs[occupant.job_id].spec.sm_share or 0.0
        for occupant in ledger.occupants.values()
        if occupant.collocation is Collocation.MPS and occupant.job_id != job.id
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
