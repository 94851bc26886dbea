"""The run time left: the sources in their order, and what holds for all of them."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core.records import (
    Attempt,
    Estimate,
    Instant,
    Job,
    JobSpec,
    Placement,
    Profiled,
    Progress,
    Stop,
)
from radrm.core.remaining import (
    OVERRUN,
    Remaining,
    latest_end_s,
    length_s,
    profiled_s,
    remaining,
    remaining_on,
    work_left,
)
from radrm.core.words import Collocation, Quantity, StopReason
from radrm.structs import replace

BEGIN = Instant(1000.0, 1_700_000_000.0, "a")
V100, T4 = ("V100", 1), ("T4", 2)
PROFILE = (Profiled("V100", 1, 400.0), Profiled("T4", 2, 1200.0))


def at(seconds: float) -> Instant:
    return BEGIN.at(BEGIN.boot_s + seconds)


def job_of(
    duration_s: float | None = None,
    upper_s: float | None = None,
    limit_s: float | None = None,
    saved: float | None = None,
    report: tuple[float, float] | None = None,
    profile: tuple[Profiled, ...] = (),
    used_s: float = 0.0,
) -> Job:
    """A job; `report` is the time of its last report and the work done then."""
    most_s = duration_s if upper_s is None else upper_s
    found = [] if duration_s is None else [(duration_s, most_s or duration_s)]
    return Job(
        id=1,
        ticket="T1",
        spec=JobSpec(name="a", user="ann", uid=1000, time_limit_s=limit_s),
        submitted=BEGIN,
        estimates=tuple(Estimate(Quantity.DURATION, v, m, "history") for v, m in found),
        saved=None if saved is None else Progress(BEGIN, work_done=saved),
        progress=None if report is None else Progress(at(report[0]), work_done=report[1]),
        profile=profile,
        used_s=used_s,
    )


def attempt(began: float | None = None, number: int = 1) -> Attempt:
    record = Attempt(1, number, 1, Placement((), Collocation.MPS), BEGIN.at(990.0), BEGIN)
    return record if began is None else replace(record, began=Progress(BEGIN, work_done=began))


def resized(when_s: float, work_done: float | None) -> Attempt:
    """An attempt that has its present size since then, with so much done."""
    return replace(attempt(), sized=Progress(at(when_s), work_done=work_done))


LIVE = attempt()
TABLE: list[tuple[Job, Attempt | None, float, dict[str, Any], tuple[float, float, str] | None]] = [
    # job, live attempt, seconds since its start, more; value, upper, source
    (job_of(), None, 0, {}, None),
    (job_of(), LIVE, 50, {}, None),
    (job_of(600, 900), None, 50, {}, (600, 900, "history")),
    (job_of(600, 900), LIVE, 50, {}, (550, 850, "history")),
    (job_of(600, 900, saved=0.5), None, 50, {}, (300, 450, "history")),
    (job_of(600, 900, saved=0.5), attempt(0.5, 2), 50, {}, (250, 400, "history")),
    (job_of(600, 900, saved=0.9), attempt(0.0, 2), 50, {}, (550, 850, "history")),
    (job_of(600, 900), attempt(None, 2), 50, {}, (550, 850, "history")),
    # beyond its estimate
    (job_of(600, 900), LIVE, 700, {}, (70, 200, "history")),
    (job_of(600, 900), LIVE, 1000, {}, (100, 100, "history")),
    # beside others
    (job_of(600, 900), LIVE, 50, {"speed": 0.5}, (1150, 1750, "history")),
    (job_of(600, 900), LIVE, 1100, {"speed": 0.5}, (100, 700, "history")),
    # the time limit, which counts what earlier attempts used
    (job_of(limit_s=600), None, 0, {}, (600, 600, "time limit")),
    (job_of(limit_s=600), LIVE, 50, {}, (550, 550, "time limit")),
    (job_of(limit_s=600, used_s=100), LIVE, 50, {}, (450, 450, "time limit")),
    (job_of(limit_s=600), LIVE, 700, {}, (0, 0, "time limit")),
    (job_of(600, 900, limit_s=300), LIVE, 50, {}, (250, 250, "history")),
    # nothing known, and what to assume
    (job_of(), None, 0, {"unknown_s": 60}, (60, inf, "assumed")),
    (job_of(limit_s=40), None, 0, {"unknown_s": 60}, (40, 40, "assumed")),
    (job_of(600, 900), None, 0, {"unknown_s": 60}, (600, 900, "history")),
    # its profile, where the GPUs are known
    (job_of(600, profile=PROFILE), None, 0, {"kind": "V100", "gpus": 1}, (400, 500, "profile")),
    (job_of(600, profile=PROFILE), None, 0, {"kind": "V100", "gpus": 2}, (600, 600, "history")),
    (job_of(profile=PROFILE), None, 0, {"kind": "A100", "gpus": 1}, (400, inf, "assumed")),
    (job_of(profile=PROFILE), None, 0, {"kind": "A100", "gpus": 4}, None),
    (job_of(profile=PROFILE), None, 0, {}, None),
    (job_of(600, profile=PROFILE), None, 0, {}, (600, 600, "history")),
    # its reports: 100 s for a tenth
    (job_of(600, report=(100, 0.1)), LIVE, 100, {}, (900, 1125, "progress")),
    (job_of(600, report=(100, 0.1)), LIVE, 150, {"speed": 0.5}, (850, 1075, "progress")),
    (job_of(600, report=(100, 0.6)), attempt(0.5, 2), 100, {}, (400, 500, "progress")),
    (job_of(600, report=(100, 1.0)), LIVE, 150, {}, (0, 0, "progress")),
    (job_of(report=(100, 0.9)), LIVE, 113, {}, (0, 8 / 9, "progress")),  # it reports late
    (job_of(report=(100, 0.9)), LIVE, 115, {}, None),
    (job_of(600, report=(10, 0.001)), LIVE, 50, {}, (550, 550, "history")),
    (job_of(600, report=(100, 0.9)), LIVE, 300, {}, (300, 300, "history")),
    (job_of(600, report=(100, 0.6)), attempt(None, 2), 100, {}, (500, 500, "history")),
    # at its present size: 100 s for a tenth, then 50 s for another; too little of it is unknown
    (job_of(report=(150, 0.2)), resized(100, 0.1), 150, {}, (400, 500, "progress")),
    (job_of(report=(101, 0.101)), resized(100, 0.1), 101, {}, None),
    (job_of(600, report=(101, 0.101)), resized(100, 0.1), 101, {}, (499, 499, "history")),
    (job_of(report=(100, 0.1)), resized(50, None), 100, {}, None),
]


@pytest.mark.parametrize(("job", "live", "now_s", "more", "expected"), TABLE)
def test_the_best_source_answers(
    job: Job,
    live: Attempt | None,
    now_s: float,
    more: dict[str, Any],
    expected: tuple[float, float, str] | None,
) -> None:
    found = remaining(job, live, at(now_s), **more)
    if found is None or expected is None:
        assert found is expected is None
        return
    assert (found.value_s, found.upper_s) == pytest.approx(expected[:2])
    assert found.source == expected[2]


def test_a_reboot_since_its_start_counts_no_time() -> None:
    later = Instant(5.0, BEGIN.wall_s + 900, "b")
    assert remaining(job_of(600), LIVE, later) == Remaining(600, 600, "history")


ELSEWHERE = [
    # job, live attempt, there, here; value, source
    (job_of(600, profile=PROFILE), None, T4, None, 1200, "profile"),
    (job_of(600, profile=PROFILE, saved=0.5), None, T4, None, 600, "profile"),
    (job_of(600), None, T4, None, 600, "history"),
    (job_of(600, profile=PROFILE), LIVE, T4, V100, 900, "profile"),  # a quarter is done
    (job_of(600, profile=PROFILE), LIVE, V100, V100, 300, "profile"),
    (job_of(600, profile=PROFILE), LIVE, T4, ("A100", 1), 1000, "profile"),  # 100 of 600 s
    (job_of(600, profile=PROFILE), LIVE, ("A100", 1), V100, 300, "profile"),
    (job_of(profile=PROFILE, report=(100, 0.5)), LIVE, T4, V100, 600, "profile"),
    (job_of(profile=PROFILE, report=(100, 0.5)), LIVE, V100, V100, 100, "progress"),
    (job_of(profile=PROFILE[1:]), LIVE, T4, V100, None, None),
    (job_of(profile=PROFILE, limit_s=700), LIVE, T4, V100, 600, "profile"),
]


@pytest.mark.parametrize(("job", "live", "there", "here", "value_s", "source"), ELSEWHERE)
def test_the_time_on_other_gpus(
    job: Job,
    live: Attempt | None,
    there: tuple[str, int],
    here: tuple[str, int] | None,
    value_s: float | None,
    source: str | None,
) -> None:
    found = remaining_on(job, live, at(100.0), there, here)
    assert (found.value_s if found else None) == pytest.approx(value_s)
    assert (found.source if found else None) == source


parts = st.floats(0.0, 1.0)
seconds = st.floats(1.0, 1e6)
jobs = st.builds(
    job_of,
    duration_s=st.none() | seconds,
    upper_s=seconds,
    limit_s=st.none() | seconds,
    saved=st.none() | parts,
    report=st.none() | st.tuples(st.floats(1.0, 1e5), parts),
    profile=st.sampled_from([(), PROFILE]),
)
lives = st.none() | st.builds(attempt, began=st.none() | parts, number=st.integers(1, 2))
speeds = st.floats(0.05, 1.0)


@given(jobs, lives, st.floats(0.0, 1e6), speeds)
def test_what_is_left_is_never_below_zero_nor_beyond_its_bounds(
    job: Job, live: Attempt | None, now_s: float, speed: float
) -> None:
    now = at(now_s)
    found = remaining(job, live, now, kind="V100", gpus=1, speed=speed)
    if found is None:
        assert job.limit_s is None
        return
    assert min(found.value_s, found.upper_s) >= 0.0
    if found.source in ("profile", "progress", "time limit"):
        assert found.value_s <= found.upper_s
    if job.limit_s is not None:
        ran_s = now_s if live is not None else 0.0
        assert max(found.value_s, found.upper_s) <= max(0.0, job.limit_s - ran_s) + 1e-6
    left = work_left(job, live, now, V100)
    assert left is None or 0.0 <= left <= 1.0


@given(seconds, st.floats(0.0, 1e6), speeds)
def test_beside_others_it_never_takes_less_time(
    duration_s: float, now_s: float, speed: float
) -> None:
    job, now = job_of(duration_s), at(now_s)
    alone, beside = remaining(job, LIVE, now), remaining(job, LIVE, now, speed=speed)
    assert alone is not None and beside is not None
    if now_s < duration_s - 1e-3:
        assert beside.value_s >= alone.value_s - 1e-6
    elif now_s > duration_s + 1e-3:
        assert alone.value_s == pytest.approx(OVERRUN * now_s)


@given(jobs, parts, parts)
def test_more_saved_work_leaves_no_more_to_do(job: Job, first: float, second: float) -> None:
    less, more = sorted([first, second])
    left = [
        remaining(replace(job, saved=Progress(BEGIN, work_done=done)), None, at(9.0))
        for done in (less, more)
    ]
    if left[0] is not None and left[1] is not None:
        assert left[1].value_s <= left[0].value_s


def test_a_profile_names_kind_and_number() -> None:
    job = job_of(profile=PROFILE)
    assert profiled_s(job, "T4", 2) == 1200.0
    assert profiled_s(job, "T4", 1) is profiled_s(job, "V100", 2) is None


def test_a_later_report_of_the_loss_alone_makes_the_job_no_slower() -> None:
    job = job_of()
    told = Progress(at(150), work_done=0.1, loss=0.5, step_at=at(100))
    found = remaining(replace(job, progress=told), LIVE, at(150))
    assert found == Remaining(850.0, 1075.0, "progress")


@pytest.mark.parametrize(
    ("job", "most_s"),
    [
        (job_of(), inf),
        (job_of(600, 900), 900),
        (job_of(600, 900, saved=0.5), 450),  # half of its work is saved
        (job_of(600, 900, limit_s=1200), 1200),  # it may last so long, whatever is predicted
        (job_of(600, 900, limit_s=300, used_s=100), 200),
        (job_of(profile=PROFILE), inf),
    ],
)
def test_how_long_a_new_attempt_has_its_devices_at_most(job: Job, most_s: float) -> None:
    assert length_s(job) == most_s


@pytest.mark.parametrize(
    ("limit_s", "kill_s", "after_s", "end_s"),
    [
        (None, None, 50, inf),
        (600, None, 50, 600),
        (600, None, 700, 700),  # never past
        (None, 80, 50, 80),
        (600, 80, 50, 80),
        (600, 900, 50, 600),
    ],
)
def test_the_latest_end_is_the_limit_or_the_kill_of_a_stop(
    limit_s: float | None, kill_s: float | None, after_s: float, end_s: float
) -> None:
    stop = None if kill_s is None else Stop(StopReason.PREEMPTED, BEGIN, BEGIN.boot_s + kill_s)
    live = replace(LIVE, stop=stop)
    assert latest_end_s(job_of(limit_s=limit_s), live, at(after_s)) == BEGIN.boot_s + end_s
