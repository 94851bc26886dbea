"""After a GPU out-of-memory: put the job into the recovery queue, or fail it.

Theory of operation
-------------------
An attempt that died of GPU out-of-memory shows that it, or a neighbour, needed more than was
reserved. `blame` compares both with their reservations before the attempt's are released. The
recovery rule decides what follows. `Again` puts the job into the recovery queue, which is served
before the main one. It sets a lower bound of the job's need (`memory_floor_mib`). It says
whether the job starts on an idle device or by the site's policy, and whether the device is its
own. `GiveUp` fails the job.

Invariants:
- A job stays in the recovery queue until it ends: a retry, loss or void launch returns it
  there (`returning.return_to_queue`), because its proven need still holds.
- Where it does not start on an idle device, its need must fit, whatever the policy ignores.
- `memory_floor_mib` is never limited to a device. A job that no device can serve fails here, in
  the same step.
- Recoveries end or slow down. After `_RECOVERIES_AT_ONCE` each further one follows a pause
  that doubles, whatever the rule says.

What may interleave: the rule may raise, or answer in the wrong shape. Then it rests
(`core/state/isolation.py`), and jobs are recovered on a device of their own.

What a restart sees: queue, lower bound, counts and pause are in the job's record. The rule has
no memory of its own.
"""

from __future__ import annotations

from radrm.core.constraints.feasibility import hopeless
from radrm.core.lifecycle.leaving import finish, pause
from radrm.core.lifecycle.memory import FULL, cap_of, is_capped, told_mib
from radrm.core.records import Attempt, Blame, Job, OutOfMemory
from radrm.core.rules import Again, GiveUp, Recovery
from radrm.core.state.isolation import RuleFailed, WrongAnswer, call_rule
from radrm.core.state.ledger import SETTLE_GROWTH_MIB, DeviceLedger
from radrm.core.state.pauses import growing_s
from radrm.core.state.readings import who_uses
from radrm.core.state.state import State
from radrm.core.transitions import Trigger
from radrm.core.units import show_mib
from radrm.core.words import Cause, Queue
from radrm.structs import replace

_RECOVERIES_AT_ONCE = 3
"""Recoveries without a pause; also the limit of recoveries while the rule rests."""
_CONTEXT_MIB = 256
"""What a program's CUDA context takes of its cap. An assumption: 25 MiB were seen on a T4."""
_LONGEST_REASON = 500
"""The most characters of a rule's own reason."""


def recover(
    state: State, job: Job, attempt: Attempt, evidence: OutOfMemory, rule: Recovery
) -> None:
    """Put a job whose attempt died of out-of-memory into the recovery queue, or fail it."""
    job = _with_death(job, attempt, evidence)
    largest = max((le.device.capacity_mib for le in state.ledgers.values()), default=0)
    verdict = _verdict(state, job, attempt, evidence, largest, rule)
    proven = replace(job, memory_floor_mib=verdict.memory_floor_mib or job.memory_floor_mib)
    if isinstance(verdict, GiveUp):
        _give_up(state, proven, attempt, verdict.reason)
        return
    never = hopeless(state, replace(job, memory_floor_mib=verdict.memory_floor_mib))
    if never is not None:
        _give_up(state, proven, attempt, never)
        return
    slow_down = None
    if job.oom_count > _RECOVERIES_AT_ONCE:
        times = job.oom_count - _RECOVERIES_AT_ONCE
        length_s = growing_s(state.settings.retry_s, times, state.settings.retry_most_s)
        reason = f"before recovery {job.oom_count} ({attempt.reason})"
        slow_down = pause(state, job, length_s, reason)
    state.move(
        replace(job, queue=Queue.RECOVERY, pause=slow_down),
        Trigger.RECOVER,
        memory_floor_mib=verdict.memory_floor_mib,
        own_device=verdict.own_device,
        by_policy=not verdict.idle_device,
        ask_mib=verdict.ask_mib,
        use_last=tuple(uuid for uuid in state.ledgers if uuid in verdict.use_last),
        reason=attempt.reason,
    )


def _with_death(job: Job, attempt: Attempt, evidence: OutOfMemory) -> Job:
    """Return the job's record with this death."""
    blame = evidence.blame
    died_on = attempt.devices if blame is None or blame.device is None else (blame.device,)
    return replace(
        job,
        oom_count=job.oom_count + 1,
        victim_count=job.victim_count + evidence.of_neighbour,
        died_on=(*(uuid for uuid in job.died_on if uuid not in died_on), *died_on),
    )


def _give_up(state: State, job: Job, attempt: Attempt, reason: str) -> None:
    """Fail a job with this reason after the attempt's."""
    state.put_job(job)
    finish(state, job, Trigger.FAIL, attempt, f"{attempt.reason}; {reason}")


def _verdict(
    state: State, job: Job, attempt: Attempt, oom: OutOfMemory, largest_mib: int, rule: Recovery
) -> Again | GiveUp:
    """Return the recovery rule's answer.

    While it rests: a device of its own, `_RECOVERIES_AT_ONCE` times.
    """
    if not state.isolation.rests("recovery", rule.name):
        try:
            return _checked(call_rule(lambda: rule.after_oom(job, attempt, oom, largest_mib)))
        except RuleFailed as failed:
            meanwhile = f"jobs are recovered on a GPU of their own, {_RECOVERIES_AT_ONCE} times"
            state.isolation.fail("recovery", rule.name, failed.error, meanwhile)
    if job.oom_count > _RECOVERIES_AT_ONCE:
        return GiveUp(f"recovery limit ({_RECOVERIES_AT_ONCE}) reached")
    return Again(memory_floor_mib=job.memory_floor_mib, own_device=True)


