"""Requests about many jobs: what they cost is counted, what they do is checked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from radrm.config import NOBODY
from radrm.core import events as ev
from radrm.core.records import ArrayElement, Dependency, Job
from radrm.core.words import Condition, JobState
from radrm.daemon.answers import edit, status
from radrm.daemon.answers.requests import Requests
from radrm.daemon.serving.replies import encoded
from radrm.daemon.serving.server import Request
from radrm.daemon.serving.turns import MOST_EVENTS, Pace, Work, finish
from radrm.daemon.views import tables
from radrm.daemon.views.documents import JobDocuments
from radrm.daemon.views.expected import Foresight
from radrm.daemon.views.references import MAX_GLOBS, Globs
from radrm.daemon.views.rows import Row
from radrm.daemon.views.tables import Tables
from radrm.errors import StoreError
from radrm.host.clock import Clock
from radrm.host.processes.controllers import Controllers
from radrm.host.sockets import Peer
from radrm.host.storage.store import Store
from radrm.structs import replace
from tests.host.storage.stores import submission_of
from tests.world import World, gpus


class Server:
    """A world, its store, and requests answered in this process; each piece is counted."""

    def __init__(self, path: Path) -> None:
        self.world = World(gpus(1))
        self.store = Store(str(path / "radrm.sqlite"))
        self.batches: list[int] = []
        self.filling: dict[int, set[int]] = {}
        """The arrays of which elements are in the spool yet, by user."""
        self.save(self.world.submit(39_000))
        self.loop: Any = SimpleNamespace(
            scheduler=self.world.scheduler,
            store=self.store,
            clock=Clock(),
            process=self.process,
            broken=False,
            scan=lambda names=(), first=None: None,
            intake=SimpleNamespace(fills=lambda uid: self.filling.get(uid, set())),
            tables=Tables(),
            reports=None,
            launcher=SimpleNamespace(controllers=Controllers()),
            parts=SimpleNamespace(
                users=NOBODY,
                attempts=SimpleNamespace(unmanaged=SimpleNamespace(notes=lambda state: [])),
                foresight=Foresight(self.world.scheduler),
            ),
        )

    def save(self, *jobs: Job) -> None:
        sent = [replace(submission_of(job), uid=job.spec.uid) for job in jobs]
        self.store.save(self.world.decisions, sent)
        self.world.decisions.clear()

    def array(self, count: int) -> list[int]:
        first = self.world.submit(39_000)
        base = replace(first, id=1000, ticket="01ARZ3NDEKTSV4RRFFQ69G5FAV")
        for n in range(count):
            element = replace(base, id=1000 + n, array=ArrayElement(1000, n))
            self.world.step(ev.JobSubmitted(at=self.world.now, job=element))
        self.save(first, base)
        return list(range(1000, 1000 + count))

    def process(self, events: Sequence[ev.Event], edits: Any = ()) -> None:
        if events:
            self.batches.append(len(events))
        self.store.save([self.world.step(event) for event in events], (), edits)

    def begin(self, uid: int = 0, **words: Any) -> tuple[Request, Work[None]]:
        request = Request(json.dumps(words).encode(), Peer(1, uid, uid))
        assert request.begin()
        return request, Requests({}).answer(self.loop, request)

    def ask(self, uid: int = 0, **words: Any) -> Any:
        request, work = self.begin(uid, **words)
        finish(work)
        answer = json.loads(b"".join(encoded(request.wait(0) or {})))
        return answer["result"] if answer["ok"] else answer["error"]


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


@pytest.fixture(autouse=True)
def _no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces end by their counts alone, however slow the machine is."""
    monkeypatch.setattr(Pace, "spent", property(lambda self: False))


@pytest.mark.parametrize("uid", [0, 1000])
def test_a_command_waits_until_an_array_is_taken_in(server: Server, uid: int) -> None:
    ids = server.array(2)
    server.filling = {1000: {1000}}
    looks: list[int | None] = []

    def scan(names: object = (), first: int | None = None) -> None:
        looks.append(first)
        if len(looks) == 3:
            late = replace(server.world.jobs[1000], id=1002, array=ArrayElement(1000, 2))
            server.process([ev.JobSubmitted(at=server.world.now, job=late)])
            server.filling = {}

    server.loop.scan = scan
    server.ask(uid, op="cancel", jobs=["1000"])
    ended = [server.world.jobs[i].state for i in [*ids, 1002]]
    assert ended == [JobState.CANCELLED] * 3 and looks == [uid, 1000, 1000]


