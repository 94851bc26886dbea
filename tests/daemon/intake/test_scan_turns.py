"""A look into the spool has a budget, and users take turns."""

from __future__ import annotations

import errno
import os
import re
from typing import Any

import pytest

from radrm.core import events as ev
from radrm.core.decision import Decision
from radrm.core.words import JobState
from radrm.daemon.intake import scan as scans
from radrm.host.storage.spool import Arrival
from radrm.host.storage.tickets import new_ticket
from tests.daemon.intake.place import Place, raising


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


@pytest.mark.nightly
def test_the_time_of_a_transaction_counts(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a long array and of many envelopes a look takes in what its time allows, not more."""
    array = place.put(options={"array": "0-2999"})
    small = [place.put() for _ in range(200)]
    step = place.scheduler.step

    def slow(event: ev.Event) -> Decision:
        place.now_s += 0.004
        return step(event)

    monkeypatch.setattr(place.scheduler, "step", slow)
    looks, before = 0, 0.0
    while place.scan.run() == 0.0:
        looks, took_s, before = looks + 1, place.now_s - before, place.now_s
        assert took_s <= scans.LOOK_S + scans.AT_ONCE * 0.004 + 1e-6
    assert len(place.made(array.ticket)) == 3000 and looks > 10
    assert all(place.state(each.ticket) == "PENDING" for each in small)


def test_a_long_array_leaves_the_look_to_others(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays, other = [new_ticket() for _ in range(4)], new_ticket()
    owners = {ticket: 1001 + number for number, ticket in enumerate([*arrays, other])}
    place.owned_by(monkeypatch, owners)
    for ticket in arrays:
        place.put(ticket=ticket, options={"array": "0-2999"})
    place.put(ticket=other)
    step = place.scheduler.step

    def slow(event: ev.Event) -> Decision:
        place.now_s += 0.001
        return step(event)

    monkeypatch.setattr(place.scheduler, "step", slow)
    place.scan.run()
    assert place.state(other) == "PENDING", "four users' arrays have not used up the look"


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
    monkeypatch.setattr(place.arrivals, "remove", raising(OSError(errno.EROFS, "read-only")))
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
    monkeypatch.setattr(scans, "AT_ONCE", 2)
    monkeypatch.setattr(scans, "TURN_S", 0.0)
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
    of_names = [p for p in opened if not str(p).startswith("/proc/self/fdinfo/")]
    assert of_names and all(path == place.spool.path for path in of_names)
    assert len(opened) <= 2 * len(of_names), "the mount of the folder is all that is asked for"
    assert len(place.waiting()) == 100 and place.refused() == 0
