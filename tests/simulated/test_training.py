"""The models of distributed training: limits, sums and monotony."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.elastic.training_cluster import ClusterModel, soft_minimum
from radrm.simulated.training import Rates, StepModel, TaskAt, Training, divided, finite_source

STEPS = StepModel(
    io_s=0.05, compute_s=0.03, update_s=0.02, worker_cpus=4.0, update_cpu_s=0.2, tensors=(0.3,)
)
CLUSTER = ClusterModel(step_cpu_s=20.0, update_cpu_s=1.0, exchange_s=0.7, cores=20, alone=16)


def job(servers: list[float], workers: list[float], node: str | None = None) -> list[TaskAt]:
    """Tasks with these CPUs, on a server each, or all on one."""
    return [
        TaskAt(role, number, cpus, node or f"{role}{number}")
        for role, counted in (("ps", servers), ("worker", workers))
        for number, cpus in enumerate(counted)
    ]


@pytest.mark.parametrize("model", [STEPS, CLUSTER])
def test_a_job_without_a_worker_or_a_parameter_server_stands_still(model: Training) -> None:
    assert model.rates(job([], [4, 4])) == Rates(0.0, (0.0, 0.0), (0.0, 0.0))
    assert model.rates(job([4], [])) == Rates(0.0, (0.0,), (0.0,))


@pytest.mark.parametrize("model", [STEPS, CLUSTER])
def test_no_task_uses_more_than_it_has_and_each_worker_adds_speed(model: Training) -> None:
    before = 0.0
    for workers in range(1, 12):
        tasks = job([4, 8], [5.0] * workers)
        rates = model.rates(tasks)
        assert rates.steps_s > before
        assert all(0 <= used <= task.cpus for used, task in zip(rates.cpus, tasks, strict=True))
        assert all(0 <= used <= 1 for used in rates.network)
        before = rates.steps_s


def test_one_worker_alone_takes_the_time_of_its_step() -> None:
    assert STEPS.rates(job([32], [4])).steps_s == pytest.approx(1 / 0.1)
    assert STEPS.rates(job([32], [8])).steps_s == pytest.approx(1 / 0.1)


def test_only_the_computation_grows_with_fewer_cpus() -> None:
    assert STEPS.rates(job([32], [1])).steps_s == pytest.approx(1 / (0.05 + 4 * 0.03 + 0.02))


def test_the_hot_server_decides_and_only_its_cpus_help() -> None:
    least = STEPS.rates(job([4] * 4, [4] * 40)).steps_s
    assert least == pytest.approx(4 / (0.3 * 0.2), rel=0.02)
    assert STEPS.rates(job([4] * 8, [4] * 40)).steps_s == pytest.approx(least, rel=0.02)
    assert STEPS.rates(job([6, 4, 4, 4], [4] * 40)).steps_s > 1.2 * least


@pytest.mark.parametrize(
    ("servers", "tensors", "parts"),
    [
        (1, (0.6,), [1.0]),
        (2, (0.6,), [0.6, 0.4]),
        (2, (0.4,), [0.5, 0.5]),
        (4, (0.3, 0.4), [0.4, 0.3, 0.15, 0.15]),
    ],
)
def test_large_tensors_stay_whole(
    servers: int, tensors: tuple[float, ...], parts: list[float]
) -> None:
    assert divided(servers, tensors) == pytest.approx(parts)


def test_a_queue_is_bound_by_its_customers_and_by_its_server() -> None:
    assert finite_source(1, 0.5, 0.5, 0.1) == pytest.approx(1.0)
    assert finite_source(50, 0.5, 0.5, 0.1) == pytest.approx(10.0, rel=1e-6)
    assert finite_source(3, 0.0, 0.5, 0.1) == pytest.approx(6.0)


def test_a_server_that_serves_all_at_once_delays_nobody() -> None:
    assert finite_source(7, 0.3, 0.2, 0.2 / 7) == pytest.approx(7 / 0.5)


def test_tasks_of_one_server_need_no_network() -> None:
    large = replace(CLUSTER, cores=200, alone=200)
    apart, together = (large.rates(job([5], [16, 16], node)) for node in (None, "one"))
    assert together.network == (0.0, 0.0, 0.0)
    assert together.steps_s > apart.steps_s
    assert apart.network[0] == pytest.approx(apart.steps_s * 0.7)


def test_more_parameter_servers_divide_the_network() -> None:
    one, two = (CLUSTER.rates(job([3] * count, [5] * 12)) for count in (1, 2))
    assert one.network[0] > 0.9
    assert two.steps_s > 1.4 * one.steps_s


def test_a_parameter_server_without_cpus_holds_the_workers_up() -> None:
    assert CLUSTER.rates(job([0.1], [5, 5])).steps_s <= 0.1
    assert CLUSTER.rates(job([0.0], [5, 5])).steps_s == 0.0


@pytest.mark.parametrize(("workers", "used"), [(1, 37), (2, 46), (10, 57)])
def test_the_workers_of_a_server_leave_some_of_it_idle(workers: int, used: float) -> None:
    model = ClusterModel(1.0, 0.0, 0.0, cores=64, alone=37)
    rates = model.rates(job([1], [640 / workers] * workers, "one"))
    assert sum(rates.cpus) == pytest.approx(used, rel=0.005)


def test_the_soft_minimum_is_below_the_least() -> None:
    assert soft_minimum([2.0, 100.0], 8) == pytest.approx(2.0)
    assert soft_minimum([2.0, 2.0], 8) < 2.0
    assert soft_minimum([0.0, 2.0], 8) == 0.0
