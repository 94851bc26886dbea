"""After a GPU out-of-memory: put the job into the recovery queue, or fail it.

Theory of operation
-------------------
An attempt that died of GPU out-of-memory shows that the job needs more than was reserved. The
recovery rule decides. `Again` puts the job into the recovery queue, which is served before the
main one. It sets a lower bound of the job's need (`memory_floor_mib`), and may require a device
of its own. `GiveUp` fails the job.

Invariants:
- A job stays in the recovery queue until it ends: a retry, loss or void launch returns it
  there (`returning.return_to_queue`), because its proven need still holds.
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

from dataclasses import replace

from radrm.core.constraints.feasibility import hopeless
from radrm.core.lifecycle.final import finish
from radrm.core.lifecycle.returning import pause
from radrm.core.records import Attempt, Job, OutOfMemory
from radrm.core.rules import Again, GiveUp, Recovery
from radrm.core.state.isolation import RuleFailed, WrongAnswer, call_rule
from radrm.core.state.pauses import growing_s
from radrm.core.state.state import State
from radrm.core.transitions import Trigger
from radrm.core.words import Queue

_RECOVERIES_AT_ONCE = 3
"""Recoveries without a pause; also the limit of recoveries while the rule rests."""
_LONGEST_REASON = 500
"""The most characters of a rule's own reason."""


def recover(
    state: State, job: Job, attempt: Attempt, evidence: OutOfMemory, rule: Recovery
) -> None:
    """Put a job whose attempt died of out-of-memory into the recovery queue, or fail it."""
    job = replace(job, oom_count=job.oom_count + 1)
    largest = max((le.device.capacity_mib for le in state.ledgers.values()), default=0)
    verdict = _verdict(state, job, attempt, evidence, largest, rule)
    if isinstance(verdict, GiveUp):
        _give_up(state, job, attempt, verdict.reason)
        return
    never = hopeless(state, replace(job, memory_floor_mib=verdict.memory_floor_mib))
    if never is not None:
        _give_up(state, job, attempt, never)
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
        reason=attempt.reason,
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
    if type(verdict) is GiveUp and type(verdict.reason) is str:
        return replace(verdict, reason=" ".join(verdict.reason.split())[:_LONGEST_REASON])
    if type(verdict) is Again and type(verdict.own_device) is bool:
        floor = verdict.memory_floor_mib
        if floor is None or (type(floor) is int and 0 <= floor < 2**40):
            return verdict
    raise RuleFailed(
        WrongAnswer(f"its answer is not a sound Again or GiveUp: a {type(verdict).__name__}")
    )
