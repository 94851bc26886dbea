"""Start an attempt; pause all launches if the server cannot start jobs."""

from __future__ import annotations

from radrm.core.actions import Launch
from radrm.core.constraints.fit import with_fraction
from radrm.core.constraints.placement import check_placement
from radrm.core.lifecycle.asking import ask, without
from radrm.core.lifecycle.leaving import pause
from radrm.core.lifecycle.memory import enforced_caps, told_caps
from radrm.core.lifecycle.occupancy import drop_target, occupy
from radrm.core.lifecycle.timing import wake_for_limit
from radrm.core.records import Attempt, Instant, Job, Placement, Progress, Refusal, Task
from radrm.core.state.state import State
from radrm.core.state.timers import ALL_PLANNERS, LAUNCH_AGAIN, Timer
from radrm.core.transitions import Trigger
from radrm.core.words import ActionKind, Collocation, JobState, Runner
from radrm.structs import replace

_READ_S = 60.0
"""So long a migrating job waits for readings of its target. They come within seconds."""
_PAUSED = Refusal("pause", "it came to nothing again and again")
_LAUNCH = "launch"
"""The only key of `State.launches`: all launches of a server share one pause."""


def start(state: State, job: Job, placement: Placement, planner: str | None = None) -> None:
    """Launch a waiting job on a checked placement.

    `planner` decided it; None: the planner whose proposal is carried out now. A placement that
    names no SM fraction gets the job's.
    """
    if job.sm_fraction is not None or job.spec.sm_share is not None:
        placement = with_fraction(job, placement)
    now = state.step.now
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
        planner=planner or state.step.planner,
        began=_goes_on_from(job, now),
    )
    drop_target(state, job)  # the attempt gets reservations of its own
    job = state.jobs[job.id]
    job = state.move(job, Trigger.START, attempts=attempt.number, reason=None, pause=None)
    ask(state, job, attempt, ActionKind.LAUNCH)
    occupy(state, job, state.attempts[job.id], placement)
    told = told_caps(state, job, placement)
    caps = enforced_caps(state, job, placement, told)
    if caps:
        state.put_attempt(replace(state.attempts[job.id], caps=caps))
    by_driver = placement.collocation is not Collocation.MPS
    state.act(
        Launch(
            job_id=job.id,
            serial=serial,
            number=attempt.number,
            placement=placement,
            cap_mib=min(told.values(), default=None),
            shared=not placement.collocation.whole_device,
            caps=caps if by_driver else (),
            runner=Runner.OWN if job.outer is None else Runner.WAITING,
        )
    )


def _goes_on_from(job: Job, now: Instant) -> Progress | None:
    """Return the progress with which a new attempt of a job begins; None for the first one, of
    which it goes without saying."""
    if job.saved_at is not None and (job.saved is None or job.saved_at.is_after(job.saved.at)):
        return Progress(at=job.saved_at)  # it has saved, but not said how far it was
    if job.saved is not None:
        return job.saved
    return Progress(at=now, work_done=0.0) if job.attempts else None


def started(
    state: State,
    job: Job,
    attempt: Attempt,
    happened: Instant | None = None,
    cpu_list: str | None = None,
) -> None:
    """Note that the attempt's processes exist, since `happened` if that is known."""
    begun = moment(happened, attempt.launched, state.step.now)
    attempt = without(attempt, ActionKind.LAUNCH)
    state.put_attempt(replace(attempt, started=begun, cpu_list=cpu_list))
    if job.state is JobState.LAUNCHING:
        state.move(job, Trigger.STARTED, started=job.started or begun)
    wake_for_limit(state, job, state.attempts[job.id])


def moment(reported: Instant | None, first: Instant, now: Instant) -> Instant:
    """Return when an event happened: `reported`, but not before `first` and not after now.

    A record may be read long after it was written, even after a reboot. Then only its wall-clock
    time can be compared with now.
    """
    if reported is None:
        return now
    after_s, ago_s = reported.since(first), now.since(reported)
    if after_s is not None and after_s < 0:
        return first
    if ago_s is not None:
        return reported if ago_s >= 0 else now
    return replace(reported, wall_s=min(max(reported.wall_s, first.wall_s), now.wall_s))


def start_at_target(state: State, job: Job, planner: str | None = None) -> None:
    """Start a job that was stopped for a migration at its target, if that is possible.

    `planner` asked for the migration. While the target is not read, as after a restart, the job
    stands aside, and its reservation stays: `start_when_read` and the end of its pause follow.
    """
    if job.target is None or not job.state.waiting:
        return
    refusal = check_placement(state, job, job.target) if job.pause is None else _PAUSED
    if refusal is None:
        _start_there(state, job, job.target, planner)
    elif refusal.rule == "reading":
        wait = pause(state, job, _READ_S, "for the GPU where it goes on to be read")
        state.put_job(replace(job, pause=wait))
    else:
        drop_target(state, job)


def start_when_read(state: State, job: Job) -> None:
    """Start a migrating job that waits for readings of its target, if that is possible now."""
    if job.target is None or job.pause is None or job.held or not job.state.waiting:
        return
    if check_placement(state, job, job.target) is None:
        _start_there(state, job, job.target)


def _start_there(state: State, job: Job, target: Placement, planner: str | None = None) -> None:
    start(state, state.put_job(replace(job, moves=job.moves + 1)), target, planner)


# ------------------------------------------------------------------ a server that cannot start jobs


def launches_fail(state: State, reason: str) -> None:
    """Pause all launches: the server cannot start jobs now (its disk is full, for example)."""
    now_s = state.step.now.boot_s
    state.launch_error = reason
    # Launches that were under way at the same time fail together, and count as one failure.
    if state.launches.pausing(_LAUNCH, now_s) is None:
        until_s = state.launches.fail(_LAUNCH, now_s, reason).until_s
        state.launch_again_s = until_s
        state.wake(Timer(until_s, LAUNCH_AGAIN))
        state.wake(Timer(until_s, ALL_PLANNERS))


def launches_work(state: State) -> None:
    """Reset the pause: a launch has worked."""
    state.launches.forget(_LAUNCH)


def launch_again(state: State, timer: Timer) -> None:
    """End the pause of all launches, unless a later failure made it longer."""
    if timer.boot_s >= state.launch_again_s:
        state.launch_error = None
