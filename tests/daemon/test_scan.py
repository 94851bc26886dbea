"""A look into the spool: what is wrong is refused, what the machine cannot do waits its turn."""

from __future__ import annotations

import errno
import json
import os
import re
import sqlite3
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from radrm.core import events as ev
from radrm.core.records import Job
from radrm.core.state.state import Decision
from radrm.core.words import JobState
from radrm.daemon.intake import scan as scans
from radrm.daemon.intake.estimation import NOTHING_KNOWN, Told
from radrm.daemon.intake.scan import Scan
from radrm.errors import StoreError
from radrm.host.clock import Clock
from radrm.host.storage.arrivals import Arrivals
from radrm.host.storage.spool import Arrival, Envelope, Spool
from radrm.host.storage.store import DamagedRow, Store, Submission
from radrm.host.storage.tickets import new_ticket
from radrm.jobfile.radfile import JobFile
from tests.host.test_spool import envelope
from tests.world import World, gpus


class Nothing:
    """Estimators that know nothing, or cannot be asked."""

    trouble: Exception | None = None

    def told(self, job_file: JobFile, envelope: Envelope, uid: int) -> Told:
        if self.trouble is not None:
            raise self.trouble
        return NOTHING_KNOWN


class Place:
    """A spool, a store and a scheduler, as the loop has them. It is the `Taker`, too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "spool").mkdir()
        self.spool = Spool(str(folder / "spool"))
        self.world = World(gpus(1))
        self.world.obey = False
        self.scheduler = self.world.scheduler
        self.store = Store(str(folder / "radrm.sqlite"))
        self.clock = Clock()
        self.broken = False
        self.saves = 0
        self.full = False
        self._unsaved: list[tuple[list[Decision], list[Submission]]] = []
        self.now_s = 0.0
        self.arrivals = Arrivals(self.spool.path, str(folder / "refused"))
        self.known = Nothing()
        self.scan = Scan(self, self.arrivals, self.known, tick=lambda: self.now_s)

    @property
    def unsaved(self) -> bool:
        return bool(self._unsaved)

    def process(self, events: Iterable[ev.Event], submissions: Iterable[Submission] = ()) -> None:
        decisions = [self.scheduler.step(event) for event in events]
        self.saves += bool(decisions)
        if decisions:
            self._unsaved.append((decisions, list(submissions)))
        self.flush()

    def flush(self) -> None:
        while self._unsaved and not self.full:
            self.store.save(*self._unsaved.pop(0))

    def put(self, **changes: Any) -> Envelope:
        mine = envelope(**{"script": None, "command": ("true",), "options": {}, **changes})
        self.spool.put([mine])
        self.scan.notice([f"{mine.ticket}.job"])
        return mine

    def put_raw(self, document: object) -> str:
        ticket = new_ticket()
        if isinstance(document, dict):
            document = {**document, "ticket": ticket}
        path = self.folder / "spool" / f"{ticket}.job"
        path.write_text(json.dumps(document))
        path.chmod(0o600)
        self.scan.notice([path.name])
        return ticket

    def made(self, ticket: str) -> list[Job]:
        """The jobs that were made of a submission."""
        found = [self.store.job(job_id) for job_id in self.store.of_ticket(ticket)]
        return [job for job in found if job is not None]

    def owned_by(self, monkeypatch: pytest.MonkeyPatch, owners: dict[str, int]) -> None:
        """Have these tickets be other users' than the one who runs the test."""
        add, read = self.arrivals.turns.add, self.arrivals.read

        def of(name: str, uid: int) -> int:
            return owners.get(name.removesuffix(".job"), uid)

        def read_as(name: str) -> Arrival | None:
            found = read(name)
            if found is None:
                return None
            return Arrival(**{**found.as_dict(), "uid": of(name, found.uid)})

        monkeypatch.setattr(self.arrivals.turns, "add", lambda name, uid: add(name, of(name, uid)))
        monkeypatch.setattr(self.arrivals, "read", read_as)

    def state(self, ticket: str) -> str | None:
        jobs = self.made(ticket)
        return jobs[0].state.value if jobs else None

    def waiting(self) -> list[str]:
        return sorted(os.listdir(self.spool.path))

    def refused(self) -> int:
        folder = self.folder / "refused"
        return len(os.listdir(folder)) if folder.exists() else 0


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


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
    place.known.trouble = ZeroDivisionError("a bug of ours")
    bad = place.put()
    place.scan.run()
    place.known.trouble = None
    good = place.put()
    place.scan.run()
    assert (place.state(bad.ticket), place.state(good.ticket)) == ("FAILED", "PENDING")
    (job,) = place.made(bad.ticket)
    assert "a bug of ours" in (job.reason or "")
    assert place.waiting() == []


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
    max_examples=80, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
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
        assert place.store.submitted(ticket).envelope.ticket == ticket
        assert place.made(ticket)


