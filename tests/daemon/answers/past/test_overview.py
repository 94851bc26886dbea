"""The overview: what counts where, and that its sums are those of the report."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.core.records import Attempt, Placement, Share, Usage
from radrm.core.words import Collocation, JobState, Outcome
from radrm.daemon.answers.past import gather, overview
from radrm.daemon.answers.past.overview import MOST, Bins, Level, Quantiles
from radrm.deadlines import UTC, Costs
from radrm.errors import Refused, UsageError
from radrm.host.storage.energy import EnergyRow
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
from tests.daemon.answers.past.test_report import COUNTS, pasts
from tests.examples import some


def used(made: Attempt, *usage: Usage, reserved_mib: int = 0) -> Attempt:
    shares = tuple(Share(gpu, reserved_mib) for gpu in made.placement.devices)
    return replace(made, usage=usage, placement=Placement(shares, Collocation.MPS))


def test_jobs_that_completed_after_a_death_are_recovered() -> None:
    dead = Outcome.OOM
    jobs = [
        job(1, started=0, ended=HOUR_S),
        job(2, JobState.FAILED, started=0, ended=HOUR_S),
        job(3, started=0, ended=HOUR_S),
        job(4, JobState.RUNNING, started=0),
    ]
    attempts = [
        attempt(1, 1, 0, 9, "A", outcome=dead),
        attempt(1, 2, 10, HOUR_S, "A"),
        attempt(2, 3, 0, 9, "B", outcome=dead),
        attempt(2, 4, 9, 18, "B", outcome=dead),
        attempt(3, 5, 0, HOUR_S, "A"),
        attempt(4, 6, 0, 9, "B", outcome=dead),
        attempt(4, 7, 9, None, "B"),
    ]
    answer = Past(jobs, attempts).overview()
    deaths = answer["deaths"]
    assert (deaths["jobs_hit"], deaths["recovered"], deaths["not_ended"]) == (2, 1, 1)
    assert answer["total"]["oom_deaths"] == 4
    assert answer["total"]["running"] == 1
    assert [bar["outcome"] for bar in answer["bars"]] == [
        *("oom", "completed", "oom", "oom", "completed", "oom", None)
    ]
    assert answer["bars"][-1]["end_at"] is None


def test_waiting_is_counted_by_job_and_over_time() -> None:
    jobs = [
        job(1, started=60, ended=5 * HOUR_S),
        job(2, started=HOUR_S, ended=5 * HOUR_S, user="bob"),
        job(3, JobState.CANCELLED, ended=2 * HOUR_S),
        replace(job(4, JobState.PENDING), attempts=0),
    ]
    answer = Past(jobs, now_s=4 * HOUR_S).overview()
    waited = answer["waited"]
    assert waited["started"] == 0, "they have not ended yet"
    answer = Past(jobs, now_s=6 * HOUR_S).overview()
    waited = answer["waited"]
    assert waited["started"] == 2
    assert waited["median_waited_s"] == pytest.approx(60, rel=0.02)
    assert waited["p95_waited_s"] == pytest.approx(HOUR_S, rel=0.02)
    assert {c["from_s"]: c["jobs"] for c in waited["classes"] if c["jobs"]} == {60: 1, 3600: 1}
    assert [each["waiting"] for each in answer["times"]] == pytest.approx(
        [1 / 60 + 3, 2, 1, 1, 1, 1]
    )
    assert answer["total"]["waiting"] == 1
    assert {u["user"]: u["started"] for u in answer["users"]} == {"ada": 1, "bob": 1}


def test_use_is_weighed_by_time_and_unknown_is_no_zero() -> None:
    jobs = [job(n, started=0, ended=4 * HOUR_S) for n in (1, 2, 3)]
    attempts = [
        used(attempt(1, 1, 0, HOUR_S, "A"), Usage("A", 5000, 0.2), reserved_mib=10_000),
        used(attempt(2, 2, HOUR_S, 4 * HOUR_S, "A"), Usage("A", 9000, 0.6), reserved_mib=10_000),
        attempt(3, 3, 0, HOUR_S, "B"),
        attempt(3, 4, 0, HOUR_S),
    ]
    answer = Past(jobs, attempts, gpus=("A", "B", "C")).overview()
    a, b, c = answer["devices"]
    assert (a["held_s"], b["held_s"], c["held_s"]) == (4 * HOUR_S, HOUR_S, 0)
    assert (a["smact"], a["peak_share"]) == (pytest.approx(0.5), pytest.approx(0.8))
    assert (b["smact"], b["peak_share"]) == (None, None)
    assert answer["use"]["smact"] == pytest.approx(0.5)
    assert answer["deaths"]["attempts_without_gpu"] == 1
    assert [each["gpus_used"] for each in answer["times"][:4]] == pytest.approx([2, 1, 1, 1])


def test_estimates_stand_beside_the_peaks() -> None:
    jobs = [job(n, started=0, ended=HOUR_S) for n in (1, 2, 3)]
    attempts = [used(attempt(n, n, 0, HOUR_S, "A"), Usage("A", 1000 * n)) for n in (1, 2, 3)]
    told = {1: {"horus": 2000.0}, 2: {"horus": 1000.0, "fake": 2000.0}}
    first, second = Past(jobs, attempts, told=told).overview()["estimators"]
    assert (first["estimator"], first["runs"], first["below"]) == ("horus", 2, 1)
    assert first["ratio"] == pytest.approx(0.5, rel=0.02)
    assert first["ratio_p95"] == pytest.approx(2.0, rel=0.02)
    assert (second["estimator"], second["below"]) == ("fake", 0)


def test_energy_is_that_of_each_hour() -> None:
    rows = (
        EnergyRow(int(MIDNIGHT), "A", 1, "ada", None, 3.6e6, 0.0, 0.0),
        EnergyRow(int(MIDNIGHT), "A", None, None, None, 1.8e6, 0.0, 3600.0),
        EnergyRow(int(MIDNIGHT + 2 * HOUR_S), "A", 1, "ada", None, 3.6e6, 0.0, 0.0),
    )
    past = Past([job(1, started=0, ended=HOUR_S)], energy=rows)
    answer = past.overview(until=MIDNIGHT + 3 * HOUR_S)
    assert [each["kwh"] for each in answer["times"]] == pytest.approx([1.5, 0, 1])
    assert [each["idle_kwh"] for each in answer["times"]] == pytest.approx([0.5, 0, 0])
    assert answer["total"]["kwh"] == pytest.approx(2.5)
    assert answer["total"]["cost"] == pytest.approx(2.5 * 1.33 * 0.25)


def test_the_answer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [job(n, user=f"u{n}", started=0, ended=n * HOUR_S) for n in (1, 2, 3)]
    past = Past(jobs, [attempt(n, n, 0, n * HOUR_S, f"G{n}") for n in (1, 2, 3)])
    monkeypatch.setattr(overview, "MOST_BARS", 2)
    monkeypatch.setattr(overview, "MOST_USERS", 1)
    monkeypatch.setattr(overview, "MOST_DEVICES", 4)
    answer = past.overview()
    assert [bar["job"] for bar in answer["bars"]] == ["2", "3"] and answer["more_bars"] == 1
    assert [user["user"] for user in answer["users"]] == ["u3"] and answer["more_users"] == 2
    assert len(answer["devices"]) == 4
    assert answer["bars"][1]["gpus"] == [], "its GPU is not among them"
    monkeypatch.setattr(gather, "MOST_JOBS", 2)
    with pytest.raises(Refused, match="more than 2 jobs have ended"):
        past.overview()


def test_the_largest_answer_is_below_a_mebibyte() -> None:
    name = "\u4efb" * 128
    jobs = [replace(each := job(n, started=0, ended=9), spec=replace(each.spec, name=name))
            for n in range(1, 1700)]  # fmt: skip
    attempts = [attempt(n, n, 0, 9, *"ABCDEFGH") for n in range(1, 1700)]
    answer = Past(jobs, attempts, gpus=tuple("ABCDEFGH")).overview()
    assert len(answer["bars"]) == 1500
    assert len(json.dumps(answer, ensure_ascii=False).encode()) < 2**20


@pytest.mark.parametrize("words", [{"since": "x"}, {"since": MIDNIGHT + 9 * DAY_S}])
def test_an_unusable_time_is_refused(words: Any) -> None:
    with pytest.raises(UsageError):
        Past([]).overview(**words)


def test_nothing_on_record_is_no_error() -> None:
    answer = Past([]).overview()
    assert answer["times"] == [] and answer["bars"] == []
    assert answer["waited"]["median_waited_s"] is None and answer["use"]["smact"] is None


def test_long_times_have_few_bins_that_begin_at_midnight() -> None:
    bins = Bins.of(BERLIN_LIKE, MIDNIGHT + 12 * HOUR_S, MIDNIGHT + 12 * DAY_S)
    assert [edge - MIDNIGHT for edge in bins.edges[:4]] == [
        *(12 * HOUR_S, DAY_S - HOUR_S, 2 * DAY_S - 2 * HOUR_S, 3 * DAY_S - 2 * HOUR_S)
    ]
    hours = Bins.of(BERLIN_LIKE, MIDNIGHT + 28 * HOUR_S, MIDNIGHT + 33 * HOUR_S)
    assert [(edge - MIDNIGHT) / HOUR_S for edge in hours.edges] == [28, 29, 30, 31, 32, 33]
    assert Bins.of(UTC, 0.0, 2.0**36).count <= MOST
    assert Bins.of(UTC, 5.0, 5.0).count == 1


@given(st.lists(st.tuples(st.floats(-1e4, 1e5), st.floats(-1e4, 1e5)), max_size=8))
def test_a_level_is_the_mean_of_each_bin(stays: list[tuple[float, float]]) -> None:
    bins = Bins((0.0, 3600.0, 7200.0, 50_000.0))
    level = Level(bins)
    for begin_s, end_s in stays:
        level.stay(begin_s, end_s)
    for place, mean in enumerate(level.means()):
        low, high = bins.edges[place], bins.edges[place + 1]
        there_s = sum(max(0.0, min(end, high) - max(begin, low)) for begin, end in stays)
        assert mean == pytest.approx(there_s / (high - low), abs=1e-6)


@given(st.lists(st.floats(0, 1e8), min_size=1, max_size=60), st.floats(0, 1))
def test_a_quantile_is_exact_to_two_percent(amounts: list[float], part: float) -> None:
    spread = Quantiles()
    for amount in amounts:
        spread.add(amount)
    found, wanted = spread.quantile(part), part * len(amounts)
    exact = next(a for n, a in enumerate(sorted(amounts), 1) if n >= wanted)
    assert found == pytest.approx(exact, rel=0.02) if exact >= 1 else found == 0.0


@settings(max_examples=some(40))
@given(pasts())
def test_the_sums_are_those_of_the_report(past: Past) -> None:
    past.costs = Costs(zone=BERLIN_LIKE)
    total, found = past.report()["total"], past.overview()
    for name in COUNTS:
        assert found["total"][name] == total[name]
        assert sum(each[name] for each in found["times"]) == total[name]
    used_s = sum(each["gpus_used"] * (each["until"] - each["at"]) for each in found["times"])
    assert found["total"]["gpu_s"] == pytest.approx(total["gpu_s"])
    assert used_s == pytest.approx(total["gpu_s"])
    assert sum(each["held_s"] for each in found["devices"]) == pytest.approx(total["gpu_s"])
    assert sum(user["gpu_s"] for user in found["users"]) == pytest.approx(total["gpu_s"])
