"""Why a device cannot take a job now: itself, the jobs that are there, their SMs, the memory.

`refuse_device` asks in this order, and the first answer is the reason. A policy is asked after it,
and can only refuse more. `refuse_itself` says why a device cannot take a job even if it is empty;
`refuse_room`, why memory cannot be reserved there.

Theory of operation: parts of the SMs
-------------------------------------
An MPS client may declare the part of the SMs that it uses (`--sm-share`). MPS caps that, and
guarantees none. So radrm books what jobs declare: the clients of a device book at most all of it. A
job without a share books nothing. What counts is the declared part, also while a planner gives
less: it may give all of that again. In other modes nothing limits a job's SMs, and nothing is
booked.

Theory of operation: turns of users on an MPS server
----------------------------------------------------
An MPS server serves the processes of one user at a time; a client of a second user hangs
until the first user's last client has gone. So all MPS jobs on a device belong to one user,
its *cohort*. Jobs of others may run time-sliced beside it, where the policy predicts that this is
worth it. Else they wait: if the cohort's user keeps submitting, it never ends, and they starve.

The ledger of a device records since when the present cohort is there without a gap, and when
each user's last cohort ended (`core/state/ledger.py`). After `CoreSettings.mps_cohort_s` the
user has had a *turn*. From then on, `turns` names one waiting job of another user as next
for the device, and `refuse_for_turn` refuses every other user's job there, as a client or
beside others. The device runs empty, and the named job starts, or earlier, time-sliced; the
planner may start it before the head of the line.

Invariants:
- No job is refused for a job that could not use the turn. A job is named only if it could
  start on the empty device, so it needs one GPU and can be a client.
- A waiting job is named for one device at a time. It keeps no second device free.
- The choice depends only on the state: ledgers in order of their cohorts' ages, then the
  user whose last turn there is longest ago, then the order of service.

What may interleave: the named job may start elsewhere, end or be held at any event. Its name
is not stored: `turns` chooses again after each change, once for all devices and jobs.

What a restart sees: the times of earlier turns are lost. Adopted attempts keep their start
times, so a cohort is as old as its oldest *live* client. A restart can make a turn longer,
never shorter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from radrm.core.constraints.claims import (
    free_for,
    idle_for,
    refuse_overlap,
    refuse_reserved,
    who_reserved,
)
from radrm.core.constraints.kinds import can_be_mps_client, kind_refusal
from radrm.core.constraints.need import effective_need_mib, wants_whole_device
from radrm.core.constraints.nodes import refuse_size
from radrm.core.records import Job, Placement, Refusal, Role, Share
from radrm.core.state.ledger import DeviceLedger
from radrm.core.state.queue.line import Key
from radrm.core.state.readings import OccupantUse
from radrm.core.state.state import State
from radrm.core.units import show_mib, show_seconds
from radrm.core.words import Collocation, DeviceKind
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


# ------------------------------------------------------------------ the device itself, and its room


def refuse_itself(
    state: State, job: Job, role: Role, ledger: DeviceLedger, reading: bool = True
) -> Refusal | None:
    """Return why the device cannot take this job, even if it were empty; None if it can.

    `reading`: refuse a device without a recent, sound reading.
    """
    uuid = ledger.device.uuid

    def no(rule: str, why: str, needed: float | None = None, there: float | None = None) -> Refusal:
        return Refusal(rule=rule, message=why, device=uuid, needed=needed, available=there)

    if ledger.vanished:
        return no("vanished", "it has vanished")
    drained = state.drained_for(uuid, job)
    if drained is not None:
        return no("drained", f"drained: {drained}")
    kind = kind_refusal(ledger.device, role.needs, job.spec)
    if kind is not None:
        return no("kind", kind)
    need, capacity = effective_need_mib(state, job, role), ledger.device.capacity_mib
    if need is not None and need > capacity:
        why = f"needs {show_mib(need)}, the device has {show_mib(capacity)}"
        return no("capacity", why, need, capacity)
    unknown = ledger.unreadable(state.step.now.boot_s) if reading else None
    if unknown is not None:
        return no("reading", unknown)
    yields = ledger.yields()
    if yields is not None:
        return no("unmanaged", yields, state.settings.idle_unmanaged_mib, ledger.unmanaged_mib)
    # What is out of its service for everybody comes first.
    reserved = refuse_reserved(state, job, ledger) if state.for_users.every else None
    return reserved or refuse_overlap(state, job, role, ledger, alone=True)


def refuse_room(
    state: State, job: Job, need: int | None, ledger: DeviceLedger, reserved: int | None
) -> Refusal | None:
    """Return why `reserved` MiB cannot be reserved for the job here; None if they can.

    `need`: what its tasks here need together; None: unknown. `reserved` None: the whole device;
    the caller checks that it is idle.
    """
    if reserved is None:
        return None
    uuid = ledger.device.uuid
    if need is not None and reserved < need:
        why = f"needs {show_mib(need)}, {show_mib(reserved)} would be reserved"
        return Refusal("reservation", why, uuid, need, reserved)
    room = free_for(state, job, ledger)
    if idle_for(state, job, ledger):
        # On an idle device the capacity counts: the few MiB of a monitor or desktop
        # (`idle_unmanaged_mib`) must not block a job of the device's size forever.
        room = ledger.device.capacity_mib
    if room is None:
        return Refusal("memory", "its free memory is unknown", uuid, reserved)
    if reserved > room and (job.recovers or not state.settings.overcommit):
        why = f"needs {show_mib(reserved)}, {show_mib(room)} free"
        whom = who_reserved(state, job, ledger, reserved)
        why += f": {whom}" if whom is not None else ""
        return Refusal("memory", why, uuid, reserved, room)
    return None


# ------------------------------------------------------------------ the mode of sharing


def mode_on(
    state: State, job: Job, role: Role, ledger: DeviceLedger, empty: bool = False
) -> Collocation:
    """Return the mode that this job would have on this device. Never AUTO.

    Beside another user's clients it would be time-sliced, unless it insists on MPS or nothing else
    can run there. `empty`: as if no job were on it.
    """
    wish = job.spec.collocation
    if ledger.device.kind is DeviceKind.MIG:
        return Collocation.MIG
    if wants_whole_device(state, job):
        return Collocation.EXCLUSIVE
    if wish is Collocation.AUTO:
        wish = state.settings.collocation
    if wish not in (Collocation.AUTO, Collocation.MPS):
        return wish
    if not can_be_mps_client(ledger.device, role.needs):
        return Collocation.TIMESLICE
    if empty or job.spec.collocation is Collocation.MPS:
        return Collocation.MPS
    beside = other_users_client(job, ledger) is not None
    return Collocation.TIMESLICE if beside else Collocation.MPS


def can_be_time_sliced(job: Job, mode: Collocation) -> bool:
    """Return whether a job may be time-sliced on a device where it would be an MPS client.

    A placement has one mode, and a job on several devices may find MPS on only some of them, also
    when it grows.
    """
    insists = job.spec.collocation is Collocation.MPS
    return mode is Collocation.MPS and job.spec.gpus_max > 1 and not insists


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


def other_users_client(job: Job, ledger: DeviceLedger) -> OccupantUse | None:
    """Return another user's client on the MPS server, if that takes one user at a time."""
    if ledger.device.mps_multiuser:
        return None
    for occupant in ledger.occupants.values():
        client = occupant.collocation is Collocation.MPS and occupant.job_id != job.id
        if client and occupant.uid != job.spec.uid:
            return occupant
    return None


