"""Turns of users on an MPS server.

Theory of operation
-------------------
An MPS server serves the processes of one user at a time; a client of a second user hangs
until the first user's last client has gone. So all MPS jobs on a device belong to one user,
its *cohort*. Jobs of others may run time-sliced beside it, where the policy predicts that this is
worth it. Else they wait: if the cohort's user keeps submitting, it
never ends, and they starve.

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

from radrm.core.constraints.alone import mode_on, refuse_itself
from radrm.core.constraints.nodes import refuse_size
from radrm.core.records import Job, Refusal
from radrm.core.state.ledger import DeviceLedger
from radrm.core.state.queue.line import Key
from radrm.core.state.state import State
from radrm.core.units import show_seconds
from radrm.core.words import Collocation


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
        for uid, mine in state.lines.of_user.items():
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
    device, of_user = ledger.device, state.lines.of_user
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