@pytest.mark.parametrize(("array", "most"), [(1000, 30), (55, 1)])
def test_no_user_keeps_an_administrator_waiting_by_arrays(
    server: Server, array: int, most: int
) -> None:
    ids = server.array(2)
    server.filling = {1000: {array}}  # and it never ends
    looks: list[int | None] = []
    server.loop.scan = lambda names=(), first=None: looks.append(first)
    server.ask(0, op="cancel", jobs=["1000"])
    assert [server.world.jobs[i].state for i in ids] == [JobState.CANCELLED] * 2
    assert len(looks) <= most


@pytest.mark.parametrize(
    ("op", "more"), [("hold", {}), ("edit", {"options": {"priority": "5"}}), ("cancel", {})]
)
def test_a_command_about_many_is_carried_out_in_pieces(
    server: Server, op: str, more: dict[str, Any]
) -> None:
    ids = server.array(3 * MOST_EVENTS)
    told = server.ask(op=op, jobs=["1000"], **more)
    assert [t["id"] for t in told] == ids and not any(t["error"] for t in told)
    assert server.batches == [MOST_EVENTS] * 3


def test_a_command_that_is_given_up_stops_and_says_how_far_it_has_come(server: Server) -> None:
    server.array(3 * MOST_EVENTS)
    request, work = server.begin(op="cancel", jobs=["1000"])
    next(work)
    request.give_up()
    work.close()
    request.stopped()
    ended = server.store.array_states(1000)
    assert ended == {JobState.CANCELLED: MOST_EVENTS, JobState.PENDING: 2 * MOST_EVENTS}
    answer = request.wait(0)
    assert (
        answer is not None and f"after {MOST_EVENTS} of {3 * MOST_EVENTS} jobs" in answer["error"]
    )