# ------------------------------------------------------------------ turns


def turns(state: State) -> dict[str, int]:
    """Return the next job on each MPS server whose user has had a turn, by device UUID."""
    # A planner asks for each job and device; within a step nothing else changes the answer.
    kept, now = state.turns, (state.version, state.lines.changes)
    if kept is None or kept[0] is not state.step or kept[1] != now:
        kept = state.turns = state.step, now, choose_turns(state)
    return kept[2]


def choose_turns(state: State) -> dict[str, int]:
    """Return `turns`, made from nothing that is kept."""
    now_s, line = state.step.now.boot_s, state.lines.gpu
    over = [(le, had) for le in state.ledgers.values() if (had := le.turn_over(now_s)) is not None]
    found: dict[str, int] = {}
    # The number of named jobs of each user: the next device gets the user's next job.
    named: Counter[int] = Counter()
    key_of: dict[int, Key | None] = {}
    for ledger, had in sorted(over, key=lambda each: (each[0].cohort.since_s, each[0].device.uuid)):
        waiting = []
        for uid, mine in state.lines.gpu.of_user.items():
            if uid != had and named[uid] < len(mine):
                job_id = mine.at(named[uid])
                if job_id not in key_of:
                    key_of[job_id] = line.key_of(job_id)
                last_s = ledger.cohort.last_turn_s.get(uid, float("-inf"))
                waiting.append((last_s, key_of[job_id], job_id, uid))
        for *_, job_id, uid in sorted(waiting):
            if _could_be_next(state, state.jobs[job_id], ledger):
                found[ledger.device.uuid] = job_id
                named[uid] += 1
                break
    return found


def _could_be_next(state: State, job: Job, ledger: DeviceLedger) -> bool:
    """Return whether a waiting job would be this MPS server's client if the device were empty."""
    if job.gpus != 1:
        return False
    role = next(role for role in job.spec.roles if job.count(role) * role.needs.gpus)
    return (
        mode_on(state, job, role, ledger, empty=True) is Collocation.MPS
        # No recent reading is required: a device that a job just left is read in a moment.
        and refuse_itself(state, job, role, ledger, reading=False) is None
        and refuse_size(state, job, leaving=ledger.occupants) is None
        and ledger.unmanaged_mib is not None
        and ledger.unmanaged_mib <= state.settings.idle_unmanaged_mib
    )


def is_contested(state: State, ledger: DeviceLedger) -> bool:
    """Return whether one user has had a turn on this MPS server while another one waits."""
    device, of_user = ledger.device, state.lines.gpu.of_user
    if not device.mps or device.mps_multiuser:
        return False
    if len(of_user) < 2 and (not of_user or ledger.cohort.uid in of_user):
        return False  # no other user waits, so the time does not matter
    had = ledger.turn_over(state.step.now.boot_s)
    return had is not None and len(of_user) > (had in of_user)


def refuse_for_turn(state: State, job: Job, ledger: DeviceLedger) -> Refusal | None:
    """Return why this MPS server is left to another user's job; None if it is not."""
    if not is_contested(state, ledger):
        return None
    next_id = turns(state).get(ledger.device.uuid)
    if next_id is None or state.jobs[next_id].spec.uid == job.spec.uid:
        return None
    had, label = show_seconds(state.settings.mps_cohort_s), state.jobs[next_id].label
    why = f"one user has had its MPS server for {had}; job {label} of another user is next"
    return Refusal("turn", why, ledger.device.uuid)


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
