"""The store: what a step changed is there again for the next daemon."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from radrm.core import events as ev
from radrm.core.records import (
    ArrayElement,
    DeviceStatus,
    Instant,
    Job,
    JobSpec,
    OutOfMemory,
    RuleState,
)
from radrm.core.rules import PastRun
from radrm.core.scheduler import Scheduler
from radrm.core.words import JobState
from radrm.errors import StoreError
from radrm.host.storage.store import LOG_RESERVE, Run, Store, Submission, Taken
from tests.host.test_spool import envelope
from tests.world import World, gpus


def submission_of(job: Job, **changes: object) -> Submission:
    return Submission(uid=1000, gid=1000, envelope=envelope(ticket=job.ticket, **changes))


def saved_world(store: Store) -> World:
    """A world whose every decision has gone through the store."""
    world = World(gpus(2))
    first = world.submit(30_000, smact=0.4, checkpoint=replace(JobSpec("", "", 0).checkpoint))
    world.submit(30_000, gpus=2)
    world.end(first, 1, oom=OutOfMemory("test", 2000))
    world.step(ev.DrainRequested(at=world.now, device="GPU-1", reason="fan"))
    submissions = [submission_of(job) for job in world.jobs.values()]
    store.save(world.decisions, submissions)
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
    sent = [submission_of(job, environment={"A": "\udcff"}) for job in jobs]
    store.save(world.decisions, sent)
    assert [store.submission(job.id) for job in jobs] == sent
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
    assert store.submission(6) == submission


def test_what_is_edited_of_one_job_comes_back_with_its_submission(path: str) -> None:
    store = Store(path)
    world = World(gpus(1))
    job = world.submit(1000)
    sent = submission_of(job, options={"time": "60", "env": ["A=1"]})
    store.save(world.decisions, [sent])
    assert store.edits(job.id) == {}
    store.save([], edits=[(job.id, {"time": "90", "env": ["A=2"]})])
    assert store.submission(job.id).envelope.options == {"time": "90", "env": ["A=2"]}
    assert store.edits(job.id) == {"time": "90", "env": ["A=2"]}


def sweep(store: Store, count: int) -> list[int]:
    """The ids of an array's elements."""
    world = World(gpus(1))
    job = world.submit(1000)
    ids = list(range(5, 5 + count))
    elements = tuple(replace(job, id=i, array=ArrayElement(5, i)) for i in ids)
    sent = submission_of(job, options={"time": "60"})
    store.save([replace(world.decisions[-2], changed=elements)], [sent])
    return ids


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
    assert store.edits(ids[7]) == {"time": "90"} and store.edits(ids[8]) == options
    assert store.submission(ids[7]).envelope.options == {"time": "90"}
    assert store.submission(ids[8]).envelope.options == {"time": "60", **options}
    assert store.edited(ids[6]) == store.edited(ids[8]) != store.edited(ids[7])
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM edits").fetchone() == (2,), "no superseded ones"


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
            "DROP INDEX jobs_edited;"
            "UPDATE jobs SET edits = (SELECT options FROM edits WHERE digest = edits);"
            "DROP TABLE edits; PRAGMA user_version = 4;"
        )
    with sqlite3.connect(path) as db:
        query = "SELECT count(*) FROM jobs WHERE json_valid(edits)"
        assert db.execute(query).fetchone() == (300,), "every element had its own"
    store = Store(path)
    assert store.kept() == before
    assert store.edits(ids[0]) == {"time": "90"}
    assert all(store.edits(job_id) == options for job_id in ids[1:])
    assert store.submission(ids[0]).envelope.options == {"time": "90"}
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
            PRAGMA foreign_keys = OFF; PRAGMA legacy_alter_table = ON;
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
    assert [store.submission(j.id) for j in (first, second)] == sent
    assert store.next_job_id() == 10, "ids are never given twice"
    assert [a.exit_code for a in store.attempts(first.id)] == [0]
    store.close()
    Store(path).close()


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
    world.step(ev.LaunchVoided(at=world.now, job_id=job.id, attempt=1))
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


def test_a_store_of_version_2_is_taken_over(path: str) -> None:
    store = Store(path)
    world = World(gpus(1))
    jobs = [world.submit(1000), world.submit(1000)]
    store.save(world.decisions, [submission_of(j) for j in jobs])
    before = store.kept()
    store.close()
    with sqlite3.connect(path) as db:
        db.executescript(
            "DROP TABLE runs; DROP TABLE edits; DROP INDEX array_states; "
            "DROP INDEX jobs_edited; ALTER TABLE jobs DROP COLUMN state; "
            "PRAGMA user_version = 2;"
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
            "DROP TABLE runs; DROP TABLE edits; DROP INDEX jobs_edited; PRAGMA user_version = 3;"
        )
    store = Store(path)
    assert store.kept() == before
    assert store.recent_runs(None, 10) == ()


def test_what_was_learned_is_found_by_what_ran_and_on_what(path: str) -> None:
    store = Store(path)
    a, b, c = (PastRun(mib, kind, told={"horus": 1.5}) for mib, kind in KINDS)
    runs = [Run(1, 1000, "same", a), Run(2, 1000, "same", b), Run(3, 7, "same", c)]
    world = World(gpus(1))
    job = world.submit(1000)
    store.save(world.decisions, [submission_of(job)], runs=[*runs, Run(4, 1000, None, a)])
    store.save(world.decisions, runs=[Run(1, 1000, "same", c)])
    assert store.same_runs("same", 1000, 10) == (b, a), "of this user only, and written once"
    assert store.same_runs("other", 1000, 10) == ()
    assert store.recent_runs("A100", 2) == (a, c)
    assert store.recent_runs(None, 10) == (a, c, b, a)


