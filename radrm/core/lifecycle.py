"""What starts, stops, resizes and ends an attempt: the consequences, in records and actions.

Every function takes the state, changes records through it, and asks the host for
what must be done. Whether something *should* start or stop is decided elsewhere.
"""

from __future__ import annotations

from dataclasses import replace

from radrm.core.actions import Kill, Launch, Resize, SendSignal, TakeReadings, Terminate
from radrm.core.events import AttemptEnded
from radrm.core.records import (
    Attempt,
    Exit,
    Instant,
    Job,
    OutOfMemory,
    Pause,
    Placement,
    Requeued,
    Reservation,
    Stop,
    Task,
    Usage,
)
from radrm.core.rules import Again, GiveUp, Recovery
from radrm.core.state.isolation import RuleFailed, WrongAnswer, asked
from radrm.core.state.ledger import merged
from radrm.core.state.pauses import growing_s
from radrm.core.state.state import State, Timer, owner_of
from radrm.core.transitions import Trigger
from radrm.core.units import show_mib, show_seconds
from radrm.core.validation import hopeless
from radrm.core.words import JobState, Outcome, Queue, ReservationKind, StopReason

TIME_LIMIT, KILL, LAUNCH_AGAIN = "time limit", "kill", "launch again"
PAUSE_OVER = "pause over"
"""What timers are for: the time limit, and the signal before it; the end of a stop's grace;
a server that could not start anything; a job that stands aside."""
_RECOVERIES_AT_ONCE = 3
"""What a recovery rule without an end leads to is paced beyond these."""


# ------------------------------------------------------------------ start


def start(state: State, job: Job, placement: Placement) -> None:
    """Launch a waiting job on a placement that was checked."""
    now = state.turn.now
    serial, state.next_serial = state.next_serial, state.next_serial + 1
    tasks = tuple(
        Task(role=role, number=number)
        for role, count in placement.tasks().items()
        for number in range(count)
    )
    attempt = Attempt(
        job_id=job.id,
        number=job.attempts + 1,
        serial=serial,
        placement=placement,
        launched=now,
        tasks=tasks,
    )
    job = state.move(
        job, Trigger.START, attempts=attempt.number, target=None, reason=None, pause=None
    )
    state.put_attempt(attempt)
    _hold(state, job, attempt, placement)
    promised = [mib for mib in State.promises(placement).values() if mib is not None]
    # What a recovered job needs is not known: it has shown to be more than was thought.
    capped = bool(promised) and job.need_mib is not None and job.queue is not Queue.RECOVERY
    state.act(
        Launch(
            job_id=job.id,
            attempt=attempt.number,
            serial=serial,
            placement=placement,
            cap_mib=min(promised) if capped else None,
            shared=not placement.collocation.whole_device,
        )
    )


def _hold(state: State, job: Job, attempt: Attempt, placement: Placement) -> None:
    """Promise the devices of a placement to an attempt, and enter it where it is new."""
    now = state.turn.now
    for uuid, mib in State.promises(placement).items():
        state.reserve(
            Reservation(
                owner=owner_of(job.id),
                kind=ReservationKind.RUNNING,
                device=uuid,
                mib=mib,
                since=now,
                job_id=job.id,
            )
        )
        ledger = state.ledgers[uuid]
        if job.id not in ledger.holdings:
            ledger.admit(job, attempt, now.boot_s, now.boot_s)


def started(state: State, job: Job, attempt: Attempt, happened: Instant | None = None) -> None:
    """The attempt's processes exist, since `happened` where that was earlier."""
    begun = _moment(happened, attempt.launched, state.turn.now)
    state.put_attempt(replace(attempt, started=begun))
    if job.state is JobState.LAUNCHING:
        state.move(job, Trigger.STARTED, started=job.started or begun)
    wake_for_limit(state, job, state.attempts[job.id])


def _moment(told: Instant | None, first: Instant, now: Instant) -> Instant:
    """When a reported event happened: `told`, but neither before `first` nor after now. Of a time
    in an earlier boot only the date can be compared with now."""
    if told is None:
        return now
    after_s, ago_s = told.since(first), now.since(told)
    if after_s is not None and after_s < 0:
        return first
    if ago_s is not None:
        return told if ago_s >= 0 else now
    return replace(told, wall_s=min(max(told.wall_s, first.wall_s), now.wall_s))


