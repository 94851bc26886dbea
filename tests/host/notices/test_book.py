"""Which notices a decision causes, and what becomes of their rows."""

from __future__ import annotations

import sqlite3

import pytest

from radrm.config import NotifyConfig
from radrm.core.decision import Warned
from radrm.core.records import ArrayElement
from radrm.core.words import JobState, Outcome
from radrm.errors import StoreError
from radrm.host.storage.retention.rows import Place
from radrm.host.storage.store import Store
from radrm.structs import replace
from tests.host.notices.notes import (
    UID,
    array,
    decided,
    ended,
    pending,
    submitted,
    told,
    tried,
    waiting,
)

A, B = "a@x.org", "b@x.org"


@pytest.fixture
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("store") / "radrm.sqlite")


@pytest.fixture
def store(path: str) -> Store:
    return Store(path)


# ------------------------------------------------------------------ which


def test_the_end_of_a_job(store: Store) -> None:
    submitted(store, pending(), A, f"{B}:fail")
    submitted(store, pending(2), A)
    submitted(store, pending(3))
    assert told(store) == []
    store.save([decided(ended(pending()), ended(pending(3)))])
    assert told(store) == [("1", "end", f"mail {A}")]
    failed = ended(pending(2), JobState.FAILED, exit_code=3, reason="exit code 3")
    store.save([decided(failed, tried(pending(2), Outcome.FAILED))])
    found = waiting(store)[1]
    assert (found.uid, found.gid, found.tries) == (UID, 100, 0)
    assert found.facts["state"] == "FAILED" and found.facts["ran_s"] == 63.0
    assert (found.facts["reason"], found.facts["exit_code"]) == ("exit code 3", 3)


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.TIMEOUT, JobState.CANCELLED])
def test_fail_is_an_end_that_is_not_completed(store: Store, state: JobState) -> None:
    submitted(store, pending(), f"{A}:fail", f"{B}:end,fail")
    store.save([decided(ended(pending(), state))])
    assert told(store) == [("1", "end", f"mail {A}"), ("1", "end", f"mail {B}")]


def test_each_out_of_memory_and_the_first_start(store: Store) -> None:
    job = pending()
    submitted(store, job, f"{A}:oom,start")
    running = replace(job, state=JobState.RUNNING, started=job.submitted)
    store.save([decided(running, tried(job))])
    store.save([decided(replace(running, moves=1))])
    again = replace(running, state=JobState.RECOVERING, oom_count=1)
    store.save([decided(again, tried(job, Outcome.OOM, 7, reason="oom: 2 GiB more"))])
    store.save([decided(running)])
    store.save([decided(again, tried(job, Outcome.OOM, 8))])
    assert [kind for _, kind, _ in told(store)] == ["start", "oom", "oom"]
    assert waiting(store)[1].facts["reason"] == "oom: 2 GiB more"
    store.notices.tried(waiting(store)[0], None)
    store.save([decided(running)])
    assert [kind for _, kind, _ in told(store)] == ["oom", "oom"], "it was told once"


def test_a_warning_of_the_core(store: Store) -> None:
    submitted(store, pending(), A, f"{B}:end")
    warned = Warned(1, "idle", "GPU 0 shows SM activity 0.01 (limit 0.05)")
    store.save([decided(warned=(warned, Warned(99, "idle", "nobody")))])
    assert told(store) == [("1", "idle", f"mail {A}")]
    assert waiting(store)[0].facts["text"] == warned.text


