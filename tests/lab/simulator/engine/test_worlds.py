"""Worlds that differ from what the rules believe, and MPS as it is configured."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from radrm.config import MpsConfig
from radrm.core.records import Estimate
from radrm.core.words import Collocation, Quantity
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.estimates import AutoEstimates
from radrm.lab.simulator.run import Run
from radrm.lab.simulator.scenario import Scenario
from radrm.lab.simulator.traces.draw import dealt
from radrm.structs import replace
from tests.lab.simulator.traces import job, scenario


def under(mps: MpsConfig, **changes: object) -> Scenario:
    found = scenario(estimator="declared", **changes)
    return replace(found, config=dataclasses.replace(found.config, mps=mps))


def modes(run: Run) -> list[str]:
    return [each.attempts[0].collocation for each in run.jobs]


def test_sharing_may_cost_more_or_less_than_the_rules_believe() -> None:
    jobs = [job(name="a", smact=0.4), job(name="b", smact=0.4)]
    setting = scenario("first-fit", "sim:1xA100-40GB", estimator="declared", mps=False)
    setting = replace(setting, config=dataclasses.replace(setting.config, policies={}))
    mild, own, harsh = (
        simulate(jobs, replace(setting, loss=loss)).ended_s for loss in (0.0, None, 1.0)
    )
    assert mild < own < harsh
    assert simulate(jobs, replace(setting, loss=1.0, mps=True)).ended_s < harsh


def test_what_nobody_reads_is_not_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[Estimate, ...]] = []
    real = AutoEstimates.estimate

    def noted(auto: AutoEstimates, *asked: Any) -> tuple[Estimate, ...]:
        told.append(real(auto, *asked))
        return told[-1]

    monkeypatch.setattr(AutoEstimates, "estimate", noted)
    jobs = [job(0, smact=0.3), job(1000, smact=0.3)]
    for read in (True, False):
        simulate(jobs, scenario(estimator="auto", smact_read=read))
        known = {each.quantity: each.value for each in told[-1]}
        assert known.get(Quantity.SMACT) == (pytest.approx(0.3, abs=0.05) if read else None)
        assert known[Quantity.DURATION] == pytest.approx(330, rel=0.01)


def test_jobs_on_several_gpus_are_clients_only_of_one_daemon_for_all() -> None:
    jobs = [job(gpus=2)]
    of_gpu = simulate(jobs, under(MpsConfig(enabled=True)))
    of_all = simulate(jobs, under(MpsConfig(enabled=True, spans=True)))
    assert modes(of_gpu) == [Collocation.TIMESLICE.value]
    assert modes(of_all) == [Collocation.MPS.value]


def test_an_mps_server_takes_one_user_at_a_time() -> None:
    jobs = [job(0, 900, user="ann", smact=0.2), job(10, 300, user="bob", smact=0.2)]
    one = simulate(jobs, under(MpsConfig(enabled=True), spec="sim:1xA100-40GB"))
    assert modes(one) == ["mps", "timeslice"]
    several = simulate(jobs, under(MpsConfig(enabled=True, multiuser=True), spec="sim:1xA100-40GB"))
    assert modes(several) == ["mps", "mps"]


def test_jobs_are_dealt_in_unequal_shares_and_a_program_is_one_users() -> None:
    jobs = [job(name=f"program{at % 200}") for at in range(1000)]
    found = dealt(jobs, 4, seed=3)
    assert found == dealt(jobs, 4, seed=3)
    shares = [sum(each.user == f"user{at}" for each in found) for at in range(1, 5)]
    assert sum(shares) == 1000 and shares[0] > 1.5 * shares[1] > 0 < shares[3]
    assert len({(each.name, each.user) for each in found}) == 200
    assert {each.user for each in dealt(jobs, 1)} == {"user1"}