def wake_for_limit(state: State, job: Job, attempt: Attempt) -> None:
    """Look at an attempt again at its time limit, and when its signal before that is due."""
    limit, signal = job.spec.time_limit_s, job.spec.signal
    if limit is None or attempt.started is None:
        return
    end = attempt.started.boot_s + limit
    state.wake(Timer(end, TIME_LIMIT, job.id, attempt.number))
    if signal is not None and not attempt.signalled:
        state.wake(Timer(end - signal.lead_s, TIME_LIMIT, job.id, attempt.number))


def at_limit(state: State, job: Job, attempt: Attempt) -> None:
    """What is due now of an attempt: its signal, or its end. Limits change; timers stay."""
    limit, signal = job.spec.time_limit_s, job.spec.signal
    if limit is None or attempt.started is None:
        return
    end = attempt.started.boot_s + limit
    if state.turn.now.boot_s >= end:
        stop(state, job, attempt, StopReason.TIMEOUT)
    elif (
        signal is not None
        and attempt.stop is None
        and not attempt.signalled
        and state.turn.now.boot_s >= end - signal.lead_s
    ):
        state.put_attempt(replace(attempt, signalled=True))
        state.act(SendSignal(job_id=job.id, attempt=attempt.number, number=signal.number))


def voided(state: State, job: Job, attempt: Attempt, reason: str | None) -> None:
    """The attempt never was: the job is again where it stood, and nothing counts against it."""
    _release(state, attempt)
    state.put_attempt(replace(attempt, ended=state.turn.now, reason=reason or "never launched"))
    if attempt.stop is not None:
        _stopped(state, job, attempt)
        return
    started = job.started if attempt.number > 1 else None
    changes = _setback(state, job, attempt, "its launch was void") if reason is None else {}
    _back(state, job, attempts=job.attempts - 1, started=started, **changes)


# ------------------------------------------------------------------ stop


def stop(
    state: State, job: Job, attempt: Attempt, reason: StopReason, why: str | None = None
) -> None:
    """TERM now, KILL after the grace time. `why` becomes the job's reason.

    Stop reasons are ordered: CANCELLED > TIMEOUT > LOST > PREEMPTED. The reason of a stop
    under way may only move up; its deadline stays.
    """
    now = state.turn.now
    if attempt.stop is not None and not reason.overrides(attempt.stop.reason):
        return
    if why is not None:
        job = state.put_job(replace(job, reason=why))
    if attempt.stop is not None:
        state.put_attempt(replace(attempt, stop=replace(attempt.stop, reason=reason)))
        return
    deadline = now.boot_s + state.settings.grace_s
    state.put_attempt(replace(attempt, stop=Stop(reason=reason, asked=now, kill_boot_s=deadline)))
    state.move(job, Trigger.STOP)
    state.wake(Timer(deadline, KILL, job.id, attempt.number))
    state.act(Terminate(job_id=job.id, attempt=attempt.number))


def kill_now(state: State, attempt: Attempt) -> None:
    """KILL, and again after another grace time if it has not ended by then."""
    state.act(Kill(job_id=attempt.job_id, attempt=attempt.number))
    again = state.turn.now.boot_s + state.settings.grace_s
    state.wake(Timer(again, KILL, attempt.job_id, attempt.number))


# ------------------------------------------------------------------ resize


def begin_resize(state: State, job: Job, attempt: Attempt, target: Placement) -> None:
    """Promise what is added now; what is given up stays promised until it is free."""
    both = Placement(
        shares=tuple(dict.fromkeys(attempt.placement.shares + target.shares)),
        collocation=target.collocation,
    )
    attempt = state.put_attempt(replace(attempt, target=target))
    _hold(state, job, attempt, both)
    state.act(Resize(job_id=job.id, attempt=attempt.number, target=target))


def end_resize(state: State, job: Job, attempt: Attempt, placement: Placement) -> None:
    """Settle on `placement`: the target when the resize worked, what was before when not."""
    was = set(attempt.placement.devices)
    if attempt.target is not None:
        was |= set(attempt.target.devices)
    tasks = tuple(
        next(
            (t for t in attempt.tasks if (t.role, t.number) == (s.role, s.task)),
            Task(role=s.role, number=s.task),
        )
        for s in {(s.role, s.task): s for s in placement.shares}.values()
    )
    attempt = state.put_attempt(replace(attempt, placement=placement, target=None, tasks=tasks))
    gone = [uuid for uuid in sorted(was) if uuid not in placement.devices]
    usage = _leave(state, job.id, gone)
    if usage:
        attempt = state.put_attempt(replace(attempt, usage=merged(attempt.usage, usage)))
    _hold(state, job, attempt, placement)


