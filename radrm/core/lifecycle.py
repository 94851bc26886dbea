"""What starts, stops, resizes and ends an attempt: the consequences, in records and actions.

Every function takes the state, changes records through it, and asks the host for
what must be done. Whether something *should* start or stop is decided elsewhere.
"""

from __future__ import annotations

from dataclasses import replace

from radrm.core.actions import Kill, Launch, Resize, SendSignal, TakeReadings, Terminate
from radrm.core.events import AttemptEnded
from radrm.core.records import Attempt, Exit, Job, Placement, Reservation, Stop, Task, Usage
from radrm.core.rules import GiveUp, Recovery
from radrm.core.state import State, Timer, owner_of
from radrm.core.transitions import Trigger
from radrm.core.units import show_mib, show_seconds
from radrm.core.validation import hopeless
from radrm.core.words import JobState, Outcome, Queue, ReservationKind, StopReason

TIME_LIMIT, KILL, LAUNCH_AGAIN = "time limit", "kill", "launch again"
"""What timers are for: the time limit, and the signal before it; the end of a stop's grace;
a server that could not start anything."""


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
    job = state.move(job, Trigger.START, attempts=attempt.number, target=None, reason=None)
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
            ledger.admit(job, attempt, now.boot_s)


def started(state: State, job: Job, attempt: Attempt) -> None:
    """The attempt's processes exist."""
    now = state.turn.now
    state.put_attempt(replace(attempt, started=now))
    if job.state is JobState.LAUNCHING:
        state.move(job, Trigger.STARTED, started=job.started or now)
    wake_for_limit(state, job, state.attempts[job.id])


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
    _back(state, job, attempts=job.attempts - 1, started=started)


# ------------------------------------------------------------------ stop


def stop(state: State, job: Job, attempt: Attempt, reason: StopReason) -> None:
    """TERM now, KILL after the grace time. A later reason replaces a preemption only."""
    now = state.turn.now
    if attempt.stop is not None:
        if attempt.stop.reason is StopReason.PREEMPTED and reason is not StopReason.PREEMPTED:
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
        state.put_attempt(replace(attempt, usage=attempt.usage + usage))
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
    usage = attempt.usage + _release(state, attempt)
    outcome = _outcome(attempt, event)
    code = _exit_code(event.exits)
    attempt = state.put_attempt(
        replace(
            attempt,
            ended=state.turn.now,
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
        _back(state, job)
    elif (
        outcome is Outcome.FAILED
        and event.never_started is None
        and job.retries_used < job.spec.retries
    ):
        _back(state, job, retries_used=job.retries_used + 1)
    else:
        _finish(state, job, Trigger.FAIL, attempt)


def _ensure_started(state: State, job: Job, event: AttemptEnded) -> Job:
    """An attempt can be over before anybody heard that it had begun."""
    if job.state is JobState.LAUNCHING and event.lost is None:
        started(state, job, state.attempts[job.id])
    return state.jobs[job.id]


def _release(state: State, attempt: Attempt) -> tuple[Usage, ...]:
    devices = list(attempt.placement.devices)
    if attempt.target is not None:
        devices += [d for d in attempt.target.devices if d not in devices]
    return _leave(state, attempt.job_id, devices)


def _leave(state: State, job_id: int, devices: list[str]) -> tuple[Usage, ...]:
    """Give devices back, and have them read at once: what is free there is news."""
    usage = []
    for uuid in devices:
        ledger = state.ledgers.get(uuid)
        found = ledger.release(job_id, state.turn.now.boot_s) if ledger else None
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
    if attempt.stop.reason is StopReason.PREEMPTED:
        _back(state, job, progress=job.saved)
        return
    if attempt.stop.reason is StopReason.LOST and job.spec.requeue:
        _back(state, job, progress=job.saved)
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
        ended=state.turn.now,
    )


def _back(state: State, job: Job, **changes: object) -> None:
    """Into the queue it came from."""
    recovering = job.queue is Queue.RECOVERY
    state.move(job, Trigger.RECOVER if recovering else Trigger.RETURN, **changes)


def _recover(state: State, job: Job, attempt: Attempt, event: AttemptEnded, rule: Recovery) -> None:
    assert event.oom is not None
    job = replace(job, oom_count=job.oom_count + 1)
    largest = max((le.device.capacity_mib for le in state.ledgers.values()), default=0)
    verdict = rule.after_oom(job, attempt, event.oom, largest)
    if isinstance(verdict, GiveUp):
        state.put_job(job)
        _finish(state, job, Trigger.FAIL, attempt, f"{attempt.reason}; {verdict.reason}")
        return
    never = hopeless(state, replace(job, memory_floor_mib=verdict.memory_floor_mib))
    if never is not None:
        state.put_job(job)
        _finish(state, job, Trigger.FAIL, attempt, f"{attempt.reason}; {never}")
        return
    state.move(
        replace(job, queue=Queue.RECOVERY),
        Trigger.RECOVER,
        memory_floor_mib=verdict.memory_floor_mib,
        own_device=verdict.own_device,
        reason=attempt.reason,
    )


# ------------------------------------------------------------------ waiting jobs


def refuse(state: State, job: Job, reason: str) -> None:
    """A waiting job that can never run here."""
    drop_target(state, job)
    state.move(state.jobs[job.id], Trigger.FAIL, reason=reason, ended=state.turn.now)


def run_again(state: State, job: Job) -> None:
    """One that has ended goes back into the queue as if new; what its deaths proved stays."""
    state.move(
        job,
        Trigger.AGAIN,
        queue=Queue.MAIN,
        oom_count=0,
        retries_used=0,
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
