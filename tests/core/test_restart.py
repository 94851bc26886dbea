"""What happened while nobody looked: ends come first and have their own time; then limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.decision import Decision
from radrm.core.proposals import Preempt
from radrm.core.records import (
    Attempt,
    Dependency,
    Device,
    EarlySignal,
    Exit,
    Instant,
    Job,
    Refusal,
)
from radrm.core.rules import Plan
from radrm.core.scheduler import Scheduler
from radrm.core.settings import CoreSettings
from radrm.core.state.ledger import DeviceLedger
from radrm.core.view import View
from radrm.core.words import Condition, DeviceKind, JobState, Outcome
from tests.core.ledgers import admit, ledger, reading
from tests.world import EPOCH_S, GIB, World, default_planner, gpus

BEGIN_S = 1000.0  # when the simulated world begins
QUICK = CoreSettings(smact_warm_s=0, smact_after_exit_s=0)


def at(boot_s: float, boot: str | None = None, wall_s: float | None = None) -> Instant:
    return Instant(boot_s, EPOCH_S + boot_s if wall_s is None else wall_s, boot)


def ended(world: World, job: Job, happened: Instant | None, code: int = 0) -> ev.AttemptEnded:
    """That an attempt has ended by itself, at that time, as the host tells it now."""
    serial = world.attempts[job.id, world.jobs[job.id].attempts].serial
    return ev.AttemptEnded(
        at=world.now, job_id=job.id, serial=serial, happened=happened, exits=(Exit(code),)
    )


def did(world: World, kind: type[act.Action]) -> list[act.Action]:
    return [action for action in world.actions if isinstance(action, kind)]


# ------------------------------------------------------------------ after a restart


def test_one_that_ended_by_itself_did_not_run_out_of_time() -> None:
    world = World(gpus(2))
    job = world.submit(GIB, time_limit_s=60.0)
    follower = world.submit(GIB, after=[Dependency(job.id, Condition.OK)])
    world.boot_s += 4000.0
    world.restart(ended(world, job, at(BEGIN_S + 100.0)))
    done = world.jobs[job.id]
    assert (done.state, done.outcome, done.exit_code) == (
        JobState.COMPLETED,
        Outcome.COMPLETED,
        0,
    )
    assert done.ended == at(BEGIN_S + 100.0), "by its exit record, not by who read it"
    assert world.attempts[job.id, 1].ran_s == 100.0
    assert world.state(follower) is JobState.RUNNING
    assert not did(world, act.Terminate)


def test_one_that_still_runs_is_out_of_time_at_once() -> None:
    world = World(gpus(1))
    job = world.submit(GIB, time_limit_s=60.0)
    world.boot_s += 4000.0
    world.restart()
    assert len(did(world, act.Terminate)) == 1
    assert world.jobs[job.id].state is JobState.TIMEOUT


@pytest.mark.parametrize("runs, signals", [(True, 1), (False, 0)])
def test_a_signal_before_the_limit_is_for_those_that_run(runs: bool, signals: int) -> None:
    world = World(gpus(1))
    job = world.submit(GIB, time_limit_s=600.0, signal=EarlySignal(10, 100.0))
    world.boot_s += 550.0
    world.restart(*([] if runs else [ended(world, job, at(BEGIN_S + 200.0))]))
    assert len(did(world, act.SendSignal)) == signals
    assert world.state(job) is (JobState.RUNNING if runs else JobState.COMPLETED)


@pytest.mark.parametrize("runs, kills", [(True, 1), (False, 0)])
def test_a_stop_goes_on_for_those_that_run(runs: bool, kills: int) -> None:
    world = World(gpus(1))
    job = world.submit(GIB)
    world.obey = False
    world.cancel(job)
    world.boot_s += 500.0
    world.restart(*([] if runs else [ended(world, job, at(BEGIN_S + 5.0))]))
    assert len(did(world, act.Kill)) == kills
    assert world.state(job) is (JobState.STOPPING if runs else JobState.CANCELLED)


def test_no_timer_is_set_before_all_attempts_are_adopted() -> None:
    """They come from the records; a time of an earlier boot must not run before."""
    world = World(gpus(2))
    world.obey = False
    limited = world.submit(GIB, time_limit_s=60.0)
    world.step(ev.AttemptStarted(at=world.now, job_id=limited.id, serial=1))
    cancelled = world.submit(GIB)
    world.cancel(cancelled)
    world.boot_s += 4000.0
    again = Scheduler(world.rules, world.settings)
    restored = again.step(ev.Restored(at=world.now, kept=world.kept()))
    assert restored == Decision((), (), (), None, ()), "all of it is in the store"
    seen = again.step(ev.DevicesSeen(at=world.now, devices=world.devices))
    asked = again.step(ev.CancelRequested(at=world.now, job_id=limited.id, by="ann"))
    assert (seen.actions, [type(a) for a in asked.actions]) == ((), [act.Terminate])
    adopted = again.step(ev.AttemptsAdopted(at=world.now))
    assert adopted.actions == (act.Kill(job_id=cancelled.id, serial=2),), "its grace is over"
    later = world.now.boot_s + world.settings.grace_s
    assert adopted.wake_at == later
    due = again.step(ev.Tick(at=at(later)))
    assert Counter(due.actions) == {
        act.Kill(job_id=limited.id, serial=1): 1,
        act.Kill(job_id=cancelled.id, serial=2): 1,
    }


@dataclass(frozen=True, slots=True)
class Witness:
    """A planner that wants to be called in a minute, and notes what it is called for."""

    heard: list[tuple[str, int]] = field(default_factory=list)
    name: str = "witness"
    version: int = 1
    starts_jobs: bool = False
    listens: frozenset[type[ev.Event]] = frozenset({ev.DevicesSeen, ev.AttemptEnded})

    def plan(self, view: View, event: ev.Event, state: Any) -> Plan:
        self.heard.append((type(event).__name__, sum(1 for _ in view.running())))
        return Plan(wake_at=view.now.boot_s + 60.0)

    def explain(self, view: View, job: Job) -> Sequence[Refusal]:
        return ()


def test_planners_are_asked_once_the_ends_are_known() -> None:
    witness = Witness()
    world = World(gpus(1), planners=(default_planner(), witness))
    job = world.submit(GIB)
    world.boot_s += 500.0
    witness.heard.clear()
    world.restart(ended(world, job, at(BEGIN_S + 5.0)))
    assert [kind for kind, _ in witness.heard] == ["DevicesSeen", "AttemptEnded", "AttemptsAdopted"]
    assert {running for _, running in witness.heard} == {0}, "nobody is taken to run any more"


def test_the_device_of_one_that_ended_is_free_as_of_then() -> None:
    world = World(gpus(1), settings=CoreSettings(smact_warm_s=60.0, smact_after_exit_s=10.0))
    job, other = world.submit(GIB, smact=0.3), world.submit(GIB, smact=0.3)
    world.boot_s += 500.0
    world.obey = False
    world.restart(ended(world, job, at(BEGIN_S + 100.0)))
    led = world.scheduler.state.ledgers["GPU-0"]
    assert set(led.occupants) == {other.id}
    assert led.smact == 0.3, "the first reading tells of the other alone: the exit is long ago"


# ------------------------------------------------------------------ a stop that came too late

LATE = [
    ("timeout", JobState.COMPLETED, Outcome.COMPLETED),
    ("preempted", JobState.COMPLETED, Outcome.COMPLETED),
    ("lost", JobState.COMPLETED, Outcome.COMPLETED),
    ("cancelled", JobState.CANCELLED, Outcome.CANCELLED),
]


def stopping(reason: str) -> tuple[World, Job]:
    """A job that is being stopped at BEGIN_S + 100; nothing has become of that yet."""
    mig = {"kind": DeviceKind.MIG, "profile": "1g.5gb"} if reason == "lost" else {}
    world = World(gpus(1, **mig))
    job = world.submit(
        GIB,
        time_limit_s=100.0 if reason == "timeout" else None,
        requeue=reason == "preempted",
    )
    world.obey = False
    world.boot_s += 100.0
    if reason == "timeout":
        world.step(ev.Tick(at=world.now))
    elif reason == "preempted":
        proposals = (Preempt(job_id=job.id),)
        version = world.scheduler.state.version
        world.step(ev.PlanReady(at=world.now, planner="test", version=version, proposals=proposals))
    elif reason == "lost":
        world.step(ev.DevicesSeen(at=world.now, devices=()))
    else:
        world.cancel(job)
    assert world.state(job) is JobState.STOPPING
    return world, job


@pytest.mark.parametrize("reason, state, outcome", LATE)
def test_who_had_ended_before_a_stop_was_not_stopped(
    reason: str, state: JobState, outcome: Outcome
) -> None:
    world, job = stopping(reason)
    world.step(ended(world, job, at(BEGIN_S + 99.9)))
    done = world.jobs[job.id]
    assert (done.state, done.outcome, done.exit_code) == (state, outcome, 0)
    assert (done.reason is None) == (state is JobState.COMPLETED)


@pytest.mark.parametrize("happened_s", [100.0, 100.1, None])
@pytest.mark.parametrize(
    "reason, state",
    [
        ("timeout", JobState.TIMEOUT),
        ("preempted", JobState.PENDING),
        ("lost", JobState.FAILED),
        ("cancelled", JobState.CANCELLED),
    ],
)
def test_whoever_ends_after_a_stop_was_stopped(
    reason: str, state: JobState, happened_s: float | None
) -> None:
    world, job = stopping(reason)
    world.boot_s += 1.0
    world.step(ended(world, job, None if happened_s is None else at(BEGIN_S + happened_s)))
    assert world.state(job) is state


def test_a_failure_before_the_limit_is_tried_again_as_any() -> None:
    world = World(gpus(1))
    job = world.submit(GIB, time_limit_s=100.0, retries=1)
    world.obey = False
    world.pass_time(100.0)
    assert world.state(job) is JobState.STOPPING
    world.step(ended(world, job, at(BEGIN_S + 50.0), code=3))
    assert world.jobs[job.id].retries_used == 1
    assert world.attempts[job.id, 1].outcome is Outcome.FAILED


# ------------------------------------------------------------------ when it happened

LAUNCHED = at(1000.0, "b")
NOW = at(2000.0, "b")
MOMENTS = [
    (None, NOW),
    (at(1500.0, "b"), at(1500.0, "b")),
    (at(1500.0, "b", wall_s=7.0), at(1500.0, "b", wall_s=7.0)),  # whatever the clock was set to
    (at(900.0, "b"), LAUNCHED),
    (at(2000.1, "b"), NOW),
    (at(9.0, "other", EPOCH_S + 1500), at(9.0, "other", EPOCH_S + 1500)),
    (at(9.0, "other", EPOCH_S + 5), at(9.0, "other", EPOCH_S + 1000)),
    (at(9.0, "other", EPOCH_S + 9999), at(9.0, "other", EPOCH_S + 2000)),
]


@pytest.mark.parametrize("told, noted", MOMENTS)
def test_an_end_lies_between_the_start_and_now(told: Instant | None, noted: Instant) -> None:
    world = World(gpus(1))
    world.obey = False
    job = world.submit(GIB)
    start = ev.AttemptStarted(at=NOW, job_id=job.id, serial=1, happened=LAUNCHED)
    attempt = world.attempts[job.id, 1]
    assert attempt.launched == at(BEGIN_S)
    world.step(start)
    assert world.attempts[job.id, 1].started == LAUNCHED
    end = ev.AttemptEnded(at=NOW, job_id=job.id, serial=1, happened=told, exits=(Exit(0),))
    world.step(end)
    assert world.attempts[job.id, 1].ended == world.jobs[job.id].ended == noted


def test_a_time_limit_counts_from_the_start_not_from_when_that_was_heard_of() -> None:
    world = World(gpus(1))
    world.obey = False
    job = world.submit(GIB, time_limit_s=100.0)
    world.boot_s += 50.0
    world.step(ev.AttemptStarted(at=world.now, job_id=job.id, serial=1, happened=at(BEGIN_S + 10)))
    assert world.jobs[job.id].started == at(BEGIN_S + 10)
    world.pass_time(59.0)
    assert world.state(job) is JobState.RUNNING
    world.pass_time(1.0)
    assert world.state(job) is JobState.STOPPING


SINCE = [
    (at(10.0, "a"), at(4.0, "a"), 6.0),
    (at(10.0, "a", wall_s=0.0), at(4.0, "a"), 6.0),  # the date was set back meanwhile
    (at(10.0, "b"), at(4.0, "a"), None),
    (at(10.0), at(4.0), 6.0),
    (at(10.0, "a"), at(4.0), 6.0),  # one of a release that did not note its boot
    (at(10.0, wall_s=EPOCH_S + 3610), at(4.0), None),  # a reboot, or a clock that was set
    (at(100_000.0, wall_s=EPOCH_S + 100_050), at(0.0), 100_000.0),  # clocks drift
]


@pytest.mark.parametrize("later, earlier, seconds", SINCE)
def test_how_long_is_known_within_one_boot(
    later: Instant, earlier: Instant, seconds: float | None
) -> None:
    assert later.since(earlier) == seconds


# ------------------------------------------------------------------ the ledger and ends of before


def test_a_ledger_hears_of_an_exit_later() -> None:
    led = ledger()  # 2 s after one has come, 1 s after one has gone
    admit(led, 1, 1000, smact=0.3)
    admit(led, 2, 1000, smact=0.3)
    led.take(reading(1005.0, used=0, smact=0.5, power_w=100.0))
    led.take(reading(1015.0, used=0, smact=0.5, power_w=100.0))
    assert led.release(1, now_s=1030.0, left_s=1020.0).energy_j == pytest.approx(20 * 50.0)
    assert led.warm_from_s == 1021.0
    led.take(reading(1019.0, used=0, smact=0.2, power_w=100.0))
    assert "not been read since" in (led.unreadable(1020.0) or ""), "read before it had ended"
    led.take(reading(1030.0, used=0, smact=0.2, power_w=100.0))
    assert (led.unreadable(1030.0), led.smact) == (None, 0.2)
    assert led.occupants[2].energy_j == pytest.approx(20 * 50.0 + 10 * 100.0)


def test_a_ledger_gives_nobody_what_it_has_not_seen() -> None:
    led = DeviceLedger(Device("GPU-0", 0, "A100", 40_960), QUICK)
    admit(led, 1, 1000)
    led.take(reading(1500.0, used=0, power_w=100.0))
    assert led.occupants[1].energy_j is None, "of the time before the first reading"
    led.take(reading(1501.0, used=None, error="GPU is lost"))
    led.take(reading(1600.0, used=0, power_w=100.0))
    assert led.occupants[1].energy_j is None, "of the time that it could not be read"
    led.take(reading(1601.0, used=0))
    led.take(reading(1603.0, used=0, power_w=100.0))
    assert led.occupants[1].energy_j == pytest.approx(200.0)
    led.take(reading(1602.0, used=0, power_w=100.0))
    assert led.occupants[1].energy_j == pytest.approx(200.0), "a reading that comes late"


def test_a_restart_does_not_know_when_memory_grew_last() -> None:
    world = World(gpus(1), settings=QUICK)
    job = world.submit(36 * GIB, smact=0.2)
    world.used[job.id] = 8 * GIB
    world.pass_time(QUICK.settle_s - 1)
    attempt: Attempt = world.attempts[job.id, 1]
    assert attempt.peak_mib == 8 * GIB
    world.boot_s += 2.0
    world.restart()
    assert world.reservations["job:1", "GPU-0"].mib == 36 * GIB, "it may have grown just now"
    world.pass_time(QUICK.settle_s)
    assert world.reservations["job:1", "GPU-0"].mib == 9 * GIB
