"""What lies on disk: rows and pages of the store, the home's marker, notes of traces."""

from __future__ import annotations

import json
import os
import sqlite3
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from proofs.fuzz import scratch
from proofs.fuzz.judging import Target
from proofs.fuzz.mutations import as_bytes
from radrm.errors import RadrmError, StoreError
from radrm.host.estimation.tracing import Leftovers
from radrm.host.home import Home, _is_recorded, _numbers
from radrm.host.processes.identity import boot_id
from radrm.host.storage import database
from radrm.host.storage.database import damage_told
from radrm.host.storage.history import read_past
from radrm.host.storage.store import Store
from tests.host.storage.stores import saved_world

_MARKER = {
    "version": 1,
    "folders": {"spool": {"uid": 0, "device": 5, "inode": 77}, "store": {"uid": 0}},
    "numbers": {"store": 123456, "jobs": [1, 1001], "serials": [5, 1005]},
}
_MOST_JOBS = 10
_TOKEN = "0123456789abcdef0123456789abcdef"
_NOTE = {"token": _TOKEN, "cgroup": None, "uid": 1000, "boot_id": boot_id()}


@cache
def _store() -> tuple[Store, Path]:
    """A store with jobs, attempts, an edit, a drained device and the energy of an hour."""
    path = scratch.place("rows") / "radrm.sqlite"
    store = Store(str(path))
    world = saved_world(store)
    store.save([], edits=[(job.id, {"priority": "5"}) for job in world.jobs.values()])
    return store, path


@cache
def _rows() -> tuple[dict[str, Any], ...]:
    """One row of each table as a document: its table, its key, and its columns."""
    store, _ = _store()
    found = []
    for table in ("submissions", "jobs", "attempts", "reservations", "devices", "edits"):
        cursor = store._db.execute(f"SELECT * FROM {table} LIMIT 1")
        names = [each[0] for each in cursor.description]
        for row in cursor.fetchall():
            columns = {k: _readable(v) for k, v in zip(names, row, strict=True)}
            found.append({"table": table, "columns": columns})
    return tuple(found)


def _readable(value: object) -> object:
    """A column as a document holds it: JSON texts are opened, so that their parts are changed."""
    try:
        return (
            {"json": json.loads(value)} if isinstance(value, str) and value[:1] in "{[" else value
        )
    except ValueError:
        return value


def _row(text: str) -> None:
    """Put a changed row in its place, and read all that a daemon reads. Nothing of it stays."""
    try:
        document = json.loads(text)
        table, columns = document["table"], dict(document["columns"])
    except (ValueError, RecursionError, KeyError, TypeError):
        return
    known = next((row for row in _rows() if row["table"] == table), None)
    if known is None or known["columns"].keys() != columns.keys():
        return
    store, _ = _store()
    store._db.execute("PRAGMA foreign_keys = OFF")
    store._db.execute("BEGIN")
    try:
        words = ", ".join(f"{name} = ?" for name in columns)
        values = tuple(map(_cell, columns.values()))
        first = f"WHERE rowid IN (SELECT rowid FROM {table} LIMIT 1)"
        try:
            store._db.execute(f"UPDATE {table} SET {words} {first}", values)
        except (sqlite3.Error, OverflowError, UnicodeError):
            return  # SQLite itself takes no such value
        _read_all(store)
    finally:
        store._db.execute("ROLLBACK")


def _cell(value: object) -> Any:
    if isinstance(value, dict) and "json" in value:
        return json.dumps(value["json"])
    return json.dumps(value) if isinstance(value, (dict, list)) else value


def _read_all(store: Store) -> None:
    """Read what a daemon reads. Each part may refuse in one line; the others are read all the
    same."""
    wrong: RadrmError | None = None
    jobs = range(1, min(store.next_job_id(), _MOST_JOBS))
    for read in (
        store.kept,
        *(lambda job=job: store.job(job) for job in jobs),
        *(lambda job=job: store.submissions.of_job(job).job_file() for job in jobs),
        lambda: store.array_states(1),
        lambda: store.named("job", None, 10),
        lambda: list(store.energy.sums(0, 2**40, "user")),
        lambda: store.runs.recent("A100", 10),
    ):
        try:
            read()
        except RadrmError as error:
            wrong = error
    if wrong is not None:
        raise wrong


@cache
def _file() -> bytes:
    store, path = _store()
    store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.read_bytes()


def _page(text: str) -> None:
    """Open a copy of a store that a disk has changed at some places."""
    data, random = bytearray(_file()), Random(as_bytes(text))
    for _ in range(random.choice((1, 1, 1, 2, 20)) if text else 0):
        at = random.randrange(len(data)) if random.random() < 0.9 else random.randrange(200)
        length = random.choice((1, 1, 4, 512, 4096))
        data[at : at + length] = random.choice((b"\0", b"\xff", bytes([random.randrange(256)]))) * (
            min(length, len(data) - at)
        )
    if random.random() < 0.05 and text:
        del data[random.randrange(len(data)) :]
    folder = scratch.place("pages")
    for left in folder.iterdir():
        left.unlink()
    path = scratch.file("pages/radrm.sqlite", bytes(data))
    wrong: StoreError | None = None
    try:
        read_past(str(path), 0.0)
    except StoreError as error:
        wrong = error
    with mock.patch.object(database, "LOG_RESERVE", 1 << 16):  # most of the time of an input
        store = Store(str(path))
    try:
        with damage_told(str(path)):
            _read_all(store)
    finally:
        store.close()
    if wrong is not None:
        raise wrong


def _marker(data: bytes) -> None:
    state = scratch.place("home")
    scratch.file("home/radrm-home.json", data)
    home = Home.__new__(Home)
    home._marker = f"{state}/radrm-home.json"
    known = home._read_marker()
    numbers = _numbers(known.get("numbers"))
    assert numbers is None or all(type(each.below) is int for each in numbers[1:])
    recorded = known.get("folders")
    for each in recorded.values() if isinstance(recorded, dict) else ():
        _is_recorded(each, os.stat(state), 5)


def _note(data: bytes) -> None:
    scratch.file(f"notes/{_TOKEN}.json", data)
    Leftovers(str(scratch.place("notes")))._read(f"{_TOKEN}.json")


TARGETS = (
    Target("store-row", _rows(), _row, part=0.4),
    Target("store-page", ("",), _page, most=100, part=0.2),
    Target("home-marker", (_MARKER,), _marker, bytes=True),
    Target("trace-note", (_NOTE,), _note, bytes=True),
)
