"""The published mix of jobs: what is drawn, and options that cannot be."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from statistics import fmean
from typing import Any

import pytest

from radrm.config import Config
from radrm.config.shapes import DeadlinesConfig
from radrm.core.records import Profiled
from radrm.errors import UsageError
from radrm.lab.experiments.simulations.runs import results
from radrm.lab.experiments.simulations.sources import (
    SORTING,
    load_draws,
    mix_draws,
    mix_of,
    with_mix,
    with_mix_settings,
)
from radrm.lab.experiments.simulations.variants import Choices, compared_variants, make_variant
from radrm.lab.simulator.traces.importers.andreas import Mix, published_mix
from radrm.simulated.spec import parse_servers

NOTHING: dict[str, Any] = dict.fromkeys(("scenario", "nodes", "load", "seed", "gpus"))
NOTHING["servers"] = 1


@pytest.mark.parametrize(("scenario", "counts"), [(1, [2, 1]), (2, [4, 2])])
def test_half_of_the_nodes_have_each_kind(scenario: int, counts: list[int]) -> None:
    devices = [each.device for each in parse_servers(Mix(scenario, 10).spec)]
    fast, slow = ([d for d in devices if kind in d.name] for kind in ("V100", "T4"))
    assert [len({d.node for d in each}) for each in (fast, slow)] == [5, 5]
    assert [len(each) / 5 for each in (fast, slow)] == counts


def test_the_jobs_are_as_published() -> None:
    jobs = published_mix(Mix(1, 100), 2.0).jobs
    assert len(jobs) == 1000 and len({each.name for each in jobs}) == 10
    assert jobs[0].submit_s == 0.0 and all(each.can_save for each in jobs)
    one = next(each for each in jobs if each.name == "LSTMbig-160")
    assert one.profile == (
        Profiled("V100", 1, pytest.approx(43.0842 * 160)),
        Profiled("V100", 2, pytest.approx(30.5512 * 160)),
        Profiled("T4", 1, pytest.approx(110.7112 * 160)),
    )
    for each in jobs:
        times = [one.duration_s for one in each.profile]
        after_s = each.due_s - each.submit_s
        assert min(times) <= after_s <= min(3 * min(times), max(times))
        assert 0.0002537 <= each.weight * 2.0 / 3600 <= 0.0004440


def test_clusters_of_ten_come_at_the_full_rate_and_at_a_quarter_of_it() -> None:
    jobs = published_mix(Mix(1, 100, load=0.8), 1.0).jobs
    gaps = [b.submit_s - a.submit_s for a, b in pairwise(jobs)]
    fast = [gap for at, gap in enumerate(gaps, 1) if at // 10 % 2 == 0]
    slow = [gap for at, gap in enumerate(gaps, 1) if at // 10 % 2 == 1]
    assert fmean(slow) / fmean(fast) == pytest.approx(4, rel=0.2)
    rate = fmean(0.8 * 2 * 100 / each.duration_s for each in jobs)
    assert fmean(fast) * rate == pytest.approx(1, rel=0.2)


def test_another_load_has_the_same_jobs_at_other_times() -> None:
    light, heavy = (published_mix(Mix(1, 10, load), 1.0).jobs for load in (0.5, 1.0))
    for a, b in zip(light, heavy, strict=True):
        assert (a.name, a.weight) == (b.name, b.weight)
        assert a.submit_s == pytest.approx(2 * b.submit_s)


def test_each_seed_has_its_own_jobs_and_the_same_seed_the_same() -> None:
    first, second = mix_draws(Mix(seed=4), Config(), 2)
    assert first == mix_draws(Mix(seed=4), Config(), 1)[0] != second
    assert second == mix_draws(Mix(seed=5), Config(), 1)[0]


def test_nobody_divides_by_a_cost_of_zero() -> None:
    free = replace(Config(), deadlines=DeadlinesConfig(cost_per_hour=0.0))
    with pytest.raises(UsageError, match="set it above 0"):
        mix_draws(Mix(), free, 1)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"scenario": 3}, "--scenario 3: there are 1"),
        ({"nodes": 0}, "--nodes 0 is not from 2 to 100"),
        ({"nodes": 101}, "--nodes 101 is not from 2 to 100"),
        ({"load": 0.0}, "--load 0 is not above 0"),
        ({"load": float("nan")}, "--load nan is not above 0"),
        ({"load": float("inf")}, "--load inf is not above 0"),
        ({"seed": -1}, "--seed -1 is below 0"),
        ({"gpus": "sim:1xT4-16GB"}, "in place of --gpus"),
        ({"servers": 2}, "in place of --servers"),
    ],
)
def test_wrong_options_are_named(given: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        mix_of(None, "andreas", **{**NOTHING, **given})


def test_a_file_and_a_mix_exclude_each_other() -> None:
    with pytest.raises(UsageError, match=r"leave out 'a\.csv'"):
        mix_of("a.csv", "andreas", **NOTHING)
    with pytest.raises(UsageError, match="--load belongs to --import andreas"):
        mix_of("a.csv", "auto", **{**NOTHING, "load": 1.0})
    with pytest.raises(UsageError, match="name a trace file"):
        mix_of(None, "auto", **NOTHING)
    assert mix_of("a.csv", "auto", **NOTHING) is None


def test_the_users_settings_come_before_the_mix() -> None:
    chosen = Choices(settings=("energy.price=1.0", "life.restart_s=5"), known=("duration=0.3",))
    base, choices = with_mix_settings(Mix(), Config(), chosen)
    scenario = make_variant(base, "exclusive", "oracle", choices).scenario
    assert (scenario.config.energy.price, scenario.config.energy.pue) == (1.0, 1.33)
    assert (scenario.life.restart_s, scenario.life.start_up_s) == (5.0, 0.0)
    assert scenario.known.duration == 0.3


def test_the_published_power_is_that_of_the_mix() -> None:
    _, choices = with_mix_settings(Mix(nodes=2), Config(), Choices())
    variants = compared_variants(
        *(with_mix(Config()), ["exclusive"], [], choices),
        *(["strict", "deadline"], ["fifo", "due"], SORTING),
        yours=False,
    )
    assert [(v.policy, v.planner, v.order) for v in variants] == [
        *(("exclusive", "strict", "fifo"), ("exclusive", "strict", "due")),
        ("exclusive", "deadline", "fifo"),
    ]
    loaded = load_draws(Mix(nodes=2, load=0.1), variants[0], 2)
    found = results(loaded.draws, variants[:1], range(2))[0].runs
    assert [each.unfinished for each in found] == [0, 0]
    for each, jobs in zip(found, loaded.draws, strict=True):
        # Each job needs its own server for its whole run: no GPU is ever shared.
        least = sum(one.duration_s for one in jobs) * 400 / 3.6e6 * 1.33 * 0.17168313
        assert each.energy_cost > least
