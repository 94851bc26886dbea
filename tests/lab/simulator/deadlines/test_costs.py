"""What lateness and energy cost in a run, worked out by hand."""

from __future__ import annotations

import pytest

from radrm.config import Config
from radrm.config.shapes import EnergyConfig
from radrm.core.words import Outcome
from radrm.deadlines import Costs
from radrm.lab.experiments.simulations.runs import results
from radrm.lab.experiments.simulations.variants import Choices, make_variant
from radrm.lab.simulator.metrics import metrics
from radrm.lab.simulator.run import AttemptRun, DeviceRun, DeviceStep, JobRun, Run
from radrm.lab.simulator.servers import simulate_servers
from radrm.lab.simulator.traces.job import TraceJob
from tests.lab.simulator.traces import job, scenario

HOUR = 3600.0


def due(submit_s: float, due_s: float | None, weight: float = 1.0) -> TraceJob:
    return job(submit_s, 60.0, due_s=due_s, weight=weight)


def attempt(
    begin_h: float, end_h: float, *devices: int, outcome: Outcome = Outcome.COMPLETED
) -> AttemptRun:
    return AttemptRun(begin_h * HOUR, end_h * HOUR, devices, outcome, "exclusive")


def device(node: str, name: str = "V100-32GB", watts: float = 100.0) -> DeviceRun:
    return DeviceRun(name, 1000, (DeviceStep(0.0, 0.0, 0.0, watts),), node)


RUN = Run(
    jobs=(
        JobRun(due(0, 2 * HOUR, 2.0), (attempt(0, 1, 0, outcome=Outcome.PREEMPTED),), 3 * HOUR),
        JobRun(due(0, 4 * HOUR), (attempt(0.5, 2, 1),), 2 * HOUR),
        JobRun(due(0, 3 * HOUR, 3.0), (attempt(1, 2, 2),), None, "failed"),
        JobRun(due(0, None), (attempt(3, 4, 0, 1),), 4 * HOUR),
    ),
    devices=(device("a"), device("a"), device("b", "T4-16GB", 50.0)),
    ended_s=4 * HOUR,
    oom_count=0,
)


def costs(**changes: object) -> Costs:
    fields: dict[str, object] = {"prices": ((0, 0.5),), "pue": 2.0, "cost_per_hour": 10.0}
    return Costs(**{**fields, **changes})


def test_a_late_job_costs_its_weight_an_hour_also_if_it_never_completes() -> None:
    found = metrics(RUN, costs())
    # The first is an hour late, the second in time; the third is late until the end of the run.
    assert found.tardiness_cost == pytest.approx(10 * (2 * 1 + 3 * 1))
    assert found.late_fraction == pytest.approx(2 / 3)
    assert found.preemptions == 1


def test_energy_costs_what_the_gpus_draw() -> None:
    # 250 W for four hours are 1 kWh.
    found = metrics(RUN, costs())
    assert found.energy_cost == pytest.approx(1.0 * 2.0 * 0.5)
    assert found.total_cost == pytest.approx(50.0 + 1.0)


def test_a_server_with_known_power_costs_by_its_gpus_in_use() -> None:
    watts = (("V100", (1000.0, 1500.0)),)
    # Node a: one GPU 0 to 0.5 h, two until 1 h, one until 2 h, none, two from 3 to 4 h.
    wh = 0.5 * 1000 + 0.5 * 1500 + 1000 + 1500
    found = metrics(RUN, costs(node_watts=watts))
    assert found.energy_cost == pytest.approx((wh + 4 * 50.0) / 1000 * 2.0 * 0.5)


def test_each_hour_has_its_price() -> None:
    # A trace begins at midnight: two hours at 0.1, two at 0.9.
    found = metrics(RUN, costs(prices=((0, 0.1), (120, 0.9))))
    assert found.energy_cost == pytest.approx(0.5 * 2.0 * (0.1 + 0.9))


def test_attempts_that_overlap_on_a_device_use_it_once() -> None:
    shared = (attempt(0, 2, 0), attempt(1, 3, 0), attempt(3, 4, 0))
    run = Run((JobRun(due(0, None), shared, 4 * HOUR),), (device("a"),), 4 * HOUR, 0)
    found = metrics(run, costs(node_watts=(("V100", (1000.0, 9999.0)),)))
    assert found.energy_cost == pytest.approx(4 * 1.0 * 2.0 * 0.5)


def test_servers_of_equal_names_are_different_servers() -> None:
    jobs = [job(0, 3600.0), job(0, 3600.0), job(0, 3600.0), job(0, 3600.0)]
    run = simulate_servers(jobs, scenario("exclusive", "sim:2xV100-32GB"), 2)
    assert len({each.node for each in run.devices}) == 2


def test_costs_are_counted_where_somebody_speaks_of_them() -> None:
    variant = make_variant(Config(), "exclusive", "oracle", Choices())

    def total(config: Config, trace: TraceJob) -> float | None:
        chosen = make_variant(config, "exclusive", "oracle", Choices())
        (found,) = results([[trace]], [chosen], [0])
        return found.runs[0].total_cost

    stated = Config(energy=EnergyConfig(price=1.0))
    assert total(Config(), due(0, None)) is None
    assert total(Config(), due(0, 30.0)) is not None
    assert total(stated, due(0, None)) is not None
    assert metrics(RUN).total_cost is None and variant.order == "fifo"