def _checked(verdict: object) -> Again | GiveUp:
    """Return a rule's answer. Raises `RuleFailed` if it has the wrong shape."""
    if (
        type(verdict) is GiveUp
        and type(verdict.reason) is str
        and _is_size(verdict.memory_floor_mib)
    ):
        return replace(verdict, reason=" ".join(verdict.reason.split())[:_LONGEST_REASON])
    if type(verdict) is Again and _is_sound(verdict):
        return verdict
    raise RuleFailed(
        WrongAnswer(f"its answer is not a sound Again or GiveUp: a {type(verdict).__name__}")
    )


def _is_sound(verdict: Again) -> bool:
    flags = (verdict.own_device, verdict.idle_device)
    return (
        all(type(flag) is bool for flag in flags)
        and _is_size(verdict.memory_floor_mib)
        and _is_size(verdict.ask_mib)
        and type(verdict.use_last) is tuple
        and all(type(uuid) is str for uuid in verdict.use_last)
    )


def _is_size(mib: object) -> bool:
    return mib is None or (type(mib) is int and 0 <= mib < 2**40)


# ------------------------------------------------------------------ blame


def blame(state: State, job: Job, attempt: Attempt, evidence: OutOfMemory) -> Blame:
    """Return whose growth caused the death of an attempt that still holds its devices.

    The job's own growth counts first. Of several devices, one on which somebody grew counts.
    """
    held = [ledger for uuid in attempt.devices if (ledger := state.ledgers.get(uuid)) is not None]
    found = [_blame_on(state, job, attempt, evidence, ledger) for ledger in held]
    for cause in (Cause.OWN, Cause.NEIGHBOUR):
        for each in found:
            if each.cause is cause:
                return each
    return found[0] if len(found) == 1 else Blame(Cause.UNKNOWN)


def _blame_on(
    state: State, job: Job, attempt: Attempt, evidence: OutOfMemory, ledger: DeviceLedger
) -> Blame:
    """Return whose growth the figures of one device show.

    A reading may miss the last moment, so a difference below `SETTLE_GROWTH_MIB` says
    nothing. An attempt at its cap dies of its own need, whatever the neighbours have. Below a cap
    that is larger than its reservation, it may have found no memory.
    """
    uuid, little = ledger.device.uuid, SETTLE_GROWTH_MIB
    by_total = _sized_by_total(job, attempt, evidence, ledger)
    if by_total is not None:
        return by_total
    reserved, occupant = ledger.promised_mib(job.id), ledger.occupants.get(job.id)
    peak, wanted = occupant.peak_mib if occupant is not None else None, evidence.requested_mib
    needed = None if peak is None and wanted is None else (peak or 0) + (wanted or 0)
    if needed is not None and reserved is not None and needed > reserved + little:
        why = f"it needed {show_mib(needed)}, {show_mib(reserved)} was reserved"
        return Blame(Cause.OWN, uuid, reserved, why)
    capped, cap = is_capped(job, attempt, uuid), dict(attempt.caps).get(uuid)
    alone = ledger.is_quiet and ledger.occupants.keys() <= {job.id}
    at_cap = capped and (
        cap is None or cap <= (reserved or 0) + little or (peak or 0) >= FULL * cap
    )
    if alone or (at_cap and wanted is None):
        return Blame(Cause.OWN, uuid, reserved)
    why_not_own = _growth_beside(state, job, ledger)
    if why_not_own is not None:
        return Blame(Cause.NEIGHBOUR, uuid, reserved, why_not_own)
    return Blame(Cause.OWN if capped else Cause.UNKNOWN, uuid, reserved)


def _sized_by_total(
    job: Job, attempt: Attempt, evidence: OutOfMemory, ledger: DeviceLedger
) -> Blame | None:
    """Return the blame of a program that takes a part of the GPU's total memory; None: it may have
    had all of it.

    Neither a reservation nor a cap changes the total that CUDA reports.
    """
    had = told_mib(job, cap_of(job, attempt.placement, attempt.caps))
    total = ledger.device.total_mib
    if evidence.fraction is None or had is None or had >= ledger.device.capacity_mib:
        return None
    why = part_of_total(evidence.fraction, had, total)
    return Blame(Cause.OWN, ledger.device.uuid, had, why)


def part_of_total(option: str, had_mib: int, total_mib: int) -> str:
    """Return what to set, for a program that takes a part of the total and could have less."""
    most = max(0, had_mib - _CONTEXT_MIB) * 100 // total_mib / 100
    return (
        f"it takes a part of the GPU's {show_mib(total_mib)}, and may have {show_mib(had_mib)}: "
        f"set {option} to {most:g} or less"
    )


def _growth_beside(state: State, job: Job, ledger: DeviceLedger) -> str | None:
    """Return which neighbour took most beyond its reservation; None if none took more."""
    found = []
    for occupant in ledger.occupants.values():
        theirs, used = ledger.promised_mib(occupant.job_id), occupant.observed_mib
        if occupant.job_id == job.id or used is None or theirs is None:
            continue
        why = f"job {occupant.job_id} used {show_mib(used)}, {show_mib(theirs)} was reserved"
        found.append((used - theirs, why))
    reserved, unmanaged = ledger.reserved_mib, ledger.unmanaged_mib or 0
    if reserved <= ledger.device.capacity_mib and not ledger.is_quiet:
        # Without overcommitment, what is not reserved is all that they can have.
        why = who_uses(ledger.reading, ledger.occupants, unmanaged, past=True)
        found.append((reserved + unmanaged - ledger.device.capacity_mib, why))
    most, why = max(found, default=(0, ""))
    return why if most > SETTLE_GROWTH_MIB else None
