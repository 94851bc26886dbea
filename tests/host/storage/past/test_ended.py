"""Ended jobs and their attempts, in pieces: each once, in the order of their ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from radrm.core.records import Instant
from radrm.core.words import JobState, Outcome
from radrm.errors import StoreError
from radrm.host.storage import ended
from radrm.host.storage.store import Store
from radrm.host.storage.submitted import Submission
from radrm.structs import replace
from tests.host.storage.pasts import BEGIN, at, attempt, decided, envelope, job


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


def save(store: Store, number: int, ended_s: float, uid: int = 1000) -> None:
    made = job(number, 0)
    made = replace(
        made,
        spec=replace(made.spec, uid=uid),
        state=JobState.COMPLETED,
        started=at(4),
        ended=at(ended_s),
    )
    sent = Submission(uid=uid, gid=1, envelope=envelope(ticket=made.ticket))
    store.save([decided(made, attempt(number, number, Outcome.COMPLETED))], [sent])


def test_each_job_comes_once_by_its_end(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended, "_NEXT", ended._NEXT.replace(f"LIMIT {ended.AT_ONCE}", "LIMIT 2"))
    ends = {1: 50, 2: 10, 3: 50, 4: 50, 5: 50, 6: 90, 7: 100}
    for number, ended_s in ends.items():
        save(store, number, ended_s)
    save(store, 8, 60, uid=7)
    pieces = list(store.ended.between(BEGIN + 20, BEGIN + 100))
    assert [[found.id for found in some] for some in pieces] == [[1, 3], [4, 5], [8, 6]]
    first = pieces[0][0]
    assert (first.spec.name, first.spec.user, first.waited_s) == ("j1", "ada", 4)


def test_the_newest_of_a_user(store: Store) -> None:
    for number, ended_s in {1: 50, 2: 10, 3: 90, 4: 50}.items():
        save(store, number, ended_s)
    save(store, 8, 60, uid=7)
    assert [each.id for each in store.ended.newest(1000, BEGIN + 20, 9)] == [3, 4, 1]
    assert [each.id for each in store.ended.newest(1000, BEGIN, 2)] == [3, 4]
    assert store.ended.newest(1000, BEGIN + 95, 9) == []
    (one,) = store.ended.newest(7, BEGIN, 9)
    assert (one.state, one.name) == ("COMPLETED", "j8")


def test_attempts_come_in_pieces_without_void_ones(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ended, "ROWS_AT_ONCE", 2)
    for number in (1, 2, 3):
        save(store, number, 50)
    more = [attempt(1, serial, Outcome.OOM) for serial in (11, 12, 13)]
    store.save([decided(*more, attempt(2, 14, None))])
    found = [each.serial for some in store.ended.attempts([1, 2]) for each in some]
    assert found == [1, 11, 12, 13, 2]
    assert list(store.ended.attempts([])) == []


def test_a_job_that_runs_again_is_kept_as_it_was_at_each_end(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(store, 1, 50)
    save(store, 2, 60)
    first = store.job(1)
    assert first is not None and store.earlier_runs(1, 9) == []
    waits = {"state": JobState.PENDING, "started": None, "ended": None}
    again = replace(first, run=2, rerun=at(70), **waits)
    store.save([decided(again)])
    assert (store.run(1, 1), store.run(1, 2), store.job(1)) == (first, None, again)
    runs = replace(again, state=JobState.RUNNING, started=at(75), attempts=2)
    store.save([decided(runs)])
    # It fails, and at once again: the end that no step left in between counts as well.
    failed = replace(runs, state=JobState.FAILED, ended=at(80))
    store.save([decided(failed)])
    hopeless = replace(failed, run=3, rerun=at(85), started=None, ended=at(85))
    store.save([decided(hopeless)])
    assert store.earlier_runs(1, 9) == [first, failed] and store.earlier_runs(1, 1) == [failed]
    assert (store.run(1, 2), store.run(1, 3)) == (failed, hopeless)
    ((one, two),) = store.ended.earlier([1, 2])
    assert (one.run, one.waited_s, two.run, two.waited_s, two.attempts) == (1, 4, 2, 5, 2)
    assert [found.run for some in store.ended.between(0, 2e9) for found in some] == [1, 3]
    monkeypatch.setattr("radrm.host.storage.store._RUNS_KEPT", 2)
    store.save([decided(replace(hopeless, run=4, **waits))])
    assert [each.run for each in store.earlier_runs(1, 9)] == [2, 3]


def test_a_stay_is_as_long_as_by_the_time_since_boot(store: Store) -> None:
    save(store, 1, 50)
    ((found,),) = store.ended.attempts([1])
    assert found.stay(at(100)) == (BEGIN, BEGIN + 9) and found.devices == ("gpu",)
    live = ended.msgspec.structs.replace(found, ended=None)
    assert live.stay(at(100)) == (BEGIN, BEGIN + 100)
    set_back = Instant(9.0, BEGIN - 500, "boot")
    moved = ended.msgspec.structs.replace(
        found, launched=Instant(0.0, BEGIN, "boot"), ended=set_back
    )
    assert moved.stay(at(0)) == (BEGIN - 509, BEGIN - 500)
    rebooted = ended.msgspec.structs.replace(moved, ended=Instant(1.0, BEGIN - 500, "later"))
    assert rebooted.stay(at(0)) == (BEGIN - 500, BEGIN - 500)


def test_a_damaged_record_is_one_clear_line(store: Store) -> None:
    save(store, 1, 50)
    store._db.execute("UPDATE attempts SET record = '{}'")
    with pytest.raises(StoreError, match="holds the record of an attempt"):
        list(store.ended.attempts([1]))
