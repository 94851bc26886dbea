"""The advice: what is tried, how the best is chosen, and when nothing is better."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from radrm.cli.toml_text import toml_text
from radrm.config import Config, parse_config
from radrm.config.goals import Combination
from radrm.errors import UsageError
from radrm.lab.experiments.simulations import advice
from radrm.lab.experiments.simulations.advice import (
    CANDIDATES,
    Advice,
    advise,
    objective,
    settings_text,
    variants_to_try,
    with_candidate,
)
from radrm.lab.experiments.simulations.runs import Result
from radrm.lab.experiments.simulations.variants import Choices, Variant, make_variant
from radrm.lab.show.advice import candidate_name, verdict
from radrm.lab.simulator.bounds import Bounds
from radrm.lab.simulator.metrics import Change, Metrics
from radrm.policies import POLICIES
from radrm.structs import replace

TRIED_ORDERS = {"fair", "fifo", "shortest", "smallest-work"}
PRESENT = make_variant(Config(), "magm", "oracle", Choices())


def test_every_rule_is_tried_and_its_lines_are_a_configuration() -> None:
    assert {each.policy for each in CANDIDATES} == set(POLICIES)
    assert {each.order for each in CANDIDATES} == TRIED_ORDERS
    assert {each.planner for each in CANDIDATES} == {"strict", "backfill"}, "they start jobs"
    for each in CANDIDATES:
        table = parse_config(toml_text(settings_text(each)), "advice")
        expected = with_candidate(Config(), each)
        assert (table.policy, table.order, table.planner) == (
            *(expected.policy, expected.order, expected.planner),
        )
        assert table.policies == expected.policies


def test_only_other_settings_are_tried_each_once() -> None:
    candidates, variants = variants_to_try(Config(), PRESENT, Choices(order="shortest"), ())
    assert len(candidates) == len(variants) and PRESENT not in variants
    assert all(one not in variants[:at] for at, one in enumerate(variants))
    assert {each.scenario.config.order for each in variants} == TRIED_ORDERS
    some, _ = variants_to_try(Config(), PRESENT, Choices(), ["lug", "rr"])
    assert {each.policy for each in some} == {"lug", "rr"}
    with pytest.raises(UsageError, match="no other setting of mine; it knows settings of: packing"):
        variants_to_try(Config(), PRESENT, Choices(), ["mine"])


def test_the_objectives() -> None:
    assert objective("makespan") == "makespan_s"
    with pytest.raises(UsageError, match="--objective 'speed' is not one of completion"):
        objective("speed")
    with pytest.raises(UsageError, match="at least 3, not 2"):
        advise([()], PRESENT, (), (), "mean_jct_s", 2, print)


class Runs:
    """Stands in for the simulator: a completion time by policy and seed."""

    def __init__(self, jct_s: dict[str, float], noise: float, oom: dict[str, int]) -> None:
        self.jct_s, self.noise, self.oom = jct_s, noise, oom
        self.seeds: list[list[int]] = []

    def __call__(
        self, draws: object, variants: Sequence[Variant], seeds: Sequence[int], progress: object
    ) -> list[Result]:
        self.seeds.append(list(seeds))
        return [
            Result(each, tuple(self._run(each.policy, seed) for seed in seeds), Bounds(0, 0, 0, 0))
            for each in variants
        ]

    def _run(self, policy: str, seed: int) -> Metrics:
        off = self.noise * (-1) ** seed * (policy != "magm")
        jct_s = self.jct_s[policy] + off
        return Metrics(10, 0, jct_s, 0, jct_s, jct_s, jct_s, self.oom.get(policy, 0), 1.0, 0.5, 0.5)


def advised(monkeypatch: pytest.MonkeyPatch, noise: float = 1.0, **oom: int) -> tuple[Advice, Runs]:
    names = ("lug", "rr", "mug", "exclusive")
    times = dict(zip(("magm", *names), (100.0, 90.0, 80.0, 99.0, 200.0), strict=True))
    runs = Runs(times, noise, oom)
    monkeypatch.setattr(advice, "results", runs)
    candidates = [Combination(name, "fifo", "strict") for name in names]
    variants = [make_variant(Config(), name, "oracle", Choices()) for name in names]
    return advise([()], PRESENT, candidates, variants, "mean_jct_s", 4, print), runs


def test_the_best_is_measured_with_seeds_that_did_not_choose_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, runs = advised(monkeypatch)
    assert runs.seeds == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [each.candidate.policy for each in found.ranked] == ["rr", "lug", "mug"]
    assert found.best is found.ranked[0]
    assert found.best.gains["mean_jct_s"].gain == pytest.approx(0.2)
    assert not found.ranked[1].as_good
    (said,) = verdict(found)
    assert said.startswith("Best for these jobs: rr, fifo. Expected gain in mean completion time: ")
    assert "+20% (+19% to +21%)" in said


def test_a_difference_within_noise_is_no_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = advised(monkeypatch, noise=60.0)
    assert found.best is None
    (said,) = verdict(found)
    assert "Keep the present setting" in said and "no more than the noise (+20% (-" in said
    sure: dict[str, Change | None] = {"mean_jct_s": Change(0.2, 0.1, 0.3)}
    behind = Change(0.1, -0.1, 0.3)
    ranked = tuple(replace(each, gains=sure, behind=behind) for each in found.ranked)
    assert (
        verdict(replace(found, ranked=ranked))[1]
        == "As good within the noise: lug, fifo; mug, fifo."
    )


def test_more_deaths_rank_last(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = advised(monkeypatch, rr=3)
    assert [each.candidate.policy for each in found.ranked] == ["lug", "mug", "exclusive"]


def test_the_name_of_a_candidate() -> None:
    one = Combination("magm", "shortest", "backfill", policies={"sharing": {"max_smact": 0.9}})
    assert candidate_name(one) == "magm max_smact=0.9, shortest, backfill"