def test_an_array_that_is_edited_is_read_once_and_stored_once(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = server.array(3 * MOST_EVENTS)
    read: list[object] = []
    edited = edit._edited
    monkeypatch.setattr(edit, "_edited", lambda *given: read.append(given) or edited(*given))
    for priority in ("5", "6"):
        server.ask(op="edit", jobs=["1000"], options={"priority": priority, "comment": "x" * 900})
    assert len(read) == 2
    assert len({server.store.submissions.edits_digest(i) for i in ids}) == 1
    (told,) = server.ask(op="edit", jobs=["1000_7"], options={"priority": "7"})
    assert told["error"] is None and len(read) == 3
    assert server.store.submissions.of_job(1007).edits == {"priority": "7", "comment": "x" * 900}
    assert server.store.submissions.of_job(1008).edits == {"priority": "6", "comment": "x" * 900}


def test_edits_of_one_job_are_bounded(server: Server) -> None:
    server.array(3)
    many = {"env": [f"{'V' * 10}{n}={'x' * 60_000}" for n in range(5)]}
    (told,) = server.ask(op="edit", jobs=["1000"], options=many)
    assert "262144 is the most" in told["error"] and "2 more" in told["error"]
    assert server.store.submissions.of_job(1000).edits == {}


def test_all_globs_of_a_request_are_matched_in_one_pass(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [server.world.submit(39_000, name=f"net-{n}") for n in range(20)]
    server.save(*jobs)
    matched: list[str] = []
    matching = Globs.matching
    monkeypatch.setattr(
        Globs, "matching", lambda self, name: matched.append(name) or matching(self, name)
    )
    patterns = ["net-1?", *(f"none-{n}*" for n in range(MAX_GLOBS - 2)), "net-*"]
    told = server.ask(op="hold", jobs=patterns)
    assert max(Counter(matched).values()) == 1, "each name once, for all patterns"
    held = [t["name"] for t in told if t["error"] is None]
    assert held == [f"net-{n}" for n in (*range(10, 20), *range(10))]
    assert sum("there is no job none-" in (t["error"] or "") for t in told) == MAX_GLOBS - 2
    assert "101 globs, and 100 is the most" in server.ask(op="hold", jobs=[*patterns, "x*"])


def test_a_word_that_means_what_another_has_named_is_no_error(server: Server) -> None:
    server.save(server.world.submit(39_000, name="net"))
    told = server.ask(op="hold", jobs=["2", "net", "n*"])
    assert [(t["id"], t["error"]) for t in told] == [(2, None)]


def test_what_follows_a_cancelled_job_and_is_cancelled_with_it_is_done(server: Server) -> None:
    ids = server.array(MOST_EVENTS)
    last = server.world.submit(39_000)
    after = (Dependency(ids[0], Condition.OK),)
    job = server.world.jobs[last.id]
    follower = replace(job, id=3000, ticket="F", after=after)
    server.world.step(ev.JobSubmitted(at=server.world.now, job=follower))
    server.save(last, follower)
    told = server.ask(op="cancel", jobs=["1000", "3000"])
    assert [t["error"] for t in told] == [None] * (MOST_EVENTS + 1)
    assert "followers" not in told[0], "it was named itself"


def test_a_command_is_about_so_many_at_the_most(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("radrm.daemon.views.references.MAX_FOUND", 10)
    server.array(11)
    assert "the request is about 11 jobs" in server.ask(op="cancel", jobs=["1000"])
    assert "the request is about 13 jobs" in server.ask(
        op="cancel", user="ann", state="pending,running"
    )
    assert "the request is about 13 jobs" in server.ask(op="cancel", jobs=["?*"])
    assert server.batches == []


def test_one_array_cannot_be_named_in_many_ways_to_fill_the_memory(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("radrm.daemon.views.references.MAX_FOUND", 25)
    server.array(10)
    read: list[int] = []
    of_array = server.store.of_array
    monkeypatch.setattr(server.store, "of_array", lambda i: read.append(i) or of_array(i))
    words = ["0" * n + "1000" for n in range(14)]
    assert "name fewer" in server.ask(op="status", jobs=words, after=0)
    assert len(read) == 3


# ------------------------------------------------------------------ status


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The tables that were gathered."""
    found: list[object] = []
    gathering = tables._Gathering
    monkeypatch.setattr(tables, "_Gathering", lambda *given: found.append(1) or gathering(*given))
    return found


def test_a_page_costs_what_its_rows_cost(
    server: Server, built: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.array(500)
    shown: list[object] = []
    row = JobDocuments.row
    monkeypatch.setattr(
        JobDocuments, "row", lambda self, *given: shown.append(1) or row(self, *given)
    )
    now = 0.0
    server.loop.tables = Tables(lambda: now)
    pages = [server.ask(uid, op="page", limit=2) for uid in range(50)]
    assert len(built) == 1, "for all who ask"
    assert len(shown) == 2, "rows that nobody sees are not made, the others once for all"
    now = 0.3
    server.ask(op="page", limit=2)
    assert len(shown) == 4, "and again a moment later"
    assert pages[0]["total"] == 3 and pages[0]["counts"] == {"RUNNING": 1, "PENDING": 501}
    server.world.read()
    server.ask(op="page", limit=2)
    assert len(built) == 1, "readings change no job"
    server.ask(op="hold", jobs=["1000_3"])
    page = server.ask(op="page")
    assert len(built) == 2
    labels = [(job["label"], job.get("held", False)) for job in page["jobs"]]
    assert ("1000_3", True) in labels and ("1000_[4-499]", False) in labels


def test_a_row_is_made_again_when_a_job_changes_or_its_place(server: Server) -> None:
    job, kept, made = server.world.jobs[1], Tables(lambda: 0.0), count(1)
    versions, places = (1, 1, 2, 2), (1, 2, 2, 2)
    shown = [
        kept.document(Row(job, place), version, lambda: {"made": next(made)})["made"]
        for version, place in zip(versions, places, strict=True)
    ]
    assert shown == [1, 2, 3, 3]


def test_a_long_table_is_good_for_a_second_but_not_for_him_who_has_changed_it(
    server: Server, built: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("radrm.daemon.views.tables._LONG", 20)
    now = 0.0
    server.loop.tables = Tables(lambda: now)
    server.array(50)
    mine, other = 0, 4711
    assert server.ask(mine, op="page")["total"] == server.ask(other, op="page")["total"] == 3
    server.ask(mine, op="hold", jobs=["1000_3"])
    assert server.ask(mine, op="page")["total"] == 5, "he sees what he has done"
    server.ask(mine, op="hold", jobs=["1000_9"])
    page = server.ask(other, op="page")
    assert (page["total"], len(built)) == (5, 2), "others a second later"
    now = 1.5
    assert server.ask(other, op="page")["total"] == 7


def test_requests_for_one_table_gather_it_together(
    server: Server, built: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_LONG", 50)
    monkeypatch.setattr(tables, "_BATCH", 10)
    monkeypatch.setattr(Pace, "spent", property(lambda self: True))
    server.array(100)
    asked = [server.begin(uid, op="page") for uid in range(5)]
    left, *others = (work for _, work in asked)
    next(left)
    assert [next(work) for work in others] == [None] * 4
    left.close()
    for _ in range(8):
        next(others[-1])
    server.world.submit(39_000)  # what is being gathered is as good as what was
    for work in others:
        finish(work)
    totals = {(request.wait(0) or {})["result"]["total"] for request, _ in asked[1:]}
    assert len(built) == 2 and totals == {3}, "one that left, and one for all others"
    request, work = server.begin(0, op="page", all=True)
    next(work)
    server.ask(0, op="hold", jobs=["1000_3"])
    assert server.ask(0, op="page", all=True)["total"] == 6, "he sees what he has done"
    finish(work)
    assert (request.wait(0) or {})["ok"]


def test_a_table_that_cannot_be_gathered_is_an_error_for_each_who_waits(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pace, "spent", property(lambda self: True))
    monkeypatch.setattr(tables, "_BATCH", 10)
    server.array(100)
    monkeypatch.setattr(server.store, "finished", Mock(side_effect=StoreError("the disk is full")))
    asked = [server.begin(uid, op="page", all=True) for uid in range(2)]
    for _, work in asked:
        next(work)
    for request, work in asked:
        finish(work)
        assert request.wait(0) == {"ok": False, "error": "the disk is full", "code": 1}


def test_a_long_answer_comes_in_pages(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "ROWS", 100)
    ids = server.array(250)
    found: list[int] = []
    after, sizes = 0, []
    while after is not None:
        page = server.ask(op="status", after=after)
        found += [job["id"] for job in page["jobs"]]
        sizes.append(len(page["jobs"]))
        after = page["next"]
    assert found == [1, 2, *ids] and sizes == [100, 100, 52]
    few = server.ask(op="status", jobs=["1000_9", "1"], after=0)
    assert [job["label"] for job in few["jobs"]] == ["1000_9", "1"] and few["next"] is None


def test_a_page_is_bounded_in_bytes(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "BYTES", 10_000)
    server.array(50)
    page = server.ask(op="status", after=0)
    assert 1 <= len(page["jobs"]) < 20 and page["next"] == page["jobs"][-1]["id"]


def test_a_client_that_knows_no_pages_gets_all_or_one_line(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.array(50)
    assert len(server.ask(op="status")) == 52
    monkeypatch.setattr(status, "MOST_ROWS", 51)
    assert "these are 52 jobs, more than one answer holds (51)" in server.ask(op="status")


def test_all_shows_those_that_have_ended_too(server: Server) -> None:
    server.array(3)
    server.ask(op="cancel", jobs=["1000_1"])
    page = server.ask(op="page", all=True)
    assert [job["label"] for job in page["jobs"]] == ["1000_2", "1000_1", "1000_0", "2", "1"]
    assert page["counts"] == {"RUNNING": 1, "PENDING": 3, "CANCELLED": 1}
    cancelled = server.ask(op="page", state="cancelled", user="ann")
    assert [job["label"] for job in cancelled["jobs"]] == ["1000_1"]
    assert server.ask(op="page", jobs=["1000"])["counts"] == {"CANCELLED": 1, "PENDING": 2}
