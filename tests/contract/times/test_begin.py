"""A job with `--begin`: outside the queue until its moment, by the wall clock."""

from __future__ import annotations

import pytest

from radrm.core.records import Dependency
from radrm.core.words import Condition, JobState
from tests.world import EPOCH_S, GIB, World, gpus

LATER_S = EPOCH_S + 1000.0 + 3600.0
"""An hour after a world begins."""


def test_a_job_does_not_start_before_its_moment_and_others_pass() -> None:
    world = World(gpus(1))
    early = world.submit(30 * GIB, priority=9, begin_s=LATER_S)
    other = world.submit(30 * GIB, smact=0.9)
    assert world.state(other) is JobState.RUNNING
    assert [r.message for r in world.scheduler.why_waiting(early.id, world.now)] == [
        "it begins in 1h00m"
    ]
    world.end(other)
    world.pass_time(3599.0)
    assert world.state(early) is JobState.PENDING
    world.pass_time(1.0)
    assert world.state(early) is JobState.RUNNING


def test_a_moment_that_is_over_does_not_matter() -> None:
    world = World(gpus(1))
    assert world.state(world.submit(GIB, begin_s=EPOCH_S)) is JobState.RUNNING


def test_the_moment_comes_without_an_event_in_between() -> None:
    world = World(gpus(1))
    job = world.submit(GIB, begin_s=LATER_S)
    assert world.decisions[-1].wake_at == pytest.approx(world.boot_s + 3600.0)
    assert not job.held and job.awaits_begin


@pytest.mark.parametrize("begin_s", [None, EPOCH_S, LATER_S - 1800.0])
def test_an_edit_moves_the_moment(begin_s: float | None) -> None:
    world = World(gpus(1))
    job = world.submit(GIB, begin_s=LATER_S)
    assert world.edit(job, begin_s=begin_s) is None
    world.pass_time(1801.0 if begin_s == LATER_S - 1800.0 else 0.0)
    assert world.state(job) is JobState.RUNNING
    assert "only while it waits" in (world.edit(job, begin_s=LATER_S) or "")


def test_a_job_that_waits_in_line_can_get_a_moment() -> None:
    world = World(gpus(1))
    first, second, third = (world.submit(30 * GIB, smact=0.9) for _ in range(3))
    assert world.edit(second, begin_s=LATER_S) is None
    world.end(first)
    assert world.state(third) is JobState.RUNNING
    assert world.why(second) == ["begin"]


def test_a_restart_keeps_the_moment() -> None:
    world = World(gpus(1))
    job = world.submit(GIB, begin_s=LATER_S)
    world.restart()
    assert world.state(job) is JobState.PENDING
    world.pass_time(3600.0)
    assert world.state(job) is JobState.RUNNING


def test_the_moment_can_come_while_no_daemon_runs() -> None:
    world = World(gpus(1))
    job = world.submit(GIB, begin_s=LATER_S)
    world.boot_s += 4000.0
    world.restart()
    assert world.state(job) is JobState.RUNNING


def test_after_a_reboot_the_date_counts() -> None:
    world = World(gpus(1))
    job = world.submit(GIB, begin_s=LATER_S)
    world.boot_s, world.ahead_s = 10.0, 1500.0
    world.restart()
    world.pass_time(3089.0)
    assert world.state(job) is JobState.PENDING
    world.ahead_s -= 100.0  # somebody sets the clock back
    world.pass_time(1.0)
    assert world.state(job) is JobState.PENDING
    world.pass_time(100.0)
    assert world.state(job) is JobState.RUNNING


def test_hold_and_begin_are_two_things() -> None:
    world = World(gpus(1))
    job = world.submit(GIB, begin_s=LATER_S)
    world.hold(job)
    world.pass_time(3600.0)
    assert world.why(job) == ["held"]
    world.hold(job, False)
    assert world.state(job) is JobState.RUNNING


def test_a_job_waits_for_others_and_for_its_moment() -> None:
    world = World(gpus(2))
    first = world.submit(GIB)
    job = world.submit(GIB, begin_s=LATER_S, after=[Dependency(first.id, Condition.OK)])
    world.pass_time(3600.0)
    assert world.why(job) == ["dependency"]
    world.end(first)
    assert world.state(job) is JobState.RUNNING


def test_a_cancelled_job_that_is_requeued_still_waits_for_its_moment() -> None:
    world = World(gpus(1))
    job = world.submit(GIB, begin_s=LATER_S)
    world.cancel(job)
    world.requeue(job)
    assert world.why(job) == ["begin"]
    world.cancel(job)
    world.pass_time(3600.0)
    world.requeue(job)
    assert world.state(job) is JobState.RUNNING


def test_an_element_that_waits_takes_no_place_of_its_array() -> None:
    world = World(gpus(2))
    one, two, three = world.submit_array(3, GIB, at_once=1, begin_s=LATER_S)
    world.edit(three, begin_s=None)
    assert world.state(three) is JobState.RUNNING
    world.pass_time(3600.0)
    assert [world.state(each) for each in (one, two)] == [JobState.PENDING] * 2
    world.end(three)
    assert world.state(one) is JobState.RUNNING


# ------------------------------------------------------------------ --retry-on


NOT_THIS = "not retried: --retry-on has the exit codes 75-80, 137"


@pytest.mark.parametrize(
    ("retries", "end", "reason"),
    [
        *((2, end, None) for end in ({"code": 75}, {"code": 80}, {"signal": 9})),
        (2, {"code": 81}, f"exit code 81; {NOT_THIS}"),
        (2, {"code": None}, None),  # of unknown code, and not retried
        (0, {"code": 81}, "exit code 81"),  # as ever: there is no retry left
    ],
)
def test_only_failures_with_these_codes_are_retried(
    retries: int, end: dict[str, int | None], reason: str | None
) -> None:
    world = World(gpus(1))
    job = world.submit(GIB, retries=retries, retry_on=((75, 80), (137, 137)))
    world.end(job, **end)
    found = world.jobs[job.id]
    again = reason is None and end != {"code": None}
    assert found.state is (JobState.PENDING if again else JobState.FAILED)
    assert reason is None or found.reason == reason
