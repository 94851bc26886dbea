"""What an end, a stop and a void launch lead to, as tables."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.records import Exit, Job, OutOfMemory, Role
from radrm.core.settings import CoreSettings
from radrm.core.state.state import State
from radrm.core.state.timers import Timer
from radrm.core.words import JobState, Outcome, Queue
from tests.core.ledgers import admit, ledger, reading
from tests.world import GIB, World, gpus

GRACE_S = CoreSettings().grace_s


def end(world: World, job: Job, **how: Any) -> Job:
    serial = world.attempts[job.id, world.jobs[job.id].attempts].serial
    world.step(ev.AttemptEnded(at=world.now, job_id=job.id, serial=serial, **how))
    return world.jobs[job.id]


# ------------------------------------------------------------------ how it ended

OOM = OutOfMemory("test", 100)
ENDS: list[tuple[dict[str, Any], dict[str, Any], JobState, Outcome, int | None, str | None]] = [
    ({}, {"exits": (Exit(0),)}, JobState.COMPLETED, Outcome.COMPLETED, 0, None),
    ({}, {"exits": (Exit(3),)}, JobState.FAILED, Outcome.FAILED, 3, "exit code 3"),
    ({}, {"exits": (Exit(signal=9),)}, JobState.FAILED, Outcome.FAILED, 137, "killed by signal 9"),
    ({}, {"exits": ()}, JobState.FAILED, Outcome.FAILED, None, "exit code None"),
    ({}, {"lost": "gone"}, JobState.FAILED, Outcome.LOST, None, "gone"),
    ({"requeue": True}, {"lost": "gone"}, JobState.PENDING, Outcome.LOST, None, "gone"),
    ({"requeue": True}, {"exits": (Exit(3),)}, JobState.FAILED, Outcome.FAILED, 3, "exit code 3"),
    ({}, {"never_started": "no bash"}, JobState.FAILED, Outcome.FAILED, None, "no bash"),
    ({"retries": 1}, {"exits": (Exit(3),)}, JobState.PENDING, Outcome.FAILED, 3, "exit code 3"),
    ({"retries": 1}, {"never_started": "x"}, JobState.FAILED, Outcome.FAILED, None, "x"),
    ({"retries": 1}, {"lost": "gone"}, JobState.FAILED, Outcome.LOST, None, "gone"),
    ({}, {"exits": (Exit(1),), "oom": OOM}, JobState.RECOVERING, Outcome.OOM, 1, None),
    ({}, {"exits": (Exit(0),), "oom": OOM}, JobState.COMPLETED, Outcome.COMPLETED, 0, None),
    ({}, {"exits": (Exit(0),), "failure": "why"}, JobState.FAILED, Outcome.FAILED, 0, "why"),
    (
        {},
        {"exits": (Exit(3),), "hint": "change it"},
        JobState.FAILED,
        Outcome.FAILED,
        3,
        "exit code 3; change it",
    ),
    ({}, {"exits": (), "oom": OOM, "failure": "x"}, JobState.FAILED, Outcome.FAILED, None, "x"),
]


@pytest.mark.parametrize("spec, how, state, outcome, code, reason", ENDS)
def test_what_an_end_leads_to(
    spec: dict[str, Any],
    how: dict[str, Any],
    state: JobState,
    outcome: Outcome,
    code: int | None,
    reason: str | None,
) -> None:
    world = World(gpus(1))
    job = world.submit(GIB, **spec)
    world.used[job.id] = GIB
    world.pass_time(10.0)
    world.obey = False  # so that nothing starts again at once
    world.boot_s += 1.0
    done = end(world, job, **how)
    attempt = world.attempts[job.id, 1]
    assert done.state is state
    assert (attempt.outcome, attempt.exit_code) == (outcome, code)
    assert outcome is Outcome.OOM or attempt.reason == reason
    assert not world.reservations and not world.scheduler.state.ledgers["GPU-0"].occupants
    assert attempt.peak_mib == GIB and attempt.energy_j is not None, "what it used stays known"
    if state.final:
        assert (done.outcome, done.exit_code, done.reason) == (outcome, code, reason)
        assert done.ended == attempt.ended == world.now


def test_a_program_that_had_the_whole_gpu_is_not_told_to_take_less() -> None:
    world = World(gpus(1))
    job = world.submit(gpus(1)[0].capacity_mib)
    world.obey = False
    end(world, job, exits=(Exit(1),), oom=OutOfMemory("test", fraction="--part"))
    assert world.attempts[job.id, 1].reason == "out of GPU memory"


CODES = [  # of the tasks' main processes; the exit code of the attempt, as a shell gives them
    ((Exit(0), Exit(0)), 0),
    ((Exit(0), Exit(3)), 3),
    ((Exit(7), Exit(3)), 7),
    ((Exit(3), Exit(signal=9)), 137),
    ((Exit(signal=15), Exit(1)), 1),
    ((Exit(), Exit(2)), 2),
    ((Exit(), Exit()), None),
]


@pytest.mark.parametrize("exits, code", CODES)
def test_the_highest_exit_code_of_all_tasks_counts(exits: tuple[Exit, ...], code: int) -> None:
    world = World(gpus(2))
    job = world.submit(GIB, roles=(Role(count_min=2, count_max=2),))
    done = end(world, job, exits=exits)
    assert done.exit_code == world.attempts[job.id, 1].exit_code == code
    assert [task.exit for task in world.attempts[job.id, 1].tasks] == list(exits)
    assert (done.state is JobState.COMPLETED) == (code == 0)


# ------------------------------------------------------------------ a void launch


def passing(world: World, job: Job) -> Job:
    """The launch comes to nothing, for a reason that lies with the server."""
    return end(world, job, never_started="disk full", transient=True)


def test_a_launch_that_was_void_was_no_start() -> None:
    world = World(gpus(1))
    job = world.submit(GIB)
    assert world.jobs[job.id].started is not None, "its processes had existed for a moment"
    world.obey = False
    back = passing(world, job)
    assert (back.state, back.started, back.attempts) == (JobState.PENDING, None, 0)


def test_a_void_launch_leaves_the_start_before_it() -> None:
    world = World(gpus(1))
    first = world.now
    job = world.submit(GIB, retries=3)
    world.pass_time(10.0)
    world.end(job, 3)
    world.pass_time(10.0)  # the first retry's pause
    assert world.jobs[job.id].attempts == 2
    world.obey = False
    back = passing(world, job)
    assert (back.state, back.started, back.attempts) == (JobState.PENDING, first, 1)


def test_a_void_launch_of_one_that_was_cancelled_is_its_end() -> None:
    world = World(gpus(1))
    world.obey = False
    job = world.submit(GIB)
    world.cancel(job)
    world.step(ev.LaunchVoided(at=world.now, job_id=job.id, serial=1))
    assert world.jobs[job.id].state is JobState.CANCELLED


def test_a_void_launch_after_a_death_goes_back_to_recovery() -> None:
    world = World(gpus(1))
    job = world.submit(GIB)
    end(world, job, exits=(Exit(1),), oom=OOM)
    world.obey = False
    assert world.state(job) is JobState.RUNNING
    back = passing(world, job)
    assert (back.state, back.queue, back.oom_count) == (JobState.RECOVERING, Queue.RECOVERY, 1)


def test_files_that_cannot_be_reached_keep_their_users_job_alone() -> None:
    world = World(gpus(1))
    job = world.submit(GIB)
    end(world, job, never_started="no such home", excuse="no such home")
    assert [world.jobs[job.id].state] == [JobState.RUNNING], "at once, the first time"
    back = end(world, job, never_started="no such home", excuse="no such home")
    assert (back.state, back.attempts, back.retries_used) == (JobState.PENDING, 0, 0)
    assert world.state(world.submit(GIB)) is JobState.RUNNING, "others start"
    world.pass_time(600.0)
    assert world.state(job) is JobState.RUNNING


# ------------------------------------------------------------------ TERM, then KILL again and again


def test_who_does_not_die_is_killed_again_and_again() -> None:
    world = World(gpus(1))
    job = world.submit(GIB)
    world.obey = False
    world.cancel(job)
    world.pass_time(GRACE_S - 0.1)
    for kills in range(1, 5):
        assert sum(isinstance(a, act.Kill) for a in world.actions) == kills - 1
        world.pass_time(GRACE_S)
        assert sum(isinstance(a, act.Kill) for a in world.actions) == kills
        wake_at = world.decisions[-1].wake_at
        assert wake_at == world.boot_s + GRACE_S
    assert sum(isinstance(a, act.Terminate) for a in world.actions) == 1
    end(world, job, exits=(Exit(signal=9),))
    world.pass_time(10 * GRACE_S)
    assert sum(isinstance(a, act.Kill) for a in world.actions) == 4, "it is over"


# ------------------------------------------------------------------ timers


def test_pruning_leaves_the_timers_of_rules_and_of_those_that_live() -> None:
    world = World(gpus(1))
    job = world.submit(GIB, time_limit_s=9000.0)
    state: State = world.scheduler.state
    wanted = {Timer(9000.0, "planner:slow"), Timer(9001.0, "launch again")}
    for timer in wanted:
        state.wake(timer)
    for number in range(2000):
        state.wake(Timer(9002.0 + number, "time limit", 77, 1))  # ended long ago
    world.read()
    due = state.timers.take_due(1e9)
    assert wanted <= set(due)
    assert Timer(world.boot_s + 9000.0, "time limit", job.id, 1) in due
    assert len(due) < 1000, "the others are gone"


# ------------------------------------------------------------------ settled, and warm


def test_one_that_grows_has_not_settled() -> None:
    led = ledger(settle_s=100.0)
    admit(led, 1, 30_000)
    occupant = led.occupants[1]
    seen = [(1001.0, 5000), (1090.0, 9000), (1105.0, 9000), (1189.0, 9000), (1190.0, 9000)]
    settled = []
    for boot_s, mib in seen:
        led.take(reading(boot_s, used=mib, held={1: mib}))
        settled.append(occupant.settled)
    assert settled == [False, False, False, False, True], "100 s after it has grown, not come"
    assert led.corrected(occupant).mib == 9000 + 1024
    led.take(reading(1191.0, used=9000 + 64, held={1: 9000 + 64}))
    assert occupant.settled, "a little more is no growth"
    led.take(reading(1192.0, used=12_000, held={1: 12_000}))
    assert not occupant.settled and led.corrected(occupant) is None
    led.take(reading(1292.0, used=12_000, held={1: 12_000}))
    assert occupant.settled


@pytest.mark.parametrize("used_mib", [0, None])
def test_one_that_was_never_seen_to_use_anything_does_not_settle(used_mib: int | None) -> None:
    led = ledger(settle_s=100.0)
    admit(led, 1, 30_000)
    admit(led, 2, 1_000)
    led.take(reading(1500.0, used=0, held={1: used_mib, 2: used_mib}))
    assert not led.occupants[1].settled and led.corrected(led.occupants[1]) is None


def test_after_an_exit_the_load_is_measured_anew_for_a_while() -> None:
    led = ledger()  # 2 s after one has come, 1 s after one has gone
    admit(led, 1, 1000, smact=0.2)
    admit(led, 2, 1000, smact=0.5)
    for boot_s in (1003.0, 1004.0):
        led.take(reading(boot_s, used=0, smact=0.9))
    led.release(2, 1010.0)
    led.take(reading(1010.0, used=0, smact=0.1))
    led.take(reading(1010.9, used=0, smact=0.1))
    assert led.smact == 0.9, "what both did together still"
    led.take(reading(1011.0, used=0, smact=0.1))
    assert led.smact == pytest.approx(0.1)


def test_an_exit_does_not_shorten_the_start_up_of_another() -> None:
    led = ledger()
    admit(led, 1, 1000, smact=0.2)
    led.take(reading(1003.0, used=0, smact=0.2))
    admit(led, 2, 1000, smact=0.5)
    led.occupants[2].since_s = 1010.0  # it has just come
    led.release(1, 1010.5)
    led.take(reading(1011.6, used=0, smact=0.0))
    assert led.smact == pytest.approx(0.7), "1 s after the exit: it starts up still"
    led.take(reading(1012.0, used=0, smact=0.0))
    assert led.smact == 0.0
