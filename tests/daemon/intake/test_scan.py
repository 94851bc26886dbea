"""A look into the spool: what is wrong is refused, what the machine cannot do waits its turn."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from radrm.errors import StoreError
from radrm.host.storage.database import DamagedRow
from radrm.host.storage.spool import Arrival
from radrm.host.storage.tickets import new_ticket
from tests.daemon.intake.place import Place, raising
from tests.examples import some
from tests.host.storage.envelopes import envelope

# ------------------------------------------------------------------ what an envelope says


@pytest.mark.parametrize("field", ["script", "command", "environment", "cwd", "ticket"])
def test_an_envelope_without_a_field_harms_nobody(place: Place, field: str) -> None:
    document = json.loads(envelope().to_bytes())
    del document[field]
    path = place.folder / "spool" / f"{new_ticket()}.job"
    path.write_text(json.dumps(document))
    path.chmod(0o600)
    good = place.put()
    place.scan.list_soon()
    place.scan.run()
    assert place.state(good.ticket) == "PENDING"
    assert (place.waiting(), place.refused()) == ([], 1)


def test_whatever_a_sound_envelope_makes_the_readers_do_it_becomes_a_failed_job(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.known.error = ZeroDivisionError("a bug of ours")
    bad = place.put()
    place.scan.run()
    place.known.error = None
    good = place.put()
    place.scan.run()
    assert (place.state(bad.ticket), place.state(good.ticket)) == ("FAILED", "PENDING")
    (job,) = place.made(bad.ticket)
    assert "a bug of ours" in (job.reason or "")
    assert place.waiting() == []


SWEEP = {"param": ["bs=8,16", "lr=1,2"], "name": "t-{lr}", "gpus": "1", "max-fails": "3@60s"}
COMMAND = {"file": None, "script": None, "command": ("python", "a.py", "--bs", "{bs}", "{x}")}


def test_the_elements_of_a_sweep_have_their_values(place: Place) -> None:
    sent = place.put(**COMMAND, options=SWEEP)
    place.scan.run()
    jobs = place.made(sent.ticket)
    assert [job.spec.name for job in jobs] == ["t-1", "t-2"] * 2
    elements = [job.array for job in jobs if job.array is not None]
    assert [dict(e.params) for e in elements] == [
        {"bs": bs, "lr": lr} for bs in ("8", "16") for lr in ("1", "2")
    ]
    assert {(e.max_fails, e.fails_within_s, e.at_once) for e in elements} == {(3, 60.0, 1000)}
    asked = [job_file.argv for job_file in place.known.asked]
    assert asked == [("python", "a.py", "--bs", bs, "{x}") for bs in ("8", "16")], (
        "lr changes no need, so equal elements are asked about once"
    )
    last = place.store.submissions.of_job(jobs[3].id).job_file()
    assert last.argv[3] == "16" and dict(last.options.env)["RADRM_PARAM_lr"] == "2"
    assert last.name == "t-2"


@pytest.mark.parametrize(
    ("options", "table", "why"),
    [
        ({"params": "f.csv"}, None, "its values were not submitted"),
        ({"params": "f.csv"}, "a,b\n1\n", "line 2: 1 values for 2 parameters"),
        ({"param": ["a=0:999", "b=0:999"]}, None, "1000000 combinations of values"),
        ({"param": ["a=1"], "array": "0-3"}, None, "each make an array"),
    ],
)
def test_the_daemon_checks_a_sweep_again(
    place: Place, options: dict[str, Any], table: str | None, why: str
) -> None:
    sent = place.put(**COMMAND, options=options, table=table)
    place.scan.run()
    (job,) = place.made(sent.ticket)
    assert job.state.value == "FAILED" and why in (job.reason or "")


def test_a_sweep_that_makes_an_estimator_fail_becomes_a_failed_job(place: Place) -> None:
    place.known.error = ZeroDivisionError("a bug of ours")
    sent = place.put(**COMMAND, options=SWEEP)
    place.scan.run()
    assert place.state(sent.ticket) == "FAILED" and place.refused() == 0


texts = st.text(max_size=8) | st.sampled_from(["\udcff", "1", "-1", "9" * 30, "1:00", "a\nb"])
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
values = scalars | st.lists(scalars, max_size=3) | st.dictionaries(texts, scalars, max_size=2)
option_names = st.sampled_from(
    ["gpus", "gpu-memory", "time", "array", "after", "env", "name", "hold", "signal", "zzz"]
)
fields = st.sampled_from(list(json.loads(envelope().to_bytes())))


@given(
    changes=st.dictionaries(fields, values, max_size=3),
    options=st.dictionaries(option_names, values, max_size=3),
    command=st.none() | st.lists(texts, max_size=2),
)
@settings(
    max_examples=some(80),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_no_content_is_left_lying_or_raises(
    tmp_path_factory: pytest.TempPathFactory,
    changes: dict[str, Any],
    options: dict[str, Any],
    command: list[str] | None,
) -> None:
    """A job that can be read again, whether it may run or not; or else it is refused."""
    global _shared
    if _shared is None:
        _shared = Place(tmp_path_factory.mktemp("scan"))
    place, refused = _shared, _shared.refused()
    document = json.loads(envelope().to_bytes()) | {"options": options}
    if command is not None:
        document |= {"command": command, "script": None}
    ticket = place.put_raw(document | changes)
    while place.scan.run() == 0.0:
        pass
    assert place.waiting() == []
    taken = place.store.taken(ticket)
    assert (taken is not None) is (place.refused() == refused)
    if taken is not None:
        assert place.store.submissions.of_ticket(ticket).envelope.ticket == ticket
        assert place.made(ticket)


_shared: Place | None = None


# ------------------------------------------------------------------ what the machine cannot do

FAILURES = [
    OSError(errno.EIO, "Input/output error"),
    OSError(errno.EMFILE, "Too many open files"),
    OSError(errno.EACCES, "Permission denied"),
    MemoryError(),
]


@pytest.mark.parametrize("error", FAILURES, ids=str)
def test_the_machines_trouble_delays_one_envelope_longer_each_time(
    place: Place, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    hindered, good = place.put(), place.put()
    read, tries = place.arrivals.read, []

    def failing(name: str) -> Arrival | None:
        if name.startswith(hindered.ticket):
            tries.append(place.now_s)
            if len(tries) <= 9:
                raise error
        return read(name)

    monkeypatch.setattr(place.arrivals, "read", failing)
    while place.state(hindered.ticket) is None:
        due_s = place.scan.run()
        assert place.state(good.ticket) == "PENDING", "those behind it are not held up"
        place.now_s += max(due_s, 0.01)
    pauses = [b - a for a, b in pairwise(tries)]
    assert pauses == pytest.approx([1, 2, 4, 8, 16, 32, 60, 60, 60], abs=0.1)
    assert (place.waiting(), place.refused()) == ([], 0)


@pytest.mark.parametrize("error", [sqlite3.OperationalError("database is locked"), StoreError()])
def test_a_store_that_cannot_be_read_holds_all_and_loses_none(
    place: Place, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    mine = [place.put() for _ in range(3)]
    taken, asked = place.store.taken, []

    def failing(ticket: str) -> object:
        asked.append(ticket)
        raise error

    monkeypatch.setattr(place.store, "taken", failing)
    assert place.scan.run() == pytest.approx(1.0)
    assert place.scan.run() == pytest.approx(1.0) and len(asked) == 1, "it is left in peace"
    place.now_s += 1.0
    assert place.scan.run() == pytest.approx(2.0) and len(asked) == 2
    monkeypatch.setattr(place.store, "taken", taken)
    place.now_s += 2.0
    place.scan.run()
    assert [place.state(e.ticket) for e in mine] == ["PENDING"] * 3
    assert (place.waiting(), place.refused()) == ([], 0)


def test_a_store_that_cannot_be_written_keeps_the_envelopes(place: Place) -> None:
    mine = [place.put() for _ in range(3)]
    place.full = True
    place.scan.run()
    assert len(place.waiting()) == 3
    place.full = False
    place.flush()
    place.scan.run()
    assert [place.state(e.ticket) for e in mine] == ["PENDING"] * 3
    assert place.waiting() == [] and place.store.next_job_id() == 4


def test_a_busy_store_does_not_fail_a_follower(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = place.put(options={"after": ["5"]})  # which has ended, and so is asked of it
    monkeypatch.setattr(place.store, "job", raising(StoreError("it is busy")))
    place.scan.run()
    assert place.state(follower.ticket) is None and len(place.waiting()) == 1


def test_a_damaged_row_delays_only_its_own_envelope(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = place.put()
    place.scan.run()
    place.spool.put([first])
    good = place.put()
    place.scan.notice([f"{first.ticket}.job"])
    monkeypatch.setattr(place.store.submissions, "of_ticket", raising(DamagedRow("a row")))
    place.scan.run()
    assert place.state(good.ticket) == "PENDING"
    assert place.waiting() == [f"{first.ticket}.job"]


def test_a_spool_that_has_gone_is_waited_for(place: Place) -> None:
    mine = place.put()
    os.rename(place.spool.path, place.folder / "away")
    assert place.scan.run() > 0
    place.scan.notice([f"{new_ticket()}.job"])
    os.rename(place.folder / "away", place.spool.path)
    place.now_s += 100
    place.scan.run()
    assert place.state(mine.ticket) == "PENDING"


def test_an_error_while_saving_is_not_the_envelopes(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = place.put()
    process = place.process
    monkeypatch.setattr(place, "process", raising(ZeroDivisionError("a bug of ours")))
    assert place.scan.run() > 0
    assert (len(place.waiting()), place.refused()) == (1, 0)
    monkeypatch.setattr(place, "process", process)
    place.now_s += 100
    place.scan.run()
    assert place.state(mine.ticket) == "PENDING"
