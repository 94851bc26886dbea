"""What a move wins, and what it costs."""

from __future__ import annotations

import pytest

from radrm.core.records import (
    Attempt,
    Checkpoint,
    Estimate,
    Instant,
    Job,
    JobSpec,
    Placement,
    Progress,
)
from radrm.core.settings import CoreSettings
from radrm.core.words import CheckpointKind, Collocation, Quantity
from radrm.published.convergence import Note
from radrm.published.specon import (
    JobOnDevice,
    cost_of_move_s,
    ends,
    speeds_of,
    time_won,
    work_left_s,
)
from radrm.structs import replace

LAUNCHED = Instant(1000.0, 5000.0)
NOW = LAUNCHED.at(1100.0)
ATTEMPT = Attempt(1, 1, 1, Placement((), Collocation.MPS), LAUNCHED, LAUNCHED.at(1004.0))
SETTINGS = CoreSettings(checkpoint_limit_s=300.0)


def job(cost_s: float | None = None, duration_s: float | None = None) -> Job:
    checkpoint = Checkpoint(CheckpointKind.SIGNAL, cost_s)
    spec = JobSpec(name="job", user="ann", uid=1000, checkpoint=checkpoint)
    found = (Estimate(Quantity.DURATION, duration_s, duration_s, "test"),) if duration_s else ()
    return Job(1, "T1", spec, LAUNCHED, estimates=found)


def busy(*lefts: float, smact: float = 1.0) -> list[JobOnDevice]:
    return [JobOnDevice(number, smact, True, left_s) for number, left_s in enumerate(lefts)]


def test_jobs_that_share_end_when_the_model_says_so() -> None:
    (speed, _) = speeds_of(busy(10.0, 20.0))
    found = ends(busy(10.0, 20.0))
    assert found[0] == pytest.approx(10.0 / speed)
    assert found[1] == pytest.approx(10.0 / speed + 10.0), "alone for the rest"
    assert ends([]) == {} and ends(busy(0.0)) == {0: 0.0}


def test_a_move_to_an_idle_device_wins_for_both() -> None:
    here = busy(100.0, 100.0)
    own_s, all_s = time_won(here[0], here, [], 20.0)
    together_s = ends(here)[0]
    assert own_s == pytest.approx(together_s - 100.0 - 20.0)
    assert all_s == pytest.approx(2 * (together_s - 100.0))


def test_a_move_between_equal_devices_wins_nothing() -> None:
    here = busy(100.0, 100.0)
    there = [replace(here[0], job_id=7)]
    assert time_won(here[0], here, there, 0.0) == pytest.approx((0.0, 0.0))


def test_jobs_that_hardly_use_the_device_win_nothing() -> None:
    here = busy(100.0, 100.0, smact=0.05)
    assert max(time_won(here[0], here, [], 0.0)) < 3.0


def test_the_work_left_is_what_the_reports_say() -> None:
    note = Note(1, at=[1100.0, 5100.0, None], done=0.6, rate=0.004)
    assert work_left_s(job(duration_s=9000.0), ATTEMPT, note, 0.5, NOW) == pytest.approx(50.0)
    later = NOW.at(1140.0)
    assert work_left_s(job(), ATTEMPT, note, 0.5, later) == pytest.approx(30.0)


def test_else_it_is_the_rest_of_the_predicted_duration_or_as_long_as_it_has_lasted() -> None:
    assert work_left_s(job(duration_s=90.0), ATTEMPT, None, 0.5, NOW) == pytest.approx(42.0)
    assert work_left_s(job(duration_s=10.0), ATTEMPT, None, 0.5, NOW) == pytest.approx(4.8)
    assert work_left_s(job(), ATTEMPT, Note(1), 0.5, NOW) == pytest.approx(48.0)
    again = replace(ATTEMPT, number=2, began=Progress(LAUNCHED, work_done=0.5))
    assert work_left_s(job(duration_s=120.0), again, None, 0.5, NOW) == pytest.approx(12.0)


@pytest.mark.parametrize(
    ("stated_s", "saved_s", "begin_s", "cost_s"),
    [
        (None, None, None, 304.0),  # nothing known: the core's patience, and the start
        (20.0, None, None, 24.0),
        (20.0, 3.0, None, 7.0),  # as measured
        (20.0, 3.0, 30.0, 33.0),
        (20.0, -8.0, None, 24.0),  # a save before it was asked for
        (None, 4000.0, None, 304.0),
    ],
)
def test_the_cost_is_as_measured_if_it_was(
    stated_s: float | None, saved_s: float | None, begin_s: float | None, cost_s: float
) -> None:
    mine, attempt = job(stated_s), ATTEMPT
    if saved_s is not None:
        attempt = replace(attempt, checkpoint_asked=LAUNCHED.at(1050.0))
        mine = replace(mine, saved_at=LAUNCHED.at(1050.0 + saved_s))
    assert cost_of_move_s(mine, attempt, Note(1, begin_s=begin_s), SETTINGS) == cost_s
