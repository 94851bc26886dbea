"""Jobs that follow one whose record was removed, and questions about it."""

from __future__ import annotations

import pytest

from radrm.core import events as ev
from radrm.core.words import JobState
from radrm.daemon.intake.scan import Scan
from radrm.daemon.serving.turns import finish
from radrm.daemon.views.references import References
from radrm.errors import Refused
from radrm.host.storage.retention.rows import Place as Start
from tests.daemon.intake.place import Place


@pytest.fixture
def removed(place: Place) -> Place:
    """Job 1 and array 2 (elements 2 to 4) have ended, and their records have been removed."""
    place.put()
    place.scan.run()
    place.put(options={"array": "0-2"})
    place.scan.run()
    now = place.clock.now()
    place.process([ev.CancelRequested(at=now, job_id=n, by="ann") for n in (1, 2, 3, 4)])
    rows, done = place.store.rows, Start()
    rows.kept_for = "90 days"
    uid = next(rows.users())
    while done is not None:
        _, done = rows.remove(uid, now.wall_s + 60, done, lambda: False)
    assert place.store.finished(10) == []
    return place


@pytest.mark.parametrize("word", ["1", "2", "2_1"])
def test_its_end_is_known_and_not_how(removed: Place, word: str) -> None:
    follower = removed.put(options={"after": [word]})
    either = removed.put(options={"after": [f"{word}:any"]})
    removed.scan.run()
    (refused,), (fine,) = removed.made(follower.ticket), removed.made(either.ticket)
    assert refused.state is JobState.FAILED
    assert f"--after={word}: job {word} has ended, and its record was removed" in refused.reason
    assert "90 days" in refused.reason
    assert fine.state is JobState.PENDING and fine.after == ()
    (found,) = finish(References(removed.scheduler, removed.store).find([word]))
    assert "has ended, and its record was removed" in str(found.error)


def test_a_number_that_was_never_a_job_is_none(removed: Place) -> None:
    find = References(removed.scheduler, removed.store)
    for word in ("9", "0", "9_1"):
        with pytest.raises(Refused, match="there is no job"):
            find.target(word)


def test_what_waits_in_the_spool_is_seen(place: Place) -> None:
    """Retention waits for it, because it may follow an old job."""
    assert not place.scan.empty, "nothing was listed yet"
    place.put()
    assert not place.scan.empty
    place.scan.run()
    assert place.scan.empty
    again = Scan(place, place.arrivals, place.known, tick=lambda: 0.0)
    assert not again.empty