def test_an_array_is_told_of_once(store: Store) -> None:
    elements = array(store, 4, A, f"{B}:fail,start,oom")
    for each in elements[:2]:
        running = replace(each, state=JobState.RUNNING)
        store.save([decided(running, tried(each, Outcome.OOM, each.id))])
    assert told(store) == [("1_0", "oom", f"mail {B}"), ("1_0", "start", f"mail {B}")]
    store.save([decided(ended(elements[0]))])
    failed = [ended(each, JobState.FAILED) for each in elements[1:3]]
    store.save([decided(failed[0]), decided(failed[1])])
    assert told(store)[2:] == [("1_1", "fail", f"mail {B}")]
    store.save([decided(ended(elements[3], JobState.CANCELLED))])
    assert told(store)[3:] == [("1", "end", f"mail {A}"), ("1", "end", f"mail {B}")]
    facts = waiting(store)[-1].facts
    assert facts["states"] == {"CANCELLED": 1, "COMPLETED": 1, "FAILED": 2}
    assert facts["state"] == "FAILED"


def test_an_array_that_ends_at_once_is_told_of_once(store: Store) -> None:
    elements = array(store, 3, f"{A}:fail,end")
    store.save([decided(*(ended(each, JobState.CANCELLED) for each in elements))])
    assert told(store) == [("1", "end", f"mail {A}")]
    again = replace(elements[1], state=JobState.PENDING)
    store.save([decided(again)])
    store.save([decided(ended(again))])
    assert len(told(store)) == 2, "after a requeue it ends again"


def test_fail_is_silent_about_an_array_without_failures(store: Store) -> None:
    elements = array(store, 2, f"{A}:fail")
    store.save([decided(*map(ended, elements))])
    assert told(store) == []


def test_an_array_is_not_over_before_all_of_it_is_taken_in(store: Store) -> None:
    elements = array(store, 3, A, taken=2)
    store.save([decided(*map(ended, elements))])
    assert told(store) == []


def test_what_is_held_is_the_array_each_time(store: Store) -> None:
    elements = array(store, 3, A)
    for number in (1, 2):
        store.save([decided(warned=(Warned(elements[number].id, "held", "2 failed"),))])
    assert told(store) == [("1", "held", f"mail {A}")] * 2
    assert waiting(store)[0].facts["state"] is None


def test_a_sweep_is_an_array(store: Store) -> None:
    elements = [
        pending(i, ticket="T1", array=ArrayElement(1, i - 1, params=(("lr", str(i)),)))
        for i in (1, 2, 3)
    ]
    submitted(store, elements[0], A, param=["lr=1,2,3"])
    store.save([decided(elements[1])])
    store.save([decided(*map(ended, elements[:2]))])
    assert told(store) == [], "the third is not taken in yet"
    store.save([decided(elements[2])])
    store.save([decided(ended(elements[2]))])
    assert told(store) == [("1", "end", f"mail {A}")]


def test_a_job_that_is_refused_at_once_is_told_of(store: Store) -> None:
    """Its end is in the transaction of its submission."""
    submitted(store, ended(pending(), JobState.FAILED, reason="never"), A)
    assert told(store) == [("1", "end", f"mail {A}")]


def test_an_edit_counts(store: Store) -> None:
    submitted(store, pending(), A)
    store.save([], edits=[(1, {"notify": ["none", B]})])
    submitted(store, pending(2), A)
    store.save([], edits=[(2, {"notify": ["none"]})])
    store.save([decided(ended(pending()), ended(pending(2)))])
    assert told(store) == [("1", "end", f"mail {B}")]


def test_the_sites_default_and_its_kinds(store: Store) -> None:
    store.notices.site = NotifyConfig(default=("mail:fail",), kinds=("mail",))
    submitted(store, pending(1))
    submitted(store, pending(2), "none")
    submitted(store, pending(3), "/bin/tell")
    submitted(store, pending(4), "mail", "none", A)
    store.save([decided(*(ended(pending(i), JobState.FAILED) for i in (1, 2, 3, 4)))])
    assert told(store) == [("1", "end", "mail"), ("4", "end", f"mail {A}")]
    (problem,) = store.notices.problems(3, None)
    assert problem["given_up"] and "not among the targets of this site" in str(problem["error"])


