"""The energy book: each joule once, in its own hour, whatever kills, clocks and disks do."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.core.records import DeviceEnergy, EnergyPart, Instant
from radrm.deadlines import Zone
from radrm.errors import StoreError
from radrm.host.storage import energy
from radrm.host.storage.database import Database
from radrm.host.storage.energy import HOUR_S, EnergyBook
from radrm.host.storage.store import Store
from tests.examples import some
from tests.host.storage.stores import submission_of
from tests.world import GIB, World, gpus

HOUR = 100 * 24 * HOUR_S
"""A full hour, in UTC."""
INDIA = Zone((0.0,), (5.5 * HOUR_S,))


def used(until_s: float, seconds: float, *parts: EnergyPart, device: str = "GPU-0") -> DeviceEnergy:
    return DeviceEnergy(device, Instant(until_s, until_s), seconds, parts)


@pytest.fixture
def db(path: str) -> Iterator[Database]:
    found = Database(path)
    yield found
    found.close()


def save(book: EnergyBook, db: Database) -> None:
    with db.writing():
        book.write()
    book.written()


def everything(book: EnergyBook, by: str = "job_id") -> list[tuple[int, int | None, float, float]]:
    rows = book.sums(-(2**40), 2**40, by)
    found = [(row.hour_s - HOUR, row.job_id, row.joules, row.seconds) for row in rows]
    return sorted(found, key=lambda row: (row[0], row[1] or 0))


def test_an_interval_is_booked_in_the_hours_in_which_it_lay(db: Database) -> None:
    book = EnergyBook(db)
    book.note([used(HOUR + 60, 240.0, EnergyPart(7, 400.0), EnergyPart(None, 80.0))])
    book.note([used(HOUR + 70, 10.0, EnergyPart(7, 20.0))])
    save(book, db)
    assert everything(book) == [
        (-HOUR_S, None, 60.0, 180.0),
        (-HOUR_S, 7, 300.0, 0.0),
        (0, None, 20.0, 70.0),
        (0, 7, 120.0, 0.0),
    ]


def test_hours_are_local(db: Database) -> None:
    book = EnergyBook(db, INDIA)
    assert book.hour_of(HOUR + 1799.0) == HOUR - 1800 and book.hour_of(HOUR + 1800.0) == HOUR + 1800


def test_what_is_saved_is_added_once(db: Database) -> None:
    """Also by a daemon that goes on after another, and after the clock was set back."""
    for _ in range(3):
        book = EnergyBook(db)
        book.note([used(HOUR + 100, 10.0, EnergyPart(7, 20.0))])
        assert book.waits
        save(book, db)
        assert not book.waits
        save(book, db)
    assert everything(EnergyBook(db)) == [(0, None, 0.0, 30.0), (0, 7, 60.0, 0.0)]


@pytest.mark.parametrize("damaged", [False, True])
def test_devices_have_numbers(db: Database, damaged: bool) -> None:
    """Beside the rows of older releases; where their list is damaged, later rows have UUIDs."""
    old = HOUR, "GPU-9", 0, None, None, 4.0, 0.0, 1.0
    db.execute("INSERT INTO energy VALUES (?, ?, ?, ?, ?, ?, ?, ?)", old)
    for number, device in enumerate(("GPU-9", "GPU-1", "GPU-9")):
        book = EnergyBook(db)
        book.note([used(HOUR + 100 * number, 10.0, EnergyPart(7, 5.0), device=device)])
        save(book, db)
    if damaged:
        db.execute("UPDATE marks SET record = '?'")
        book.note([used(HOUR + 300, 10.0, EnergyPart(7, 2.0), device="GPU-2")])
        save(book, db)
        assert book.first_hour_s("GPU-2") == HOUR
        return
    sums: Counter[tuple[str, int | None]] = Counter()
    for row in book.sums(0, 2**40, "device"):
        sums[row.device, row.job_id] += int(row.joules)
    assert sums == {
        ("GPU-9", None): 4,
        ("GPU-9", 7): 10,
        ("GPU-1", None): 0,
        ("GPU-1", 7): 5,
    }
    assert [book.first_hour_s(f"GPU-{n}") for n in (1, 2, 9)] == [HOUR, None, HOUR - HOUR_S]


def test_a_transaction_that_fails_loses_nothing(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(path)
    world = World(gpus(1))
    job = world.submit(8 * GIB)
    store.save(world.decisions, [submission_of(job)])
    mark = len(world.decisions)
    world.pass_time(30.0)
    store.save(world.decisions[mark:])
    mark = len(world.decisions)
    world.pass_time(30.0)
    world.end(job)

    def full(*given: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(store, "_save_record", full)
        with pytest.raises(StoreError):
            store.save(world.decisions[mark:])
    store.save(world.decisions[mark:])
    store.save_volatile()
    rows = store.energy.sums(0, 2**40, "job_id")
    assert {row.job_id: row.joules for row in rows} == {job.id: 6000.0, None: 0.0}
    assert sum(row.seconds for row in rows) == 60.0


def test_the_oldest_hours_go_first(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy, "MOST_ROWS", 3)
    monkeypatch.setattr(energy, "_LOOK_EVERY", 2)
    book = EnergyBook(db)
    for hour in (5, 1, 9, 3, 8, 2, 7):
        book.note([used(HOUR + hour * HOUR_S + 10, 10.0)])
        save(book, db)
    assert [row[0] // HOUR_S for row in everything(book)] == [7, 8, 9]
    assert book.first_hour_s() == HOUR + 7 * HOUR_S


pieces = st.lists(
    st.tuples(st.integers(-9000, 9000), st.floats(0.0, 8000.0), st.integers(0, 3), st.booleans()),
    max_size=20,
)


@settings(max_examples=some(25), deadline=None)
@given(pieces)
def test_nothing_is_lost_between_the_hours(life: list[tuple[int, float, int, bool]]) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as home:
        db = Database(os.path.join(home, "radrm.sqlite"))
        book, joules, seconds = EnergyBook(db, INDIA), 0.0, 0.0
        for at, passed_s, job, saves in life:
            parts = [EnergyPart(job or None, 3.0 * passed_s, passed_s)]
            book.note([used(HOUR + at, passed_s, *parts)])
            joules, seconds = joules + 3.0 * passed_s, seconds + passed_s
            if saves:
                save(book, db)
        save(book, db)
        rows = book.sums(-(2**40), 2**40, "user")
        db.close()
    assert sum(row.joules for row in rows) == pytest.approx(joules)
    assert sum(row.equally_j for row in rows) == pytest.approx(joules / 3)
    assert sum(row.seconds for row in rows) == pytest.approx(seconds)
