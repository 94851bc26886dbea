"""The ceiling fitted to a site's own readings: the truth comes back, or nothing is said."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.simulation import refits
from benchmarks.simulation.calibration import shipped, using
from radrm.cli.show.experiments.replay import ceiling_lines
from radrm.config import parse_config
from radrm.interference.model import CEILING
from radrm.interference.periods import Run, cut
from radrm.interference.refit import LEAST_RUNS, TOLERANCE, Refit, refit
from radrm.interference.solo import Told
from tests.interference.test_solo import readings


def pairs(count: int, ceiling: float, most: float = 0.9, told: bool = True) -> Refit:
    """The fit of runs in pairs. Each is alone before it has a neighbour, or after; `told`: readings
    of these times are known, too."""
    rng, runs, smact = Random(f"pairs {count}"), [], []
    for at in range(count // 2):
        begin_s = 1e5 * at
        for first_s, last_s in ((0, rng.uniform(5e4, 7e4)), (rng.uniform(1e4, 3e4), 9e4)):
            runs.append(Run(("a",), True, *[begin_s + first_s] * 2, begin_s + last_s))
            smact.append(rng.uniform(most / 2, most))
    periods = cut(runs)
    with using({**shipped(), "ceiling": ceiling}):
        seen = readings(periods, smact)
    own = {at: [Told(value, 0.03)] for at, value in enumerate(smact)}
    return refit(periods, range(len(runs)), seen, own if told else {}, len(runs))


@pytest.mark.parametrize("ceiling", [0.70, 0.80, 0.88])
def test_another_ceiling_comes_back_and_predicts_better(ceiling: float) -> None:
    found = pairs(60, ceiling)
    assert found.runs == 60
    assert found.ceiling == pytest.approx(ceiling, abs=TOLERANCE)
    assert found.better and found.error < found.shipped_error


def test_the_shipped_one_stays_if_it_is_true() -> None:
    found = pairs(60, CEILING)
    assert found.ceiling == pytest.approx(CEILING, abs=TOLERANCE) and not found.better


@pytest.mark.parametrize(("most", "told"), [(0.3, True), (0.9, False)])
def test_the_shipped_one_stays_if_readings_do_not_determine_it(most: float, told: bool) -> None:
    """No device is full, or as many demands as readings are unknown."""
    assert not pairs(60, 0.8, most, told).better


def test_too_few_runs_decide_nothing() -> None:
    found = pairs(LEAST_RUNS - 2, 0.7)
    assert found == Refit(LEAST_RUNS - 2)
    (said,) = ceiling_lines(found)
    assert "0.944 as shipped; a fit needs 50 readings" in said and "there are 48" in said


def test_runs_on_several_devices_and_their_neighbours_do_not_count() -> None:
    runs = [Run(("a", "b"), True, 0, 0, 1e4)] + [Run(("a",), True, 0, 0, 1e4)] * LEAST_RUNS
    periods = cut(runs)
    seen = readings(periods, [0.1] * len(runs))
    assert refit(periods, range(len(runs)), seen, {}, len(runs)).runs == 0


@pytest.mark.parametrize("ceiling", [0.80, CEILING])
def test_the_truth_of_a_simulated_history_comes_back(ceiling: float) -> None:
    found = refits.one(0, ceiling, count=150)
    assert found.ceiling == pytest.approx(ceiling, abs=TOLERANCE)
    assert found.better == (ceiling != CEILING)
    line, *settings = ceiling_lines(found)
    assert f"0.944 as shipped, {found.ceiling:.2f} fitted to {found.runs} runs" in line
    if found.better:
        own = parse_config(settings[0], "advice").policies["packing"]["ceiling"]
        assert own == round(found.ceiling, 2)
    else:
        assert line.endswith("Keep the shipped one.") and not settings