def test_a_user_has_a_limit(path: str) -> None:
    store = Store(path)
    store.notices.site = NotifyConfig(per_hour=3)
    now_s = [0.0]
    store.notices._tick = lambda: now_s[0]
    for number in range(1, 8):
        uid = UID if number < 7 else 2000
        submitted(store, pending(number, uid), A)
        store.save([decided(ended(pending(number, uid)))])
    assert [job for job, _, _ in told(store)] == ["1", "2", "3", "7"]
    (problem,) = store.notices.problems(4, None)
    assert problem["error"] == "the limit of 3 notices in an hour is reached"
    for _ in range(3):
        store.save([decided(ended(pending(4)))])
    assert len(store.notices.problems(4, None)) == 1, "the rows of a job do not add up"
    now_s[0] = 3600.0
    store.save([decided(ended(pending(4)))])
    assert told(store)[-1][0] == "4"


def test_damage_keeps_no_decision_from_disk(store: Store, path: str) -> None:
    submitted(store, pending(), A)
    submitted(store, pending(2), A)
    with sqlite3.connect(path) as db:
        text = '{"raw": {"notify": ["nobody at all"]}}'
        db.execute("UPDATE submissions SET job_file = ? WHERE ticket = 'T1'", (text,))
        db.execute("UPDATE submissions SET job_file = '{' WHERE ticket = 'T2'")
    store.save([decided(ended(pending()), ended(pending(2)))])
    assert told(store) == [] and store.kept().jobs == []


# ------------------------------------------------------------------ what becomes of them


def test_it_waits_until_it_is_sent(store: Store, path: str) -> None:
    submitted(store, pending(), A)
    store.save([decided(ended(pending()))])
    store.close()
    store = Store(path)
    assert store.notices.new
    (notice,) = waiting(store)
    store.notices.tried(notice, "busy", for_good=False)
    assert waiting(store)[0].tries == 1
    assert store.notices.problems(1, None) == [
        {"event": "end", "target": f"mail {A}", "tries": 1, "error": "busy", "given_up": False}
    ]
    store.notices.tried(notice, "gone", for_good=True)
    assert waiting(store) == [] and store.notices.problems(1, None)[0]["given_up"]
    store.save([decided(ended(pending()))])
    store.notices.tried(waiting(store)[0], None)
    assert waiting(store) == [] and store.notices.problems(1, None) == []
    assert store._db.execute("SELECT count(*) FROM notices").fetchone() == (0,)


def test_one_of_each_user_at_a_time(store: Store) -> None:
    for number, uid in ((1, 10), (2, 10), (3, 20), (4, 30)):
        submitted(store, pending(number, uid), A)
        store.save([decided(ended(pending(number, uid)))])
    first = store.notices.waiting(lambda _, uid: uid == 30, 8)
    assert [n.job_id for n in first] == [1, 3]
    assert [n.job_id for n in store.notices.waiting(lambda i, _: i == first[0].id, 2)] == [2, 3]


def test_a_damaged_row_is_removed(store: Store, path: str) -> None:
    submitted(store, pending(), A)
    store.save([decided(ended(pending()))])
    with sqlite3.connect(path) as db:
        db.execute("UPDATE notices SET document = '{'")
    assert store.notices.waiting(lambda *_: False, 8) == []
    assert store._db.execute("SELECT count(*) FROM notices").fetchone() == (0,)


def test_they_go_with_their_job(store: Store) -> None:
    submitted(store, pending(), A)
    store.save([decided(ended(pending()))])
    store.rows.remove(UID, 2e9, Place(), lambda: False)
    assert waiting(store) == [] and store.job(1) is None


def test_a_decision_that_cannot_be_saved_has_no_notice(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted(store, pending(), A)
    with monkeypatch.context() as patch:
        patch.setattr(store.notices, "_insert", _fails)
        with pytest.raises(StoreError):
            store.save([decided(ended(pending()))])
    assert told(store) == []
    store.save([decided(ended(pending()))])
    assert len(told(store)) == 1


def _fails(*_: object) -> None:
    raise sqlite3.OperationalError("database or disk is full")
