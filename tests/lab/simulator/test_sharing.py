"""Rules in the simulator learn what sharing costs there, and a harsher server is slower."""

from __future__ import annotations

import pytest

from radrm.lab.simulator.engine import simulate, tasks_of
from radrm.lab.simulator.history import History
from radrm.lab.simulator.scenario import Known
from radrm.lab.simulator.scheduling import OwnLoop
from radrm.lab.simulator.traces.job import TraceJob
from radrm.wiring import make_rules, make_settings
from tests.lab.simulator.traces import job, scenario

JOBS = [
    job(40.0 * n, 900.0 + 60 * (n % 5), 4000.0, smact=0.3 + 0.05 * (n % 7), name=f"job{n}")
    for n in range(50)
]


def learned(jobs: list[TraceJob], loss: float | None, mps: bool) -> float:
    known = Known(smact=0.0)
    told = scenario("packing", "sim:1xA100-40GB", mps=mps, known=known)
    rules, settings = make_rules(told.config), make_settings(told.config)
    loop = OwnLoop(told, rules, settings, tasks_of(jobs, told), History(jobs))
    loop.world.loss = loss
    loop.run()
    (found,) = loop._scheduler.learned
    assert found.mps is mps and found.periods > 10
    return found.loss


@pytest.mark.parametrize("truth", [0.0, 1.0])
def test_what_the_simulated_server_costs_is_learned(truth: float) -> None:
    assert learned(JOBS, truth, mps=False) == pytest.approx(truth, abs=0.25)


def test_under_mps_the_simulated_server_costs_what_is_shipped() -> None:
    assert learned(JOBS, None, mps=True) == pytest.approx(0.0, abs=0.25)


def test_a_harsher_server_ends_later() -> None:
    mild, harsh = (
        simulate(JOBS, scenario("rr", "sim:1xA100-40GB", mps=False, loss=loss)).ended_s
        for loss in (0.0, 1.0)
    )
    assert harsh > 1.05 * mild