# ------------------------------------------------------------------ end


def ended(state: State, job: Job, attempt: Attempt, event: AttemptEnded, rule: Recovery) -> None:
    """The attempt's processes are gone: record how, free its devices, decide what follows."""
    if event.never_started is not None:
        # The processes existed for a moment, but no instruction of the job's has run.
        attempt = replace(attempt, started=None)
        job = state.put_job(replace(job, started=job.started if attempt.number > 1 else None))
    else:
        job = _ensure_started(state, job, event)
        attempt = state.attempts[job.id]
    end = _moment(event.happened, attempt.started or attempt.launched, state.turn.now)
    if attempt.stop is not None and _came_too_late(attempt.stop, event, end):
        attempt = replace(attempt, stop=None)
    usage = merged(attempt.usage, _release(state, attempt, end))
    outcome = _outcome(attempt, event)
    code = _exit_code(event.exits)
    attempt = state.put_attempt(
        replace(
            attempt,
            ended=end,
            outcome=outcome,
            exit_code=code,
            reason=_why_stopped(job, attempt.stop) or _why(outcome, event, code),
            usage=usage,
            tasks=tuple(
                replace(task, exit=event.exits[i] if i < len(event.exits) else None)
                for i, task in enumerate(attempt.tasks)
            ),
        )
    )
    if attempt.stop is not None:
        _stopped(state, job, attempt)
    elif outcome is Outcome.COMPLETED:
        _finish(state, job, Trigger.COMPLETE, attempt)
    elif outcome is Outcome.OOM:
        _recover(state, job, attempt, event, rule)
    elif outcome is Outcome.LOST and job.spec.requeue:
        _back(state, job, **_setback(state, job, attempt, attempt.reason or "lost"))
    elif (
        outcome is Outcome.FAILED
        and event.never_started is None
        and job.retries_used < job.spec.retries
    ):
        _retry(state, job, attempt)
    else:
        _finish(state, job, Trigger.FAIL, attempt)


def _ensure_started(state: State, job: Job, event: AttemptEnded) -> Job:
    """An attempt can be over before anybody heard that it had begun."""
    if job.state is JobState.LAUNCHING and event.lost is None:
        started(state, job, state.attempts[job.id])
    return state.jobs[job.id]


def _came_too_late(stop: Stop, event: AttemptEnded, end: Instant) -> bool:
    """Whether all had ended before the stop was asked for, so that it stopped nothing: it ended
    as it did. A user's cancel holds all the same, or the job might be run again."""
    if event.happened is None or stop.reason is StopReason.CANCELLED:
        return False
    late_s = stop.asked.since(end)
    return late_s is not None and late_s > 0


def _release(state: State, attempt: Attempt, end: Instant | None = None) -> tuple[Usage, ...]:
    devices = list(attempt.placement.devices)
    if attempt.target is not None:
        devices += [d for d in attempt.target.devices if d not in devices]
    return _leave(state, attempt.job_id, devices, end)


def _leave(
    state: State, job_id: int, devices: list[str], end: Instant | None = None
) -> tuple[Usage, ...]:
    """Give devices back, and have them read at once: what is free there is news."""
    now = state.turn.now
    ago_s = now.since(end) if end is not None else None
    left_s = now.boot_s - (ago_s or 0.0)
    usage = []
    for uuid in devices:
        ledger = state.ledgers.get(uuid)
        found = ledger.release(job_id, now.boot_s, left_s) if ledger else None
        if found is not None:
            usage.append(found)
        state.unreserve(owner_of(job_id), uuid)
        if ledger is not None and ledger.vanished and not ledger.holdings:
            state.forget_device(uuid)
    if devices:
        state.act(TakeReadings(devices=tuple(devices)))
    return tuple(usage)


def _outcome(attempt: Attempt, event: AttemptEnded) -> Outcome:
    if attempt.stop is not None:
        return Outcome(attempt.stop.reason.value)
    if event.lost is not None:
        return Outcome.LOST
    if event.never_started is None and event.exits and all(e.ok for e in event.exits):
        return Outcome.COMPLETED
    return Outcome.OOM if event.oom is not None else Outcome.FAILED


def _exit_code(exits: tuple[Exit, ...]) -> int | None:
    """The highest of the tasks' codes, as a shell would give them."""
    codes = [e.shell_code for e in exits]
    return max((c for c in codes if c is not None), default=None)


