"""The store: what a step changed is there again for the next daemon."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from radrm.core import events as ev
from radrm.core.records import DeviceStatus, Instant, Job, JobSpec, OutOfMemory, RuleState
from radrm.core.scheduler import Scheduler
from radrm.core.words import JobState
from radrm.errors import StoreError
from radrm.host.store import Intake, Store
from tests.host.test_spool import envelope
from tests.world import World, gpus


def intake_of(job: Job, **changes: object) -> Intake:
    return Intake(
        job_id=job.id, uid=1000, gid=1000, envelope=envelope(ticket=job.ticket, **changes)
    )


def saved_world(store: Store) -> World:
    """A world whose every decision has gone through the store."""
    world = World(gpus(2))
    first = world.submit(30_000, smact=0.4, checkpoint=replace(JobSpec("", "", 0).checkpoint))
    world.submit(30_000, gpus=2)
    world.end(first, 1, oom=OutOfMemory("test", 2000))
    world.step(ev.DrainRequested(at=world.now, device="GPU-1", reason="fan"))
    intakes = [intake_of(job) for job in world.jobs.values()]
    store.save(world.decisions, intakes)
    return world


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "radrm.sqlite")


def test_what_was_saved_is_kept(path: str) -> None:
    store = Store(path)
    world = saved_world(store)
    store.close()
    kept = Store(path).kept()
    state = world.scheduler.state
    assert list(kept.jobs) == [state.jobs[i] for i in sorted(state.jobs)]
    assert list(kept.attempts) == list(state.attempts.values())
    assert {(r.owner, r.device): r for r in kept.reservations} == world.reservations
    assert list(kept.devices) == [DeviceStatus("GPU-1", "fan")]
    assert list(kept.rule_states) == list(world.rule_states.values())
    assert kept.next_serial == state.next_serial


def test_a_new_scheduler_goes_on_from_it(path: str) -> None:
    store = Store(path)
    world = saved_world(store)
    again = Scheduler(world.rules, world.settings)
    again.restore(store.kept())
    again.step(ev.DevicesSeen(at=world.now, devices=world.devices))
    assert again.state.jobs == world.scheduler.state.jobs
    assert again.state.ledgers["GPU-1"].drained == "fan"


def test_a_submission_comes_back_whole_and_environments_are_shared(path: str) -> None:
    store = Store(path)
    world = World(gpus(1))
    jobs = [world.submit(1000) for _ in range(3)]
    sent = [intake_of(job, environment={"A": "\udcff"}) for job in jobs]
    store.save(world.decisions, sent)
    assert [store.intake(job.id) for job in jobs] == sent
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM blobs").fetchone() == (1,)
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_jobs_are_found_by_id_and_ticket(path: str) -> None:
    store = Store(path)
    world = World(gpus(1))
    job = world.submit(1000)
    renamed = replace(job, ticket="01ARZ3NDEKTSV4RRFFQ69G5FAV")
    store.save([replace(world.decisions[-2], changed=(renamed,))], [intake_of(renamed)])
    for reference in ("1", renamed.ticket, renamed.ticket.lower()):
        assert store.job(reference) == renamed
    for reference in ("2", "", "-1", "x", "9" * 30, "\u0661", "01ARZ3NDEKTSV4RRFFQ69G5FAX"):
        assert store.job(reference) is None
    assert store.knows_ticket(renamed.ticket)
    assert store.next_job_id() == 2


def test_ids_go_on_after_a_restart_and_finished_jobs_stay(path: str) -> None:
    store = Store(path)
    assert store.next_job_id() == 1
    world = World(gpus(1))
    job = world.submit(1000)
    world.end(job)
    store.save(world.decisions, [intake_of(job)])
    store.close()
    store = Store(path)
    assert store.next_job_id() == 2
    assert [j.state for j in store.finished(10)] == [JobState.COMPLETED]
    assert list(store.kept().jobs) == []
    assert [a.exit_code for a in store.attempts(job.id)] == [0]


def test_a_void_launch_is_not_an_attempt(path: str) -> None:
    store = Store(path)
    world = World(gpus(1))
    world.obey = False
    job = world.submit(1000)
    world.step(ev.LaunchVoided(at=world.now, job_id=job.id, attempt=1))
    world.read()
    store.save(world.decisions, [intake_of(job)])
    assert [a.serial for a in store.attempts(job.id)] == [2]


def test_a_batch_is_all_or_nothing(path: str) -> None:
    store = Store(path)
    world = World(gpus(1))
    job, _ = world.submit(1000), world.submit(1000)
    with pytest.raises(StoreError, match="job 2 was never taken in"):
        store.save(world.decisions, [intake_of(job)])
    assert list(store.kept().jobs) == []


@pytest.mark.parametrize(
    "content", [b"this is no database " * 100, b"SQLite format 3\0" + b"x" * 99]
)
def test_a_store_that_cannot_be_read_is_left_as_it_is(path: str, content: bytes) -> None:
    Path(path).write_bytes(content)
    with pytest.raises(StoreError, match="left as it is"):
        Store(path)
    assert Path(path).read_bytes() == content


def test_a_store_of_another_version_is_left_alone(path: str) -> None:
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="version 99"):
        Store(path)


def test_rule_states_may_hold_any_json(path: str) -> None:
    store = Store(path)
    value = {"lists": {"1": ["new", 0.5]}, "due": None, "deep": [1, [2, {"x": True}]]}
    record = RuleState("planner", "x", 3, value, 12.5)
    decision = World(gpus(1)).decisions[0]
    store.save([replace(decision, changed=(record,))])
    assert list(store.kept().rule_states) == [record]


def test_nothing_is_written_for_nothing(path: str) -> None:
    store = Store(path)
    world = World(gpus(1))
    before = store._db.total_changes
    store.save([world.step(ev.Tick(at=Instant(1e6, 1e6)))])
    assert store._db.total_changes == before
