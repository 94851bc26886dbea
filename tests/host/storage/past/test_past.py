"""The past is read from the store while a daemon may write it, and nothing is changed."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from radrm.core.words import Outcome
from radrm.errors import StoreError
from radrm.host.storage.history import read_past
from radrm.host.storage.store import Store
from radrm.host.storage.submitted import Submission
from tests.host.storage.pasts import BEGIN, attempt, decided, envelope, job


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(str(tmp_path / "radrm.sqlite"))
    for number, submitted_s in ((1, 0.0), (2, 100.0), (3, 200.0)):
        records = [job(number, submitted_s), attempt(number, number, Outcome.COMPLETED)]
        made.save(
            [decided(*records)], [Submission(1000, 1000, envelope(f"T{number}", submitted_s))]
        )
    return made


def test_jobs_since_a_time_with_their_real_attempts(store: Store) -> None:
    store.save([decided(attempt(3, 7, None), attempt(3, 8, Outcome.OOM))])
    found = read_past(store.path, BEGIN + 50)
    assert [found_job.id for found_job, _ in found] == [2, 3]
    assert [made.serial for made in found[1][1]] == [3, 8]  # a void launch is none
    assert read_past(store.path, BEGIN + 500) == []


def test_nothing_is_written_while_the_daemon_writes(store: Store) -> None:
    before = {
        name: os.stat(Path(store.path).parent / name).st_mtime_ns for name in ("radrm.sqlite",)
    }
    assert len(read_past(store.path, 0)) == 3
    after = {name: os.stat(Path(store.path).parent / name).st_mtime_ns for name in before}
    assert before == after
    store.save([decided(job(1, 0.0))])


def test_a_store_that_cannot_be_read(tmp_path: Path, store: Store) -> None:
    with pytest.raises(StoreError, match="there is no store"):
        read_past(str(tmp_path / "none"), 0)
    (tmp_path / "noise").write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreError, match="cannot read the store"):
        read_past(str(tmp_path / "noise"), 0)
    store.close()
    with sqlite3.connect(store.path) as db:
        db.execute("UPDATE jobs SET record = '{\"submitted\": [0, 9e9]}' WHERE id = 2")
    with pytest.raises(StoreError, match="cannot be read"):
        read_past(store.path, 0)
    with sqlite3.connect(store.path) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="version 99"):
        read_past(store.path, 0)