def _why(outcome: Outcome, event: AttemptEnded, code: int | None) -> str | None:
    if outcome is Outcome.COMPLETED:
        return None
    if event.never_started is not None:
        return event.never_started
    if event.lost is not None:
        return event.lost
    if event.oom is not None and outcome is Outcome.OOM:
        wanted = event.oom.requested_mib
        request = f" when it asked for {show_mib(wanted)} more" if wanted else ""
        return f"out of GPU memory{request}"
    signals = [e.signal for e in event.exits if e.signal is not None]
    return f"killed by signal {signals[0]}" if signals else f"exit code {code}"


_END_OF_STOP = {
    StopReason.TIMEOUT: Trigger.TIME_OUT,
    StopReason.CANCELLED: Trigger.CANCEL,
    StopReason.LOST: Trigger.FAIL,
}


def _why_stopped(job: Job, stop: Stop | None) -> str | None:
    if stop is None:
        return None
    if stop.reason is StopReason.TIMEOUT:
        return f"its time limit of {show_seconds(job.spec.time_limit_s)} was reached"
    return job.reason or stop.reason.value


def _stopped(state: State, job: Job, attempt: Attempt) -> None:
    """A stop is done; its reason stands, however the processes took it."""
    assert attempt.stop is not None
    lost = attempt.stop.reason is StopReason.LOST and job.spec.requeue
    if lost or attempt.stop.reason is StopReason.PREEMPTED:
        why = attempt.reason or attempt.stop.reason.value
        _back(state, job, progress=job.saved, **_setback(state, job, attempt, why))
        return
    _finish(state, job, _END_OF_STOP[attempt.stop.reason], attempt, _why_stopped(job, attempt.stop))


def _finish(
    state: State, job: Job, trigger: Trigger, attempt: Attempt, reason: str | None = None
) -> None:
    drop_target(state, job)
    state.move(
        state.jobs[job.id],
        trigger,
        outcome=attempt.outcome or (Outcome.CANCELLED if trigger is Trigger.CANCEL else None),
        exit_code=attempt.exit_code,
        reason=reason or attempt.reason,
        ended=attempt.ended or state.turn.now,
    )


def _back(state: State, job: Job, **changes: object) -> None:
    """Into the queue it came from."""
    recovering = job.queue is Queue.RECOVERY
    state.move(job, Trigger.RECOVER if recovering else Trigger.RETURN, **changes)


def _verdict(
    state: State, job: Job, attempt: Attempt, oom: OutOfMemory, largest_mib: int, rule: Recovery
) -> Again | GiveUp:
    """The recovery rule's, or what is published where it fails: a device of its own, bounded."""
    if not state.isolation.rests("recovery", rule.name):
        try:
            verdict = asked(lambda: rule.after_oom(job, attempt, oom, largest_mib))
            return _of_right_shape(verdict)
        except RuleFailed as failed:
            instead = f"jobs are recovered on a GPU of their own, {_RECOVERIES_AT_ONCE} times"
            state.isolation.fail("recovery", rule.name, failed.error, instead)
    if job.oom_count > _RECOVERIES_AT_ONCE:
        return GiveUp(f"it was recovered {_RECOVERIES_AT_ONCE} times, which is the limit")
    return Again(memory_floor_mib=job.memory_floor_mib, own_device=True)


def _of_right_shape(verdict: object) -> Again | GiveUp:
    if type(verdict) is GiveUp and type(verdict.reason) is str:
        return replace(verdict, reason=" ".join(verdict.reason.split())[:500])
    if type(verdict) is Again and type(verdict.own_device) is bool:
        floor = verdict.memory_floor_mib
        if floor is None or (type(floor) is int and 0 <= floor < 2**40):
            return verdict
    raise RuleFailed(
        WrongAnswer(f"its answer is not what it has to be: a {type(verdict).__name__}")
    )


def _retry(state: State, job: Job, attempt: Attempt) -> None:
    """Again after a plain failure, later each time: most failures need somebody, or time."""
    number = job.retries_used + 1
    length_s = growing_s(state.settings.retry_s, number, state.settings.retry_most_s)
    reason = f"before retry {number} of {job.spec.retries} ({attempt.reason})"
    _back(state, job, retries_used=number, setbacks=0, pause=_pause(state, job, length_s, reason))


def _setback(state: State, job: Job, attempt: Attempt, why: str) -> dict[str, object]:
    """What an attempt that came to nothing changes. A job that has run for longer than it would
    have to wait goes back at once, and so does any job the first time."""
    times = job.setbacks + 1
    first_s, most_s = state.settings.retry_s, state.settings.retry_most_s
    length_s = growing_s(first_s, max(1, times - 1), most_s)
    if state.turn.now.boot_s - attempt.launched.boot_s >= length_s:
        return {"setbacks": 0}
    if times == 1:
        return {"setbacks": 1}
    reason = f"before its next start: {times} attempts in a row came to nothing ({why})"
    return {"setbacks": times, "pause": _pause(state, job, length_s, reason)}


