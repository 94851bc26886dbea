"""Rules in the simulator learn what sharing costs there, and a harsher server is slower."""

from __future__ import annotations

import pytest

from radrm.simulator.engine import simulate, tasks_of
from radrm.simulator.history import History
from radrm.simulator.scenario import Known
from radrm.simulator.scheduling import OwnLoop
from radrm.simulator.traces.job import TraceJob
from radrm.wiring import make_rules, make_settings
from tests.simulator.traces import job, scenario

JOBS = [
    job(40.0 * n, 900.0 + 60 * (n % 5), 4000.0, smact=0.3 + 0.05 * (n % 7), name=f"job{n}")
    for n in range(50)
]


def learned(jobs: list[TraceJob], loss: float, mps: bool) -> float:
    known = Known(smact=0.0)
    told = scenario("packing", "sim:1xA100-40GB", mps=mps, loss=loss, known=known)
    rules, settings = make_rules(told.config), make_settings(told.config)
    loop = OwnLoop(told, rules, settings, tasks_of(jobs, told), History(jobs))
    loop.run()
    (found,) = loop._scheduler.learned
    assert found.mps is mps and found.periods > 10
    return found.loss


@pytest.mark.parametrize("mps", [False, True])
@pytest.mark.parametrize("truth", [0.0, 1.0])
def test_what_the_simulated_server_costs_is_learned(truth: float, mps: bool) -> None:
    assert learned(JOBS, truth, mps) == pytest.approx(truth, abs=0.25)


def test_a_harsher_server_ends_later() -> None:
    mild, harsh = (
        simulate(JOBS, scenario("rr", "sim:1xA100-40GB", mps=False, loss=loss)).ended_s
        for loss in (0.0, 1.0)
    )
    assert harsh > 1.05 * mild
