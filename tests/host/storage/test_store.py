"""The store: what a step changed is there again for the next daemon."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from radrm.core import events as ev
from radrm.core.records import (
    ArrayElement,
    DeviceStatus,
    Instant,
    UserReservation,
)
from radrm.core.scheduler import Scheduler
from radrm.core.words import JobState
from radrm.errors import StoreError
from radrm.host.storage.store import Store, Taken
from radrm.structs import replace
from tests.host.storage.stores import saved_world, submission_of, sweep
from tests.world import World, gpus


def test_what_was_saved_is_kept(path: str) -> None:
    store = Store(path)
    world = saved_world(store)
    store.close()
    kept = Store(path).kept()
    state = world.scheduler.state
    assert list(kept.jobs) == [state.jobs[i] for i in sorted(state.jobs)]
    assert list(kept.attempts) == list(state.attempts.values())
    assert {r.key: r for r in kept.reservations} == world.stored
    assert list(kept.devices) == [DeviceStatus("GPU-1", "fan")]
    assert list(kept.rule_states) == list(world.rule_states.values())
    assert kept.next_serial == state.next_serial


def test_a_new_scheduler_goes_on_from_it(path: str) -> None:
    store = Store(path)
    world = saved_world(store)
    again = Scheduler(world.rules, world.settings)
    again.step(ev.Restored(at=world.now, kept=store.kept()))
    again.step(ev.DevicesSeen(at=world.now, devices=world.devices))
    assert again.state.jobs == world.scheduler.state.jobs
    assert again.state.ledgers["GPU-1"].drained == "fan"


def test_a_submission_comes_back_whole_and_environments_are_shared(path: str) -> None:
    store = Store(path)
    world = World(gpus(1))
    jobs = [world.submit(1000) for _ in range(3)]
    sent = [submission_of(job, environment={"A": "\udcff"}) for job in jobs]
    store.save(world.decisions, sent)
    assert [store.submissions.of_job(job.id) for job in jobs] == sent
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM blobs").fetchone() == (1,)
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_jobs_are_found_by_id_ticket_and_name(path: str) -> None:
    store = Store(path)
    world = World(gpus(1))
    job = world.submit(1000)
    renamed = replace(job, ticket="01ARZ3NDEKTSV4RRFFQ69G5FAV", spec=replace(job.spec, name="net"))
    store.save([replace(world.decisions[-2], changed=(renamed,))], [submission_of(renamed)])
    assert store.job(1) == renamed and store.job(2) is None
    assert store.of_ticket(renamed.ticket) == [renamed.id] and store.of_ticket("X") == []
    assert store.named(renamed.spec.name, None, 10) == [renamed.id]
    assert store.named(renamed.spec.name, 4711, 10) == store.named("n*", None, 10) == []
    assert store.names_before(renamed.id + 1, 10) == [(renamed.id, renamed.spec.name, 1000)]
    assert store.taken(renamed.ticket) == Taken(uid=1000, jobs=1, first_id=1)
    assert store.taken("X") is None
    assert store.next_job_id() == 2


def test_an_arrays_elements_share_one_submission(path: str) -> None:
    store = Store(path)
    world = World(gpus(1))
    job = world.submit(1000)
    elements = [replace(job, id=i, array=ArrayElement(5, i + 2, 2)) for i in (5, 6, 7)]
    submission = submission_of(job)
    decision = world.decisions[-2]
    for element in elements:  # as a long array comes: in several turns
        store.save([replace(decision, changed=(element,))], [submission])
    assert store.of_array(5) == [5, 6, 7] == store.of_ticket(job.ticket)
    assert store.element(5, 8) == 6 and store.element(5, 4) is None
    assert [store.job(i) for i in (5, 6, 7)] == elements
    assert store.taken(job.ticket) == Taken(uid=1000, jobs=3, first_id=5)
    assert store.submissions.of_job(6) == submission


def test_what_is_edited_of_one_job_comes_back_with_its_submission(path: str) -> None:
    store = Store(path)
    world = World(gpus(1))
    job = world.submit(1000)
    sent = submission_of(job, options={"time": "60", "env": ["A=1"]})
    store.save(world.decisions, [sent])
    assert store.submissions.of_job(job.id).edits == {}
    store.save([], edits=[(job.id, {"time": "90", "env": ["A=2"]})])
    edited = store.submissions.of_job(job.id).job_file()
    assert edited.raw == {"time": "90", "env": ["A=2"]} and edited.options.time_s == 90
    assert store.submissions.of_job(job.id).edits == {"time": "90", "env": ["A=2"]}


def bytes_on_disk(path: str) -> int:
    folder = Path(path).parent
    return sum(file.stat().st_size for file in folder.glob(Path(path).name + "*"))


def test_what_is_edited_of_an_array_is_stored_once(path: str) -> None:
    store = Store(path)
    ids = sweep(store, 300)
    before = bytes_on_disk(path)
    for turn in range(5):
        options = {"env": [f"A={turn}", "B=" + "x" * 200_000]}
        for i in range(0, 300, 100):
            store.save([], edits=[(job_id, options) for job_id in ids[i : i + 100]])
    assert bytes_on_disk(path) - before < 8 * 2**20, "the log alone takes half of that"
    store.save([], edits=[(ids[7], {"time": "90"})])
    seventh, eighth = (store.submissions.of_job(i) for i in ids[7:9])
    assert seventh.edits == {"time": "90"} and eighth.edits == options
    assert seventh.job_file().raw == {"time": "90"}
    digests = [store.submissions.edits_digest(i) for i in ids[6:9]]
    assert digests[0] == digests[2] != digests[1]
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM edits").fetchone() == (2,), "no superseded ones"


def test_ids_go_on_after_a_restart_and_finished_jobs_stay(path: str) -> None:
    store = Store(path)
    assert store.next_job_id() == 1
    world = World(gpus(1))
    job = world.submit(1000)
    world.end(job)
    store.save(world.decisions, [submission_of(job)])
    store.close()
    store = Store(path)
    assert store.next_job_id() == 2
    assert store.states(store.finished(10)) == {job.id: JobState.COMPLETED}
    assert list(store.kept().jobs) == []
    assert [a.exit_code for a in store.attempts(job.id)] == [0]


def test_a_void_launch_is_not_an_attempt(path: str) -> None:
    store = Store(path)
    world = World(gpus(1))
    world.obey = False
    job = world.submit(1000)
    world.step(ev.LaunchVoided(at=world.now, job_id=job.id, serial=1))
    world.read()
    store.save(world.decisions, [submission_of(job)])
    assert [a.serial for a in store.attempts(job.id)] == [2]


def test_a_batch_is_all_or_nothing(path: str) -> None:
    store = Store(path)
    world = World(gpus(1))
    job, _ = world.submit(1000), world.submit(1000)
    with pytest.raises(StoreError, match="FOREIGN KEY"):
        store.save(world.decisions, [submission_of(job)])
    assert list(store.kept().jobs) == []


def test_nothing_is_written_for_nothing(path: str) -> None:
    store = Store(path)
    world = World(gpus(1))
    before = store._db.connection.total_changes
    store.save([world.step(ev.Tick(at=Instant(1e6, 1e6)))])
    assert store._db.connection.total_changes == before


def test_reservations_for_users_are_kept_until_they_end(path: str) -> None:
    world = World(gpus(1))
    store = Store(path)
    first, second = (
        UserReservation(0, ("GPU-0",), world.now.wall_s + at_s, world.now.wall_s + at_s + 60.0)
        for at_s in (0.0, 100.0)
    )
    for each in (first, second):
        world.step(ev.ReserveRequested(at=world.now, reservation=each))
    store.save(world.decisions)
    kept = store.kept()
    assert [each.id for each in kept.user_reservations] == [1, 2]
    world.step(ev.UnreserveRequested(at=world.now, reservation_id=2, by="root"))
    store.save(world.decisions[-1:])
    kept = store.kept()
    assert (list(kept.user_reservations), kept.next_reservation) == ([world.for_users[1]], 3)
    (ended,) = store.ended_reservations(5)
    assert (ended.id, ended.why_ended) == (2, "cancelled by root")
    old = replace(world.for_users[1], id=1002)
    store.save([replace(world.decisions[-1], changed=(old,))])
    assert store.ended_reservations(5) == [], "only the latest thousand"
    assert [each.id for each in store.kept().user_reservations] == [1, 1002]


def test_what_has_its_default_is_not_stored(path: str) -> None:
    store = Store(path)
    world = saved_world(store)
    (text,) = store._db.execute("SELECT record FROM jobs WHERE id = 2").fetchone()
    assert store.job(2) == world.jobs[2] and '"held"' not in text and '"used_s"' not in text
