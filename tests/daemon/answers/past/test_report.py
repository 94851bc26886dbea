"""The sums of `radrm report`: what counts where, and that all rows add up."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.core.words import JobState, Outcome
from radrm.daemon.answers.past import gather
from radrm.daemon.answers.past import report as answers
from radrm.daemon.serving.turns import finish
from radrm.deadlines import Costs
from radrm.errors import Refused, UsageError
from radrm.structs import replace
from tests.daemon.answers.past.pasts import (
    BERLIN_LIKE,
    DAY_S,
    HOUR_S,
    MIDNIGHT,
    Past,
    attempt,
    job,
)
from tests.examples import some

COUNTS = ("jobs", "completed", "failed", "timeout", "cancelled", "oom_deaths")


def hours(answer: Any) -> dict[Any, float]:
    return {row[answer["by"]]: row["gpu_s"] / HOUR_S for row in answer["rows"]}


def test_a_shared_gpu_is_divided() -> None:
    past = Past(
        [
            job(1, started=0, ended=2 * HOUR_S, user="ada"),
            job(2, started=0, ended=4 * HOUR_S, user="bob"),
        ],
        [attempt(1, 1, 0, 2 * HOUR_S, "A"), attempt(2, 2, HOUR_S, 4 * HOUR_S, "A", "B")],
    )
    assert hours(past.report("user")) == {"bob": pytest.approx(5.5), "ada": pytest.approx(1.5)}
    assert hours(past.report("gpu")) == {"A": pytest.approx(4), "B": pytest.approx(3)}
    assert past.report()["total"]["gpu_s"] == pytest.approx(7 * HOUR_S)


def test_gpus_are_in_their_order_and_those_that_are_gone_last() -> None:
    ends_h = {"A": 1, "C": 2, "gone": 4, "B": 3}
    attempts = [attempt(n, n, 0, h * HOUR_S, gpu) for n, (gpu, h) in enumerate(ends_h.items(), 1)]
    jobs = [job(n, started=0, ended=h * HOUR_S) for n, h in enumerate(ends_h.values(), 1)]
    assert list(hours(Past(jobs, attempts, gpus=tuple("ABC")).report("gpu"))) == [*"ABC", "gone"]


def test_each_end_counts_once_and_waits_are_a_mean() -> None:
    ends = [
        job(1, started=10, ended=50),
        job(2, JobState.FAILED, started=30, ended=50),
        job(3, JobState.CANCELLED, ended=60),
        job(4, JobState.TIMEOUT, started=50, ended=70),
        job(5, JobState.RUNNING, started=99),
    ]
    deaths = [
        attempt(2, 2, 30, 40, "A", outcome=Outcome.OOM),
        attempt(5, 3, 30, 41, "A", "B", outcome=Outcome.OOM),
        attempt(5, 4, 99, None, "A"),
    ]
    answer = Past(ends, deaths, now_s=HOUR_S).report()
    (row,) = answer["rows"]
    assert [row[name] for name in COUNTS] == [4, 1, 1, 1, 1, 2]
    assert row["waited_s"] == pytest.approx(30)
    by_gpu = Past(ends, deaths, now_s=HOUR_S).report("gpu")
    assert {r["gpu"]: (r["jobs"], r["oom_deaths"]) for r in by_gpu["rows"]} == {
        "A": (1, 2),
        "B": (0, 1),
    }
    assert by_gpu["total"] == answer["total"]


def test_only_what_lies_in_the_time_counts() -> None:
    past = Past(
        [job(1, started=0, ended=30 * HOUR_S), job(2, JobState.RUNNING, started=0)],
        [attempt(1, 1, 0, 30 * HOUR_S, "A"), attempt(2, 2, 0, None, "B")],
    )
    answer = past.report(since=MIDNIGHT + HOUR_S, until=MIDNIGHT + 3 * HOUR_S)
    assert answer["total"]["gpu_s"] == pytest.approx(4 * HOUR_S)
    assert answer["total"]["jobs"] == 0 and answer["total"]["waited_s"] is None
    answer = past.report("day", until=MIDNIGHT + 2 * DAY_S)
    assert hours(answer) == {"1971-02-05": pytest.approx(48), "1971-02-06": pytest.approx(30)}
    assert [row["jobs"] for row in answer["rows"]] == [0, 1]


def test_a_death_at_another_time_does_not_count() -> None:
    deaths = [attempt(1, n, n, n * HOUR_S, "A", outcome=Outcome.OOM) for n in (1, 3, 5)]
    past = Past([job(1, ended=6 * HOUR_S)], deaths)
    answer = past.report(since=MIDNIGHT + 2 * HOUR_S, until=MIDNIGHT + 4 * HOUR_S)
    assert answer["total"]["oom_deaths"] == 1


def test_a_job_that_ends_while_it_is_looked_at_counts_once() -> None:
    past = Past([job(1, JobState.RUNNING, started=0)], [attempt(1, 1, 0, None, "A")])
    loop = past.loop
    past.jobs = [job(1, started=0, ended=HOUR_S)]
    answer = finish(answers.report(loop, {"by": "user", "since": MIDNIGHT}, 1000))
    assert answer["total"]["jobs"] == 0
    assert past.report()["total"]["jobs"] == 1


def test_days_are_those_of_the_site() -> None:
    past = Past([job(1, ended=47 * HOUR_S)], [attempt(1, 1, 0, 47 * HOUR_S, "A")])
    past.costs = Costs(zone=BERLIN_LIKE)
    # Midnight there is 23:00 UTC, from the second day on 22:00.
    assert list(hours(past.report("day")).values()) == pytest.approx([23, 23, 1])


def test_a_clock_that_was_set_does_not_change_a_length() -> None:
    made = attempt(1, 1, 0, HOUR_S, "A")
    set_back = made.ended.__class__(HOUR_S, MIDNIGHT + 9 * HOUR_S, "boot")
    past = Past([job(1, ended=9 * HOUR_S)], [replace(made, ended=set_back)])
    assert past.report()["total"]["gpu_s"] == pytest.approx(HOUR_S)


def test_jobs_are_named_and_most_gpu_time_comes_first() -> None:
    past = Past(
        [job(n, ended=n * HOUR_S) for n in (1, 2, 3)],
        [attempt(n, n, 0, n * HOUR_S, "A" * n) for n in (1, 2, 3)],
        removed_until=MIDNIGHT + 5,
    )
    answer = past.report("job")
    assert [(row["label"], row["name"], row["user"]) for row in answer["rows"]] == [
        ("3", "j3", "ada"),
        ("2", "j2", "ada"),
        ("1", "j1", "ada"),
    ]
    assert answer["removed_until"] == MIDNIGHT + 5


@pytest.mark.parametrize(
    "words", [{"by": "colour"}, {"by": None}, {"since": "x"}, {"since": MIDNIGHT + 9 * DAY_S}]
)
def test_an_unusable_argument_is_refused(words: Any) -> None:
    with pytest.raises(UsageError):
        Past([]).report(**({"by": "user"} | words))


def test_the_answer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    past = Past(
        [job(n, ended=n * HOUR_S) for n in (1, 2, 3)],
        [attempt(n, n, 0, n * HOUR_S, f"GPU-{n}") for n in (1, 2, 3)],
    )
    monkeypatch.setattr(answers, "MOST_ROWS", 2)
    answer = past.report("job")
    assert [row["job"] for row in answer["rows"]] == [3, 2]
    assert (answer["more"]["rows"], answer["more"]["gpu_s"]) == (1, pytest.approx(HOUR_S))
    monkeypatch.setattr(gather, "MOST_KEYS", 2)
    with pytest.raises(Refused, match="more than 2 rows"):
        past.report("job")
    monkeypatch.setattr(gather, "MOST_JOBS", 2)
    with pytest.raises(Refused, match="more than 2 jobs have ended"):
        past.report("user")


# ------------------------------------------------------------------ everything adds up

TIMES = st.integers(0, 72).map(lambda n: n * HOUR_S)


@st.composite
def pasts(draw: st.DrawFn) -> Past:
    jobs, attempts, serial = [], [], 0
    for number in range(1, draw(st.integers(1, 6)) + 1):
        begin_s, lasting_s = draw(TIMES), draw(TIMES)
        state = draw(st.sampled_from([s for s in JobState if s.final or s.live]))
        final = state.final
        who = {"user": draw(st.sampled_from("xyz")), "group": draw(st.sampled_from("gh"))}
        times = {"ended": begin_s + lasting_s} if final else {}
        jobs.append(job(number, state, started=begin_s, **times, **who))
        for _ in range(draw(st.integers(0, 2))):
            serial += 1
            gpus = draw(st.sets(st.sampled_from("ABC")))
            end_s = begin_s + lasting_s if final or draw(st.booleans()) else None
            outcome = draw(st.sampled_from([Outcome.OOM, Outcome.COMPLETED]))
            attempts.append(attempt(number, serial, begin_s, end_s, *gpus, outcome=outcome))
    return Past(jobs, attempts, costs=Costs(zone=BERLIN_LIKE), gpus=("A", "B", "C"))


def divided(past: Past, begin_s: float, end_s: float) -> dict[tuple[int, str], float]:
    """GPU-hours by job and GPU, counted hour by hour: all times are whole hours."""
    found: dict[tuple[int, str], float] = {}
    for hour in range(int(begin_s // HOUR_S), int(end_s // HOUR_S)):
        for gpu in past.gpus:
            there = [
                each.job_id
                for each in past.attempts
                if gpu in each.devices
                and each.launched.boot_s <= hour * HOUR_S
                and hour * HOUR_S < (each.ended.boot_s if each.ended else past.now_s)
            ]
            for job_id in there:
                found[job_id, gpu] = found.get((job_id, gpu), 0.0) + 1 / len(there)
    return found


@settings(max_examples=some(60))
@given(pasts(), TIMES, TIMES)
def test_all_rows_add_up_to_the_same_total(past: Past, one_s: float, other_s: float) -> None:
    begin_s, end_s = min(one_s, other_s), max(one_s, other_s) + HOUR_S
    words = {"since": MIDNIGHT + begin_s, "until": MIDNIGHT + end_s}
    answers = {by: past.report(by, **words) for by in ("user", "group", "job", "gpu", "day")}
    total = answers["user"]["total"]
    exact = divided(past, begin_s, end_s)
    assert total["gpu_s"] / HOUR_S == pytest.approx(sum(exact.values()))
    assert total["gpu_s"] <= (end_s - begin_s) * len(past.gpus) + 1
    assert hours(answers["job"]) == {
        job_id: pytest.approx(sum(v for (j, _), v in exact.items() if j == job_id), abs=1e-6)
        for job_id in hours(answers["job"])
    }
    for by, answer in answers.items():
        assert answer["total"]["gpu_s"] == pytest.approx(total["gpu_s"])
        assert sum(row["gpu_s"] for row in answer["rows"]) == pytest.approx(total["gpu_s"])
        for name in COUNTS:
            assert answer["total"][name] == total[name]
            if by != "gpu":
                assert sum(row[name] for row in answer["rows"]) == total[name]