def _pause(state: State, job: Job, length_s: float, reason: str) -> Pause:
    now = state.turn.now
    until_s = now.boot_s + length_s
    state.wake(Timer(until_s, PAUSE_OVER, job.id))
    return Pause(since=now, until_boot_s=until_s, reason=reason)


def end_pause(state: State, job: Job) -> bool:
    """Put a job whose pause is over back into the queue; False while it is not."""
    if job.pause is None or not job.state.waiting:
        return False
    if job.pause.left_s(state.turn.now) > 0:
        state.wake(Timer(job.pause.until_boot_s, PAUSE_OVER, job.id))
        return False
    state.put_job(replace(job, pause=None))
    return True


def _recover(state: State, job: Job, attempt: Attempt, event: AttemptEnded, rule: Recovery) -> None:
    assert event.oom is not None
    job = replace(job, oom_count=job.oom_count + 1)
    largest = max((le.device.capacity_mib for le in state.ledgers.values()), default=0)
    verdict = _verdict(state, job, attempt, event.oom, largest, rule)
    if isinstance(verdict, GiveUp):
        state.put_job(job)
        _finish(state, job, Trigger.FAIL, attempt, f"{attempt.reason}; {verdict.reason}")
        return
    never = hopeless(state, replace(job, memory_floor_mib=verdict.memory_floor_mib))
    if never is not None:
        state.put_job(job)
        _finish(state, job, Trigger.FAIL, attempt, f"{attempt.reason}; {never}")
        return
    pause = None
    if job.oom_count > _RECOVERIES_AT_ONCE:
        times = job.oom_count - _RECOVERIES_AT_ONCE
        length_s = growing_s(state.settings.retry_s, times, state.settings.retry_most_s)
        pause = _pause(state, job, length_s, f"before recovery {job.oom_count} ({attempt.reason})")
    state.move(
        replace(job, queue=Queue.RECOVERY, pause=pause),
        Trigger.RECOVER,
        memory_floor_mib=verdict.memory_floor_mib,
        own_device=verdict.own_device,
        reason=attempt.reason,
    )


# ------------------------------------------------------------------ waiting jobs


def refuse(state: State, job: Job, reason: str) -> None:
    """A waiting job that can never run here."""
    drop_target(state, job)
    job = state.jobs[job.id]
    state.move(job, Trigger.FAIL, reason=reason, ended=state.turn.now, pause=None)


def run_again(state: State, job: Job) -> None:
    """One that has ended goes back into the queue as if new; what its deaths proved stays."""
    state.move(
        job,
        Trigger.AGAIN,
        requeued=Requeued(at=state.turn.now, behind=max(state.last_id, job.id)),
        queue=Queue.MAIN,
        oom_count=0,
        retries_used=0,
        setbacks=0,
        pause=None,
        own_device=False,
        outcome=None,
        exit_code=None,
        reason=None,
        started=None,
        ended=None,
    )


def cancel_waiting(state: State, job: Job, reason: str) -> None:
    drop_target(state, job)
    state.move(
        state.jobs[job.id],
        Trigger.CANCEL,
        outcome=Outcome.CANCELLED,
        reason=reason,
        ended=state.turn.now,
        pause=None,
    )


def drop_target(state: State, job: Job) -> None:
    """Give up a migration that has not arrived."""
    if job.target is None:
        return
    for uuid in job.target.devices:
        ledger = state.ledgers.get(uuid)
        mine = ledger.reservations.get(owner_of(job.id)) if ledger else None
        if mine is not None and mine.kind is ReservationKind.MIGRATION:
            state.unreserve(owner_of(job.id), uuid)
    state.put_job(replace(state.jobs[job.id], target=None))


def take_target(state: State, job: Job, placement: Placement) -> None:
    """Reserve where a migrating job will go on."""
    state.put_job(replace(job, target=placement))
    for uuid, mib in State.promises(placement).items():
        if job.id in state.ledgers[uuid].holdings:
            continue
        state.reserve(
            Reservation(
                owner=owner_of(job.id),
                kind=ReservationKind.MIGRATION,
                device=uuid,
                mib=mib,
                since=state.turn.now,
                job_id=job.id,
            )
        )