_shared: Place | None = None


# ------------------------------------------------------------------ what the machine cannot do

TROUBLE = [
    OSError(errno.EIO, "Input/output error"),
    OSError(errno.EMFILE, "Too many open files"),
    OSError(errno.EACCES, "Permission denied"),
    MemoryError(),
]


@pytest.mark.parametrize("trouble", TROUBLE, ids=str)
def test_the_machines_trouble_delays_one_envelope_longer_each_time(
    place: Place, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    hindered, good = place.put(), place.put()
    read, tries = place.arrivals.read, []

    def failing(name: str) -> Arrival | None:
        if name.startswith(hindered.ticket):
            tries.append(place.now_s)
            if len(tries) <= 9:
                raise trouble
        return read(name)

    monkeypatch.setattr(place.arrivals, "read", failing)
    while place.state(hindered.ticket) is None:
        due_s = place.scan.run()
        assert place.state(good.ticket) == "PENDING", "those behind it are not held up"
        place.now_s += max(due_s, 0.01)
    pauses = [b - a for a, b in pairwise(tries)]
    assert pauses == pytest.approx([1, 2, 4, 8, 16, 32, 60, 60, 60], abs=0.1)
    assert (place.waiting(), place.refused()) == ([], 0)


@pytest.mark.parametrize("trouble", [sqlite3.OperationalError("database is locked"), StoreError()])
def test_a_store_that_cannot_be_read_holds_all_and_loses_none(
    place: Place, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    mine = [place.put() for _ in range(3)]
    taken, asked = place.store.taken, []

    def failing(ticket: str) -> object:
        asked.append(ticket)
        raise trouble

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
    monkeypatch.setattr(place.store, "job", _raise(StoreError("it is busy")))
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
    monkeypatch.setattr(place.store, "submitted", _raise(DamagedRow("a row")))
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
    monkeypatch.setattr(place, "process", _raise(ZeroDivisionError("a bug of ours")))
    assert place.scan.run() > 0
    assert (len(place.waiting()), place.refused()) == (1, 0)
    monkeypatch.setattr(place, "process", process)
    place.now_s += 100
    place.scan.run()
    assert place.state(mine.ticket) == "PENDING"


def _raise(error: Exception) -> Any:
    def failing(*_: object, **__: object) -> None:
        raise error

    return failing


# ------------------------------------------------------------------ turns and budgets


def test_a_look_reads_one_large_envelope_or_many_small_ones(place: Place) -> None:
    large = [place.put(summary="x" * 2**20) for _ in range(3)]
    small = [place.put() for _ in range(30)]
    looks = []
    while True:
        due_s = place.scan.run()
        looks.append(sum(1 for e in [*large, *small] if place.state(e.ticket) is not None))
        if due_s > 0:
            break
    assert looks == [1, 2, 3, 33] and place.saves == 4


@pytest.mark.parametrize(
    "environment, words",
    [
        ({"A": "x" * 32 * os.sysconf("SC_PAGE_SIZE")}, r"variable 'A' of its environment has \d+"),
        ({str(n): "x" * 10_000 for n in range(800)}, r"its environment has \d+ bytes, and the k"),
    ],
)
def test_an_environment_that_no_program_can_have_fails_the_job_at_once(
    place: Place, environment: dict[str, str], words: str
) -> None:
    with pytest.raises(OSError, match="too long"):
        os.execve("/bin/true", ["true"], environment)
    mine = place.put(environment=environment)
    place.scan.run()
    (job,) = place.made(mine.ticket)
    assert job.state is JobState.FAILED and re.search(words, job.reason or "")


def test_a_look_ends_when_its_time_is_over(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = [place.put() for _ in range(10)]
    read = place.arrivals.read

    def slow(name: str) -> Arrival | None:
        place.now_s += scans.LOOK_S / 2
        return read(name)

    monkeypatch.setattr(place.arrivals, "read", slow)
    assert place.scan.run() == 0.0
    assert sum(1 for e in mine if place.state(e.ticket) is not None) == 2


def test_a_flood_of_one_user_delays_nobody_else(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scans, "LOOK_BYTES", 1)
    flood = [new_ticket() for _ in range(20)]
    other = new_ticket()
    place.owned_by(monkeypatch, {**dict.fromkeys(flood, 1001), other: 1002})
    for ticket in [*flood, other]:
        place.put(ticket=ticket)
    for _ in range(2):
        assert place.scan.run() == 0.0
    assert place.state(other) == "PENDING"
    assert sum(1 for ticket in flood if place.state(ticket)) == 1


def test_who_asks_for_his_job_is_served_first(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scans, "LOOK_BYTES", 1)
    owners = {new_ticket(): uid for uid in range(1001, 1010)}
    place.owned_by(monkeypatch, owners)
    for ticket in owners:
        place.put(ticket=ticket)
    last = list(owners)[-1]
    place.scan.run(first=1009)
    assert place.state(last) == "PENDING"


def test_a_follower_waits_for_a_ticket_that_still_lies_in_the_spool(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scans, "LOOK_BYTES", 1)
    first, second, follower = new_ticket(), new_ticket(), new_ticket()
    place.owned_by(monkeypatch, {first: 1001, second: 1001, follower: 1002})
    place.put(ticket=first)
    place.put(ticket=second)
    place.put(ticket=follower, options={"after": [second]})
    for _ in range(4):
        place.scan.run()
    (job,) = place.made(follower)
    assert job.state is JobState.PENDING and len(job.after) == 1


def test_a_follower_that_came_up_before_the_other_is_served_at_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, follower = new_ticket(), new_ticket()
    place.owned_by(monkeypatch, {first: 1001, follower: 1002})
    place.put(ticket=first)
    place.put(ticket=follower, options={"after": [first]})
    assert place.scan.run(first=1002) == 0.0
    assert place.state(follower) is None
    place.scan.run()
    assert place.state(follower) == "PENDING"
    assert place.scan.run() > 0, "and then there is nothing to do"


def test_a_file_that_cannot_be_removed_is_tried_less_and_less_often(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = place.put()
    remove = place.arrivals.remove
    monkeypatch.setattr(place.arrivals, "remove", _raise(OSError(errno.EROFS, "read-only")))
    pauses = []
    for _ in range(5):
        pauses.append(place.scan.run())
        place.now_s += pauses[-1]
    assert pauses == pytest.approx([1, 2, 4, 8, 16]) and place.state(mine.ticket) == "PENDING"
    monkeypatch.setattr(place.arrivals, "remove", remove)
    place.now_s += 100
    place.scan.run()
    assert place.waiting() == [] and len(place.made(mine.ticket)) == 1


def test_who_follows_himself_or_in_a_circle_is_told(place: Place) -> None:
    first, second = new_ticket(), new_ticket()
    place.put(ticket=first, options={"after": [second]})
    place.put(ticket=second, options={"after": [first, second]})
    while place.scan.run() == 0.0:
        pass
    assert [place.state(t) for t in (first, second)] == ["FAILED", "FAILED"]
    assert place.waiting() == []


def test_an_array_whose_envelope_is_taken_away_holds_nobody(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scans, "ELEMENTS_AT_ONCE", 2)
    array = place.put(options={"array": "0-9"})
    assert place.scan.run() == 0.0
    os.unlink(place.folder / "spool" / f"{array.ticket}.job")
    follower = place.put(options={"after": ["1"]})
    while place.scan.run() == 0.0:
        pass
    assert place.state(follower.ticket) == "PENDING"
    assert len(place.made(array.ticket)) == 2


def test_a_thousand_foreign_names_cost_no_more_than_their_listing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(100):
        (place.folder / "spool" / f"{number}.rad").write_text("x")
    opened: list[object] = []
    real = os.open

    def counting(path: Any, *rest: Any, **named: Any) -> int:
        opened.append(path)
        return real(path, *rest, **named)

    monkeypatch.setattr(os, "open", counting)
    for _ in range(3):
        place.scan.list_soon()
        place.scan.run()
    assert all(path == place.spool.path for path in opened)
    assert len(place.waiting()) == 100 and place.refused() == 0