KINDS = ((1000, "A100"), (2000, "H100"), (3000, "A100"))


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


# ------------------------------------------------------------------ trouble in a transaction


@pytest.mark.parametrize(
    "error", [TypeError("no JSON"), OverflowError(), KeyboardInterrupt(), MemoryError()]
)
def test_whatever_is_raised_leaves_no_transaction_open(
    path: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(path)
    world = World(gpus(1))
    jobs = [world.submit(1000) for _ in range(2)]
    real, calls = store._save_record, iter([None, error])

    def fail_in_the_middle(record: object) -> None:
        if (raised := next(calls, None)) is not None:
            raise raised
        real(record)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "_save_record", fail_in_the_middle)
    expected = StoreError if isinstance(error, MemoryError) else type(error)
    with pytest.raises(expected):
        store.save(world.decisions, [submission_of(job) for job in jobs])
    assert not store._db.in_transaction
    assert Store(path).kept().jobs == [], "none of it"
    store.save(world.decisions, [submission_of(job) for job in jobs])
    assert len(list(Store(path).kept().jobs)) == 2, "and the same may be saved again"


def fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as file:
        for size in (64 * 1024, 1):
            with contextlib.suppress(OSError):
                while file.write(b"x" * size):
                    pass
    assert os.statvfs(disk).f_bavail == 0


def test_on_a_full_disk_there_is_room_for_what_frees_things(small_disk: Path) -> None:
    path = str(small_disk / "radrm.sqlite")
    store = Store(path)
    world = World(gpus(2))
    world.submit(30_000)
    world.submit(30_000, gpus=2)
    store.save(world.decisions, [submission_of(job) for job in world.jobs.values()])
    store.close()
    store = Store(path)
    fill(small_disk)
    for number in range(200):
        seen = len(world.decisions)
        world.edit(2, comment=f"{number}" * 100)
        store.save(world.decisions[seen:])
    seen = len(world.decisions)
    world.cancel(1)
    store.save(world.decisions[seen:])
    (small_disk / "filler").unlink()
    found = Store(path)
    assert found.job(1) == world.jobs[1]
    assert found.job(1).state is JobState.CANCELLED  # type: ignore[union-attr]


def test_the_room_is_kept_and_a_store_without_it_works(path: str) -> None:
    store = Store(path)
    assert os.stat(f"{path}-wal").st_size >= LOG_RESERVE
    assert os.stat(f"{path}-wal").st_mode & 0o777 == 0o600
    saved_world(store)
    copy = sqlite3.connect(path)
    assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)


# ------------------------------------------------------------------ damage


@pytest.mark.parametrize("text", ["", "{", "[]", '{"id": "x"}', "\udcff", None])
@pytest.mark.parametrize("table", ["jobs", "attempts", "reservations", "devices", "rules"])
def test_a_damaged_row_is_one_line_with_the_next_step(
    path: str, table: str, text: str | None
) -> None:
    store = Store(path)
    saved_world(store)
    raw = sqlite3.connect(path)
    if table == "rules":
        raw.execute("INSERT INTO rules VALUES ('policy', 'x', '{}')")
    value: object = text.encode("utf-8", "surrogateescape") if text == "\udcff" else text
    try:
        raw.execute(f"UPDATE {table} SET record = ?", (value,))
    except sqlite3.IntegrityError:
        return  # the table allows no such thing
    raw.commit()
    raw.close()
    with pytest.raises(StoreError, match=r"cannot be read .*; stop the daemon and restore") as told:
        store.kept()
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE submissions SET envelope = '{'",
        "UPDATE submissions SET envelope = '{}'",
        "UPDATE submissions SET envelope = '[]'",
        "UPDATE blobs SET data = x'00'",
        "UPDATE edits SET options = '{'",
        "UPDATE edits SET options = '[1]'",
    ],
)
def test_a_damaged_submission_is_one_line(path: str, change: str) -> None:
    store = Store(path)
    world = saved_world(store)
    store.save([], (), [(min(world.jobs), {"priority": "1"})])
    raw = sqlite3.connect(path)
    raw.execute(change)
    raw.commit()
    raw.close()
    with pytest.raises(StoreError, match="the submission of job 1, which cannot be read"):
        store.submission(min(world.jobs))


def test_a_damaged_run_is_left_out_of_what_was_learned(path: str) -> None:
    store = Store(path)
    raw = sqlite3.connect(path)
    for serial, record in enumerate(["{", "", "[]"]):
        raw.execute("INSERT INTO runs VALUES (?, 1, 'f', 'A100', ?)", (serial, record))
    raw.commit()
    raw.close()
    assert store.same_runs("f", 1, 10) == store.recent_runs(None, 10) == ()


def test_storing_an_envelope_copies_nothing_deep(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import copy
    import dataclasses

    def never(*_: object, **__: object) -> None:
        raise AssertionError("deep copies of megabytes take seconds")

    monkeypatch.setattr(copy, "deepcopy", never)
    monkeypatch.setattr(dataclasses, "asdict", never)
    saved_world(Store(path))
