"""A store in trouble: transactions that fail, full disks, damaged rows."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

import pytest

from radrm.core.words import JobState
from radrm.errors import StoreError
from radrm.host.storage.database import LOG_RESERVE, Database, damage_told
from radrm.host.storage.store import Store
from tests.host.storage.stores import saved_world, submission_of
from tests.world import World, gpus

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
        real(record)

    monkeypatch.setattr(store, "_save_record", fail_in_the_middle)
    expected = StoreError if isinstance(error, MemoryError) else type(error)
    with pytest.raises(expected):
        store.save(world.decisions, [submission_of(job) for job in jobs])
    assert not store._db.connection.in_transaction
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
    assert found.job(1).state is JobState.CANCELLED


def test_a_store_that_a_full_disk_keeps_closed_is_not_called_damaged(small_disk: Path) -> None:
    """Nobody may be told to move a whole store aside."""
    Store(str(small_disk / "radrm.sqlite")).close()
    fill(small_disk)
    with pytest.raises(StoreError, match=r"cannot use the disk .*\(0 KiB are free") as told:
        Store(str(small_disk / "radrm.sqlite"))
    assert "aside" not in str(told.value)
    (small_disk / "filler").unlink()
    Store(str(small_disk / "radrm.sqlite")).close()


def test_the_room_is_kept_and_a_store_without_it_works(path: str) -> None:
    store = Store(path)
    assert os.stat(f"{path}-wal").st_size >= LOG_RESERVE
    assert os.stat(f"{path}-wal").st_mode & 0o777 == 0o600
    saved_world(store)
    copy = sqlite3.connect(path)
    assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)


# ------------------------------------------------------------------ damage


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a store with a saved world."""
    path = tmp_path_factory.mktemp("saved") / "radrm.sqlite"
    store = Store(str(path))
    saved_world(store)
    store.close()
    return path.read_bytes()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"id": "x"}', "\udcff", None])
@pytest.mark.parametrize("table", ["jobs", "attempts", "reservations", "devices", "rules"])
def test_a_damaged_row_is_one_line_with_the_next_step(
    path: str, table: str, text: str | None, saved: bytes
) -> None:
    Path(path).write_bytes(saved)
    store = Store(path)
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
        "UPDATE submissions SET envelope = json_set(envelope, '$.file', 7)",
        "UPDATE submissions SET envelope = json_set(envelope, '$.options', '[]')",
        "UPDATE blobs SET data = x'00'",
        "UPDATE edits SET options = '{'",
        "UPDATE edits SET options = '[1]'",
        "UPDATE submissions SET job_file = '{'",
        "UPDATE submissions SET job_file = '[]'",
        "UPDATE submissions SET job_file = '{\"version\": 1}'",
    ],
)
def test_a_damaged_submission_is_one_line(path: str, change: str, saved: bytes) -> None:
    Path(path).write_bytes(saved)
    store = Store(path)
    store.save([], (), [(1, {"priority": "1"})])
    raw = sqlite3.connect(path)
    raw.execute(change)
    raw.commit()
    raw.close()
    with pytest.raises(StoreError, match="the submission of job 1, which cannot be read"):
        store.submissions.of_job(1)


def test_a_damaged_file_is_one_line(path: str) -> None:
    store = Store(path)
    saved_world(store)
    store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = os.path.getsize(path)
    (root,) = store._db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'jobs'").fetchone()
    store.close()
    with open(path, "r+b") as file:
        file.seek((root - 1) * 4096)
        file.write(b"\xff" * 64)
    assert os.path.getsize(path) == size
    damaged = Store(path)
    with (
        pytest.raises(StoreError, match=r"cannot be read: .* stop the daemon and restore"),
        damage_told(path),
    ):
        damaged.kept()


def test_long_work_gives_signs_of_life(path: str) -> None:
    """systemd would end a daemon that brings a large store up to date in silence."""
    signs: list[None] = []
    db = Database(path, lambda: signs.append(None))
    before = len(signs)
    count = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000)"
    assert db.ids(f"{count} SELECT count(*) FROM n") == [100_000]
    assert len(signs) - before > 3
    db.close()
