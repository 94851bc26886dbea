"""What a user's limits admit of the spool: refused with a reason, or waiting there unread."""

from __future__ import annotations

import logging
import os
from typing import Any

import pytest

from radrm.core import events as ev
from radrm.core.words import JobState
from radrm.daemon.intake import admission
from tests.daemon.intake.place import Place

ME = os.getuid()


def taken(place: Place, *tickets: str) -> list[int]:
    return [len(place.made(ticket)) for ticket in tickets]


@pytest.mark.parametrize(
    "limits, changes, reason",
    [
        (
            {"priority_max": 100},
            {"options": {"priority": "101"}},
            "limits.priority_max: its priority is 101, the limit is 100; lower --priority"
            ", or ask an administrator",
        ),
        (
            {"array_size": 3},
            {"options": {"array": "0-3"}},
            "its array has 4 elements, the limit is 3; submit it in parts",
        ),
        (
            {"environment_kib": 1},
            {"environment": {"A": "x" * 1022}},
            "its environment has 2 KiB, the limit is 1; submit it with fewer or shorter variables",
        ),
    ],
)
def test_what_no_waiting_can_change_fails_with_the_reason(
    place: Place, limits: dict[str, Any], changes: dict[str, Any], reason: str
) -> None:
    before = place.put(**changes)
    place.scan.run()
    assert place.state(before.ticket) == "PENDING"
    place.limit(**limits)
    mine = place.put(**changes)
    place.scan.run()
    (job,) = place.made(mine.ticket)
    assert (job.state, job.reason) == (JobState.FAILED, reason)
    assert place.waiting() == []
    kept = place.store.submissions.of_ticket(mine.ticket).envelope
    assert bool(kept.environment) is ("environment" not in changes), "too large to be kept"


def test_beyond_the_limit_of_queued_jobs_the_spool_waits_and_an_array_enters_in_parts(
    place: Place,
) -> None:
    place.limit(queued_jobs=4)
    first, array, last = place.put(), place.put(options={"array": "0-4"}), place.put()
    assert place.scan.run() == 1.0, "it looks again, but not at once"
    assert taken(place, first.ticket, array.ticket, last.ticket) == [1, 3, 0]
    for number, expected in ((1, [1, 4, 0]), (2, [1, 5, 0]), (3, [1, 5, 1])):
        job = place.made(first.ticket)[0] if number == 1 else place.made(array.ticket)[number]
        place.process([ev.CancelRequested(at=place.world.now, job_id=job.id, by="me")])
        place.now_s += 1.0
        place.scan.run()
        assert taken(place, first.ticket, array.ticket, last.ticket) == expected
    assert place.waiting() == [] and place.refused() == 0


def test_a_user_who_rests_delays_nobody_else(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.limit(queued_jobs=1)
    mine, theirs = [place.put() for _ in range(3)], place.put()
    place.limit(queued_jobs=1)
    place.owned_by(monkeypatch, {theirs.ticket: 1002, **{e.ticket: 1001 for e in mine}})
    place.scan.run()
    assert taken(place, *(e.ticket for e in mine), theirs.ticket) == [1, 0, 0, 1]


def test_a_flood_of_refusals_waits_in_the_spool(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "REFUSED_AN_HOUR", 4)
    place.limit(priority_max=0, queued_jobs=100)
    bad = [place.put(options={"priority": "1"}) for _ in range(4)]
    bad += [place.put(options={"gpus": "9"}) for _ in range(3)]
    place.scan.run()
    assert sum(taken(place, *(e.ticket for e in bad))) == 4
    place.now_s += 1800.0
    place.scan.run()
    assert sum(taken(place, *(e.ticket for e in bad))) == 6
    assert len(place.waiting()) == 1


def test_what_is_too_much_in_the_spool_is_moved_away_unread(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    place.limit(queued_jobs=1, spool_files=3)
    made = [place.put() for _ in range(6)]
    with caplog.at_level(logging.WARNING, "radrm"):
        place.scan.run()
    assert sum(taken(place, *(e.ticket for e in made))) == 1
    assert (len(place.waiting()), place.refused()) == (2, 3)
    (said,) = [r.getMessage() for r in caplog.records if "too much" in r.getMessage()]
    assert said.startswith(f"uid {ME} has too much in the spool: at most 3 files")
    assert place.arrivals.use_of(ME).files == 2


def test_bytes_count_too(place: Place) -> None:
    place.limit(queued_jobs=1, spool_mib=1)
    made = [place.put(summary="x" * 600_000) for _ in range(3)]
    place.scan.run()
    assert sum(taken(place, *(e.ticket for e in made))) == 1
    assert place.refused() == 2
