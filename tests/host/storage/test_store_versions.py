"""Stores of earlier and later versions: each is converted or left as it is."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from radrm.core import events as ev
from radrm.errors import StoreError
from radrm.host.storage.store import Store
from tests.host.storage.stores import submission_of, sweep
from tests.world import World, gpus


def test_a_store_of_version_4_is_taken_over(path: str) -> None:
    store = Store(path)
    ids = sweep(store, 300)
    options = {"env": ["A=é\udcff", "B=" + "x" * 20_000]}
    store.save([], edits=[(job_id, options) for job_id in ids])
    store.save([], edits=[(ids[0], {"time": "90"})])
    before = store.kept()
    store.close()
    with sqlite3.connect(path) as db:
        db.executescript(
            "DROP TABLE energy; DROP INDEX jobs_edited;"
            "UPDATE jobs SET edits = (SELECT options FROM edits WHERE digest = edits);"
            "DROP TABLE edits; ALTER TABLE submissions DROP COLUMN job_file;"
            "PRAGMA user_version = 4;"
        )
    with sqlite3.connect(path) as db:
        query = "SELECT count(*) FROM jobs WHERE json_valid(edits)"
        assert db.execute(query).fetchone() == (300,), "every element had its own"
    store = Store(path)
    assert store.kept() == before
    assert store.submissions.of_job(ids[0]).edits == {"time": "90"}
    assert all(store.submissions.of_job(job_id).edits == options for job_id in ids[1:])
    assert store.submissions.of_job(ids[0]).job_file().raw == {"time": "90"}
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM edits").fetchone() == (2,)


def test_a_store_of_version_1_is_taken_over(path: str) -> None:
    store = Store(path)
    world = World(gpus(1))
    first, second = world.submit(1000), world.submit(1000)
    world.end(first)
    sent = [submission_of(j) for j in (first, second)]
    store.save(world.decisions, sent)
    before = store.kept()
    store.close()
    with sqlite3.connect(path) as db:
        db.executescript(
            """
            DROP TABLE energy; PRAGMA foreign_keys = OFF; PRAGMA legacy_alter_table = ON;
            ALTER TABLE jobs RENAME TO new_jobs;
            CREATE TABLE jobs (
                id INTEGER PRIMARY KEY AUTOINCREMENT, ticket TEXT NOT NULL UNIQUE,
                uid INTEGER NOT NULL, gid INTEGER NOT NULL, final INTEGER NOT NULL,
                record TEXT NOT NULL, envelope TEXT NOT NULL,
                environment TEXT NOT NULL REFERENCES blobs (digest)
            );
            INSERT INTO jobs SELECT id, ticket, uid, gid, final, record, envelope, environment
                FROM new_jobs JOIN submissions USING (ticket);
            DROP TABLE new_jobs; DROP TABLE submissions; DROP TABLE runs; DROP TABLE edits;
            CREATE INDEX jobs_unfinished ON jobs (id) WHERE NOT final;
            INSERT INTO jobs SELECT 9, "X", uid, gid, 1, record, envelope, environment
                FROM jobs WHERE id = 1;
            DELETE FROM jobs WHERE id = 9;
            PRAGMA user_version = 1;
            """
        )
    store = Store(path)
    assert store.kept() == before
    assert [store.submissions.of_job(j.id) for j in (first, second)] == sent
    assert store.next_job_id() == 10, "ids are never given twice"
    assert [a.exit_code for a in store.attempts(first.id)] == [0]
    store.close()
    Store(path).close()


def test_a_store_of_version_2_is_taken_over(path: str) -> None:
    store = Store(path)
    world = World(gpus(1))
    jobs = [world.submit(1000), world.submit(1000)]
    store.save(world.decisions, [submission_of(j) for j in jobs])
    before = store.kept()
    store.close()
    with sqlite3.connect(path) as db:
        db.executescript(
            "DROP TABLE energy; DROP TABLE runs; DROP TABLE edits; DROP INDEX array_states; "
            "DROP INDEX jobs_edited; ALTER TABLE jobs DROP COLUMN state; "
            "ALTER TABLE submissions DROP COLUMN job_file; PRAGMA user_version = 2;"
        )
    store = Store(path)
    assert store.kept() == before and store.next_job_id() == 3
    store.save([world.step(ev.CancelRequested(at=world.now, job_id=2, by="ann"))])
    assert store.finished(10) == [2] and store.finished(10, before=2) == []


def test_a_store_of_version_3_is_taken_over(path: str) -> None:
    store = Store(path)
    world = World(gpus(1))
    store.save(world.decisions, [submission_of(world.submit(1000))])
    before = store.kept()
    store.close()
    with sqlite3.connect(path) as db:
        db.executescript(
            "DROP TABLE energy; DROP TABLE runs; DROP TABLE edits; DROP INDEX jobs_edited; "
            "ALTER TABLE submissions DROP COLUMN job_file; PRAGMA user_version = 3;"
        )
    store = Store(path)
    assert store.kept() == before
    assert store.runs.recent(None, 10) == ()


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


def test_a_store_of_version_6_is_taken_over(path: str) -> None:
    store = Store(path)
    world = World(gpus(2))
    store.save(world.decisions, [submission_of(world.submit(1000))])
    before = store.kept()
    store.close()
    with sqlite3.connect(path) as db:
        db.executescript(
            """
            DROP TABLE energy;
            CREATE TABLE old (owner TEXT NOT NULL, device TEXT NOT NULL, record TEXT NOT NULL,
                PRIMARY KEY (owner, device));
            INSERT INTO old SELECT owner, device, json_remove(record, '$.planner')
                FROM reservations;
            DROP TABLE reservations; ALTER TABLE old RENAME TO reservations;
            PRAGMA user_version = 6;
            """
        )
    store = Store(path)
    assert store.kept() == before and len(list(before.reservations)) == 1
    world.end(1)
    store.save(world.decisions)
    assert store.kept().reservations == []


def test_a_store_of_version_7_is_taken_over(path: str) -> None:
    store = Store(path)
    world = World(gpus(1))
    store.save(world.decisions, [submission_of(world.submit(1000))])
    before = store.kept()
    store.close()
    with sqlite3.connect(path) as db:
        db.executescript("DROP TABLE energy; PRAGMA user_version = 7;")
    store = Store(path)
    assert store.kept() == before
    assert store.energy.first_hour_s() is None
    mark = len(world.decisions)
    world.pass_time(30.0)
    store.save(world.decisions[mark:])
    store.save_volatile()
    rows = store.energy.sums(0, 2**40, "user")
    assert {row.user: row.joules for row in rows} == {"ann": 30 * 100.0, None: 0.0}


def test_a_store_of_version_11_is_taken_over(path: str) -> None:
    Store(path).close()
    with sqlite3.connect(path) as db:
        db.executescript("DROP INDEX outer_jobs_of_job; PRAGMA user_version = 11;")
    Store(path).close()
    with sqlite3.connect(path) as db:
        plan = str(
            db.execute("EXPLAIN QUERY PLAN DELETE FROM outer_jobs WHERE job_id = 1").fetchall()
        )
    assert "outer_jobs_of_job" in plan
