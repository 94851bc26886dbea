"""`radrm history`: which jobs it lists, in which order, and their sums."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.core.words import JobState, Outcome
from radrm.daemon.answers.past import history as answers
from radrm.errors import Refused, UsageError
from radrm.structs import replace
from tests.daemon.answers.past.pasts import DAY_S, HOUR_S, MIDNIGHT, Past, attempt, job

JOBS = [
    job(1, started=0, ended=9 * HOUR_S),
    job(2, JobState.FAILED, started=0, ended=HOUR_S, user="bob"),
    job(3, JobState.TIMEOUT, started=0, ended=5 * HOUR_S),
    job(4, JobState.RUNNING, started=0),
    job(12, JobState.CANCELLED, ended=HOUR_S, user="bob"),
]
ATTEMPTS = [
    attempt(1, 1, 0, HOUR_S, "A", outcome=Outcome.OOM),
    attempt(1, 2, HOUR_S, 9 * HOUR_S, "B"),
    attempt(2, 3, 0, HOUR_S, "A"),
    attempt(3, 4, 0, 5 * HOUR_S, "A"),
    attempt(4, 5, 0, None, "B"),
]


@pytest.fixture
def past(monkeypatch: pytest.MonkeyPatch) -> Past:
    def documents(loop: Any, ids: Any, *_: Any) -> Any:
        yield
        return [each.job_id for each in ids], False

    monkeypatch.setattr(answers, "documents_of", documents)
    return Past(JOBS, ATTEMPTS)


FILTERS: list[tuple[dict[str, Any], list[int]]] = [
    ({}, [2, 12, 3, 1]),
    ({"user": "bob"}, [2, 12]),
    ({"state": "failed,timeout"}, [2, 3]),
    ({"name": "j1*"}, [12, 1]),
    ({"gpu": "0"}, [2, 3, 1]),
    ({"gpu": "1", "user": "ada"}, [1]),
    ({"until": MIDNIGHT + 5 * HOUR_S}, [2, 12]),
    ({"since": MIDNIGHT + 2 * HOUR_S}, [3, 1]),
    ({"limit": 2}, [3, 1]),
    ({"limit": 2, "offset": 2}, [2, 12]),
    ({"limit": 3, "offset": 3}, [2]),
    ({"offset": 9}, []),
]


@pytest.mark.parametrize(("words", "ids"), FILTERS)
def test_the_newest_is_last(past: Past, words: dict[str, Any], ids: list[int]) -> None:
    assert past.history(**words)["jobs"] == ids


def test_the_jobs_of_several_users_are_in_one_order(past: Past) -> None:
    past.jobs = [
        replace(each, spec=replace(each.spec, uid=1000 + each.id % 3))
        for each in (job(n, ended=(n * 7 % 10) * HOUR_S) for n in range(1, 10))
    ]
    assert past.history()["jobs"] == [3, 6, 9, 2, 5, 8, 1, 4, 7]
    assert past.history(limit=2, offset=3)["jobs"] == [5, 8]


def test_the_sums_are_those_of_all_pages(past: Past) -> None:
    sums = past.history(limit=1)["sums"]
    assert (sums["jobs"], sums["failed"], sums["timeout"], sums["oom_deaths"]) == (4, 1, 1, 1)
    # In the first hour three jobs share GPU A; from the second on job 1 shares B with job 4.
    assert sums["gpu_s"] / HOUR_S == pytest.approx(1 + 4 + 4)
    assert past.history(user="bob")["sums"]["gpu_s"] / HOUR_S == pytest.approx(1 / 3)


# Job 1 failed in the first hour of the first day, and completed after a requeue on the second;
# job 2 was cancelled before it started, and runs now.
AGAIN = Past(
    jobs=[
        job(1, run=2, attempts=3, rerun=2 * HOUR_S, started=30 * HOUR_S, ended=32 * HOUR_S),
        job(2, JobState.RUNNING, run=2, rerun=3 * HOUR_S, started=4 * HOUR_S),
    ],
    attempts=[
        attempt(1, 1, 0, HOUR_S / 2, "A", outcome=Outcome.OOM),
        attempt(1, 2, HOUR_S / 2, HOUR_S, "A", outcome=Outcome.FAILED),
        attempt(1, 3, 30 * HOUR_S, 32 * HOUR_S, "A"),
        attempt(2, 4, 4 * HOUR_S, None, "B"),
    ],
    earlier=[
        job(1, JobState.FAILED, attempts=2, started=0, ended=HOUR_S),
        job(2, JobState.CANCELLED, attempts=0, ended=2 * HOUR_S),
    ],
    now_s=40 * HOUR_S,
)


@pytest.mark.parametrize(
    ("words", "jobs", "sums"),
    [
        ({}, [1, 2, 1], (2, 3, 1, 1, 1, 1, 3)),
        ({"state": "failed"}, [1], (1, 1, 0, 1, 0, 1, 1)),
        ({"state": "completed"}, [1], (1, 1, 1, 0, 0, 0, 2)),
        ({"until": MIDNIGHT + DAY_S}, [1, 2], (2, 2, 0, 1, 1, 1, 1)),
        ({"since": MIDNIGHT + DAY_S}, [1], (1, 1, 1, 0, 0, 0, 2)),
    ],
)
def test_each_run_that_ended_stays_with_its_own_figures(
    monkeypatch: pytest.MonkeyPatch, words: dict[str, Any], jobs: list[int], sums: tuple[int, ...]
) -> None:
    def documents(loop: Any, ids: Any, *_: Any) -> Any:
        yield
        return [each.job_id for each in ids], False

    monkeypatch.setattr(answers, "documents_of", documents)
    found = AGAIN.history(**words)
    keys = ("jobs", "runs", "completed", "failed", "cancelled", "oom_deaths")
    assert found["jobs"] == jobs and found["total"] == len(jobs)
    assert tuple(found["sums"][key] for key in keys) == sums[:-1]
    assert found["sums"]["gpu_s"] / HOUR_S == pytest.approx(sums[-1])


def test_a_report_counts_a_job_once_and_each_of_its_runs() -> None:
    total = AGAIN.report()["total"]
    assert (total["jobs"], total["runs"], total["completed"], total["failed"]) == (2, 3, 1, 1)
    # Job 2 has held B for 36 hours, and job 1 A for three.
    assert total["gpu_s"] / HOUR_S == pytest.approx(39)
    assert total["waited_s"] / HOUR_S == pytest.approx((0 + 28) / 2)
    days = {row["day"]: (row["jobs"], row["runs"]) for row in AGAIN.report("day")["rows"]}
    assert list(days.values()) == [(2, 2), (1, 1)]
    overview = AGAIN.overview()
    assert overview["total"]["jobs"] == 2


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ({"state": "running"}, "RUNNING is not the end of a job"),
        ({"state": "asleep"}, "is not a state"),
        ({"gpu": "7"}, "there is no GPU '7'"),
        ({"name": 7}, "name as a text"),
        ({"name": "x" * 300}, "at most 256"),
        ({"since": MIDNIGHT + 9 * DAY_S}, "begins before it ends"),
        ({"limit": 0}, "a page has"),
    ],
)
def test_a_mistake_is_refused(past: Past, words: dict[str, Any], error: str) -> None:
    with pytest.raises((UsageError, Refused), match=error):
        past.history(**words)
