"""What jobs would show alone, from readings of devices that they shared."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from statistics import fmean, stdev

import pytest

from radrm.interference.model import Demand
from radrm.lab.simulator.traces import solo
from radrm.lab.simulator.traces.solo import Periods, Run, Seen, SoloFit, Told, cut, part_activities

LONG_S = 100_000.0


def run(begin_s: float, end_s: float, *devices: str) -> Run:
    return Run(devices or ("a",), True, begin_s, begin_s, end_s)


def readings(periods: Periods, smact: Sequence[float]) -> list[Seen]:
    """What monitoring shows of runs with these demands."""
    demands = [Demand(value) for value in smact]
    shown: dict[int, float] = {}
    for period in periods.periods:
        shown |= zip(period.parts, part_activities(periods, period, demands), strict=True)
    found = []
    for (at, device), parts in periods.within.items():
        seconds = periods.runs[at].end_s - periods.runs[at].begin_s
        mean = sum(shown[part] * periods.parts[part].seconds for part in parts) / seconds
        found.append(Seen(at, device, mean))
    return found


def fit(runs: Sequence[Run], smact: Sequence[float], **told: Sequence[Told]) -> SoloFit:
    """The fit of runs of different jobs with these demands."""
    periods = cut(runs)
    figures = {int(name[1:]): each for name, each in told.items()}
    return SoloFit(periods, range(len(runs)), readings(periods, smact), figures, len(runs))


def draws(of: SoloFit, job: int, count: int = 30) -> list[float]:
    of.best([1.0] * 9)
    rng = Random(1)
    return [of.draw([1.0] * 9, rng)[job] for _ in range(count)]


def test_a_job_alone_shows_its_own() -> None:
    found = fit([run(0, LONG_S)], [0.6])
    assert found.best([1.0]) == (pytest.approx(0.6, abs=0.01),)
    assert stdev(draws(found, 0)) < 0.04


def test_staggered_neighbours_are_told_apart() -> None:
    truth = (0.3, 0.5, 0.15)
    runs = [run(0, 6e4), run(2e4, 8e4), run(5e4, LONG_S)]
    assert fit(runs, truth).best([1.0] * 3) == pytest.approx(truth, abs=0.05)


def test_those_that_were_always_together_show_their_sum_only() -> None:
    found = fit([run(0, LONG_S), run(0, LONG_S)], [0.2, 0.5])
    pairs = list(zip(draws(found, 0), draws(found, 1), strict=True))
    assert fmean(map(sum, pairs)) == pytest.approx(0.7, abs=0.05)
    assert stdev(map(sum, pairs)) < 0.06 < stdev(first for first, _ in pairs)


def test_a_full_device_hides_how_much_more_its_jobs_want() -> None:
    full = fit([run(0, LONG_S), run(0, LONG_S)], [0.9, 0.9], j1=[Told(0.9, 0.02)])
    half = fit([run(0, LONG_S), run(0, LONG_S)], [0.3, 0.9], j1=[Told(0.3, 0.02)])
    assert stdev(draws(full, 0)) > 2 * stdev(draws(half, 1))
    assert min(draws(full, 0)) < 0.9 < max(draws(full, 0))


def test_what_is_told_counts_as_much_as_its_error_says() -> None:
    both = [run(0, LONG_S), run(0, LONG_S)]
    sure = fit(both, [0.2, 0.5], j0=[Told(0.2, 0.01)])
    assert sure.best([1.0] * 2) == pytest.approx((0.2, 0.5), abs=0.03)
    unread = SoloFit(cut(both), (0, 1), (), {0: [Told(0.7, 0.02), Told(0.8, 0.02)]}, 2)
    assert unread.best([1.0] * 2)[0] == pytest.approx(0.75, abs=0.02)
    assert unread.informed == frozenset() and sure.informed == {0, 1}


def test_readings_of_runs_that_neighbours_hold_back_decide_nothing() -> None:
    wide = fit([run(0, LONG_S, "a", "b"), run(0, LONG_S, "b")], [0.9, 0.6])
    assert wide.informed == frozenset() and stdev(draws(wide, 0)) > 0.15
    alone = fit([run(0, LONG_S, "a", "b")], [0.9])
    assert alone.best([1.0]) == (pytest.approx(0.9, abs=0.02),)


def test_the_same_arguments_give_the_same_draws() -> None:
    runs, truth = [run(0, 10, "a"), run(0, 20, "a")], (1.0, 0.0)
    first, again = draws(fit(runs, truth), 0), draws(fit(runs, truth), 0)
    assert first == again and all(0 < each < 1 for each in first)


def test_a_long_history_is_thinned_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solo, "_MOST_TERMS", 20)
    runs = [run(100 * at, 100 * at + 250) for at in range(30)]
    found = fit(runs, [0.2] * 30)
    assert found.best([1.0] * 30) == pytest.approx([0.2] * 30, abs=0.3)
    assert len(found.informed) < 30
