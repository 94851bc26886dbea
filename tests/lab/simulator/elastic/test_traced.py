"""Traces of jobs with parameter servers and workers."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from radrm.config import Config
from radrm.errors import BadFile, UsageError
from radrm.lab.experiments.simulations.runs import document, results
from radrm.lab.experiments.simulations.variants import Choices, make_variant
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.metrics import metrics
from radrm.lab.simulator.scenario import Scenario
from radrm.lab.simulator.traces.job import TraceJob, server_steps
from radrm.lab.simulator.traces.trace import read_trace, trace_lines
from radrm.simulated.spec import parse_servers
from radrm.simulated.training import TaskAt
from radrm.structs import replace
from tests.lab.simulator.elastic.test_loop import FREE
from tests.lab.simulator.traces import job, scenario

STEP = {"io_s": 0.1, "compute_s": 0.4, "sync_s": 0.02}


def servers(submit_s: float = 0.0, duration_s: float = 1000.0, **more: Any) -> TraceJob:
    sizes = {"gpus": 0, "cpus": 2.0, "cpus_max": 8.0, **STEP}
    return job(submit_s, duration_s, smact=0.0, **{**sizes, **more})


def two_servers(planner: str = "strict", **changes: Any) -> Scenario:
    found = scenario("exclusive", life=FREE, **{"cpus": 32.0, **changes})
    config = dataclasses.replace(found.config, planner=(planner,))
    return replace(found, config=config, devices=parse_servers("sim:2*1xA100-40GB"))


def test_a_trace_has_jobs_without_gpus_if_their_cpus_have_a_range() -> None:
    jobs = [replace(servers(line=2), user="ann")]
    assert list(read_trace(trace_lines(jobs), "t").jobs) == jobs


@pytest.mark.parametrize(
    ("columns", "cells"), [("cpus,cpus_max", "2,"), ("cpus,cpus_max,gpus_max", "2,8,2")]
)
def test_other_jobs_need_a_gpu(columns: str, cells: str) -> None:
    head = f"submit_s,name,gpus,duration_s,memory_mib,smact,{columns}"
    with pytest.raises(BadFile, match="line 2: gpus 0 is for parameter servers"):
        read_trace([head, f"0,a,0,60,1000,0,{cells}"], "t")


def test_the_model_computes_faster_with_more_cpus_up_to_the_most() -> None:
    model = server_steps(servers())

    def speed(workers: int, cpus: float) -> float:
        tasks = [TaskAt("worker", number, cpus, "a") for number in range(workers)]
        return model.rates([TaskAt("ps", 0, 2.0, "a"), *tasks]).steps_s

    assert speed(1, 2.0) == pytest.approx(1 / 0.52)
    assert speed(1, 8.0) == speed(1, 99.0) == pytest.approx(1 / 0.22)
    # One server of two CPUs updates at most fifty times a second, whatever the workers.
    assert speed(60, 8.0) == pytest.approx(50)


def test_at_its_smallest_size_a_job_takes_its_duration() -> None:
    run = simulate([servers()], two_servers())
    (found,) = run.jobs
    assert found.ended_s == pytest.approx(1000)
    assert found.attempts[0].solo_s == pytest.approx(1000)
    # A worker uses its two CPUs, and the server what the updates need.
    assert found.cpu_s == (pytest.approx(1000 * (2 + 0.04 / 0.52)), pytest.approx(4000))


def test_jobs_queue_for_the_cpus_of_the_servers() -> None:
    run = simulate([servers() for _ in range(3)], two_servers(cpus=2.0))
    assert [each.ended_s for each in run.jobs] == [pytest.approx(t) for t in (1000, 2000, 3000)]
    assert metrics(run).mean_queue_s == pytest.approx(1000)


@pytest.mark.parametrize("planner", ["dlrover", "nearchus"])
def test_the_published_rules_give_a_job_more_than_its_smallest_size(planner: str) -> None:
    run = simulate([servers(duration_s=40_000)], two_servers(planner))
    (found,) = run.jobs
    assert found.resizes > 0
    assert found.ended_s < 20_000


def test_the_figures_of_such_a_trace() -> None:
    choices = Choices(cpus=32.0, gpus="sim:2*1xA100-40GB")
    (result,) = results(
        [[servers()]], [make_variant(Config(), "exclusive", "oracle", choices)], [0]
    )
    found = document(result)
    assert 0.5 < found["cpu_efficiency"] < 0.53
    assert "gpu_held" not in found and "mean_gpus" not in found
    assert (found["unfinished"], found["resizes"]) == (0, 0)
    assert found["bound_mean_jct_s"] <= found["mean_jct_s"]


def test_a_trace_that_cannot_be_run_is_refused() -> None:
    with pytest.raises(UsageError, match="need --cpus N"):
        simulate([servers()], two_servers(cpus=None))
    with pytest.raises(UsageError, match="line 3 is not a job with parameter servers"):
        simulate([servers(), job(5, 100, line=3)], two_servers())
    with pytest.raises(UsageError, match="fidelity radrm"):
        simulate([servers()], two_servers(fidelity="published"))
