"""The stores of this release and of the last load, and mean what they meant."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from radrm.core import events as ev
from radrm.core.records import Kept
from radrm.core.words import JobState
from radrm.host.storage.store import Store
from tests.data.stores import RELEASES, load, records
from tests.world import World, gpus


def assert_means(found: Any, said: Any, where: str = "") -> None:
    """All that the release has read is read again. What is new since has its defaults."""
    if isinstance(said, dict):
        for key, value in said.items():
            if key != "uid":  # of whoever runs the tests
                assert_means(found[key], value, f"{where}.{key}")
    elif isinstance(said, list):
        assert len(found) == len(said), where
        for at, (one, other) in enumerate(zip(found, said, strict=True)):
            assert_means(one, other, f"{where}[{at}]")
    else:
        assert found == said, where


@pytest.mark.parametrize("release", RELEASES)
def test_a_store_of_each_release_loads(path: str, release: str) -> None:
    load(release, Path(path), Path("/home/ann"))
    store, said = Store(path), records(release)
    kept = store.kept()
    assert_means(msgspec.to_builtins(kept), said["kept"])
    ended = [msgspec.to_builtins(store.job(i)) for i in store.finished(100)]
    assert_means(ended, said["ended"])
    assert store.next_job_id() == 16 and store.next_serial() == said["kept"]["next_serial"]
    assert len(said["kept"]["attempts"]) == 4 and len(ended) == 6
    assert {job.id: job.state for job in kept.jobs}[4] is JobState.RUNNING
    goes_on(kept)
    for job_id in range(1, 16):
        assert store.submissions.of_job(job_id).job_file()
    assert store.submissions.of_job(13).edits == {"comment": "edited"}
    (run,) = store.runs.recent(None, 10)
    assert run.peak_mib >= 8192 and store.energy.first_hour_s() is not None
    assert store._db.execute("PRAGMA foreign_key_check").fetchall() == []


def goes_on(kept: Kept) -> None:
    """A scheduler starts from these records."""
    world = World(gpus(4))
    scheduler = world.scheduler
    scheduler.step(ev.Restored(at=world.now, kept=kept))
    assert set(scheduler.state.jobs) == {job.id for job in kept.jobs}


@pytest.mark.parametrize("release", RELEASES)
def test_a_store_of_each_release_is_made_one_of_this(path: str, release: str) -> None:
    """With the same tables as a new one, and the bytes of each user counted once."""
    load(release, Path(path), Path("/home/ann"))
    store = Store(path)
    new = Store(f"{path}.new")
    schema = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"
    both = [
        {name: " ".join(text.split()).replace('"', "") for name, text in db._db.execute(schema)}
        for db in (store, new)
    ]
    assert both[0] == both[1]
    assert store._db.gives_back
    (stored,) = store._db.execute("SELECT uid, bytes FROM stored")
    rows = store._db.execute("SELECT envelope, job_file FROM submissions").fetchall()
    blobs = store._db.execute("SELECT data FROM blobs").fetchall()
    size = sum(len(a) + len(b) for a, b in rows) + sum(len(data) for (data,) in blobs)
    assert stored == (os.getuid(), size)


def test_a_damaged_record_does_not_keep_a_store_from_moving(path: str) -> None:
    load("0.1.0", Path(path), Path("/home/ann"))
    with sqlite3.connect(path) as db:
        db.execute("UPDATE jobs SET record = '{' WHERE id = 2")
    db.close()
    store = Store(path)
    assert store.job(1) is not None and store.finished(2) == [7, 8]
