"""Volatile records: what is lost without harm is marked so, and nothing else is."""

from __future__ import annotations

import pytest

from radrm.core import events as ev
from radrm.core.decision import Decision
from radrm.core.proposals import Cancel
from radrm.core.records import Attempt, Job, Refusal, Reservation, RuleState
from radrm.core.rules import Plan
from radrm.core.settings import CoreSettings
from radrm.core.view import View
from tests.world import GIB, World, default_planner, gpus


def running(world: World, used_mib: int = 2 * GIB) -> Job:
    job = world.submit(8 * GIB, smact=0.1)
    world.used[job.id] = used_mib
    world.pass_time(1.0)
    return world.jobs[job.id]


def reports(world: World, job: Job, step: float) -> Decision:
    world.report(job, step=step)
    return world.decisions[-1]


def test_a_report_of_progress_is_volatile_and_changes_no_table_of_jobs() -> None:
    world = World(gpus(1))
    job = running(world)
    before = world.scheduler.snapshot.jobs_version
    first = reports(world, job, 6)
    assert first.changed == () and len(first.volatile) == 2, "the attempt keeps its first report"
    decision = reports(world, job, 7)
    assert (decision.changed, decision.dropped) == ((), ())
    (record,) = decision.volatile
    assert isinstance(record, Job) and record.progress is not None and record.progress.step == 7
    assert world.scheduler.snapshot.job(job.id) is record, "questions see the newest"
    assert world.scheduler.snapshot.jobs_version == before


def test_growing_memory_is_volatile() -> None:
    world = World(gpus(1))
    job = running(world)
    world.used[job.id] += GIB
    world.boot_s += 1.0
    decision = world.read()
    (record,) = decision.volatile
    assert isinstance(record, Attempt) and record.peak_mib == 3 * GIB
    assert decision.changed == ()


def test_a_smaller_reservation_is_durable() -> None:
    """The memory that it frees is given to others at once."""
    world = World(gpus(1))
    job = running(world)
    for _ in range(1000):
        world.pass_time(1.0)
        shrunk = [r for d in world.decisions[-2:] for r in d.changed if isinstance(r, Reservation)]
        if shrunk:
            break
    (reservation,) = shrunk
    assert reservation.job_id == job.id and (reservation.mib or 0) < 8 * GIB


def test_no_record_is_both_and_the_durable_one_has_the_newest_figures() -> None:
    world = World(gpus(1))
    job = running(world)
    reports(world, job, 1)
    ended = world.end(job)
    assert ended.progress.step == 1
    for decision in world.decisions:
        names = [_name(r) for r in (*decision.changed, *decision.volatile)]
        assert len(set(names)) == len(names)
    last = next(d for d in reversed(world.decisions) if ended in d.changed)
    assert any(isinstance(r, Attempt) and r.ended for r in last.changed)
    assert not last.volatile


def test_a_record_that_is_changed_in_both_ways_is_durable_and_whole() -> None:
    """The readings have figures, and a planner that hears of them stops the job."""
    core = CoreSettings(smact_warm_s=0, smact_after_exit_s=0)
    world = World(gpus(2), planners=(default_planner(), Ending(1060.0)), settings=core)
    world.obey = False
    job = world.submit(8 * GIB, gpus=2)
    world.step(ev.AttemptStarted(at=world.now, job_id=job.id, serial=1))
    world.boot_s = 1060.0
    decision = world.read()
    assert not decision.volatile
    (attempt,) = [r for r in decision.changed if isinstance(r, Attempt)]
    assert attempt.stop is not None and set(attempt.used) == {"GPU-0", "GPU-1"}


class Ending:
    """Cancels all running jobs from a time on."""

    name, version, listens = "ending", 1, frozenset({ev.ReadingsTaken})
    starts_jobs = False

    def __init__(self, from_s: float) -> None:
        self.from_s = from_s

    def plan(self, view: View, event: ev.Event, state: object) -> Plan:
        due = [job for job, _ in view.running() if view.now.boot_s >= self.from_s]
        return Plan([Cancel(job_id=job.id, reason="its time is over") for job in due])

    def explain(self, view: View, job: Job) -> tuple[Refusal, ...]:
        return ()


def _name(record: object) -> tuple[str, object]:
    keys = {Job: "id", Attempt: "serial", RuleState: "name"}
    key = keys.get(type(record))
    return type(record).__name__, getattr(record, key) if key else record


class Clockwork:
    """Asks for a wake-up `every` seconds from now; its memory is `memory`."""

    name, version, listens = "clockwork", 1, frozenset({ev.Tick})

    def __init__(self) -> None:
        self.every: float | None = 10.0
        self.memory: object = None

    def plan(self, view: View, event: ev.Event, state: object) -> Plan:
        wake_at = None if self.every is None else view.now.boot_s + self.every
        return Plan((), state=self.memory, wake_at=wake_at)

    def explain(self, view: View, job: Job) -> tuple[()]:
        return ()


@pytest.mark.parametrize("memory", [None, {"n": 1}])
def test_only_a_later_wake_up_is_volatile(memory: object) -> None:
    rule = Clockwork()
    rule.memory = memory
    world = World(gpus(1), planners=(default_planner(), rule))

    def tick() -> tuple[int, int]:
        world.boot_s += 1.0
        decision = world.step(ev.Tick(at=world.now))
        changed, volatile = (
            [r for r in found if isinstance(r, RuleState) and r.name == rule.name]
            for found in (decision.changed, decision.volatile)
        )
        return len(changed), len(volatile)

    assert tick() == (1, 0), "a restart must know that it asked"
    assert tick() == (0, 1)
    rule.memory = {"n": 2}
    assert tick() == (1, 0), "its memory is its own"
    rule.every = None
    assert tick() == (0, 1), "a call too early does no harm"
    rule.every = 10.0
    assert tick() == (1, 0)
