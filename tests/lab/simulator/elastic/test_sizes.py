"""The columns of elastic jobs, their bounds, and the figures of their runs."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.config import Config
from radrm.core.words import Outcome
from radrm.errors import BadConfig, BadFile, UsageError
from radrm.lab.experiments.simulations.runs import document, results
from radrm.lab.experiments.simulations.variants import Choices, Variant, make_variant
from radrm.lab.simulator.bounds import bounds, drawn, nominal
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.metrics import ELASTIC, metrics, sizes_of
from radrm.lab.simulator.run import AttemptRun, DeviceRun, DeviceStep, JobRun, Run
from radrm.lab.simulator.traces.job import StepTimes, TraceJob, best_of, step_times
from radrm.lab.simulator.traces.trace import read_trace, trace_lines
from radrm.structs import replace
from tests.lab.simulator.elastic.test_loop import Sizer, elastic, four
from tests.lab.simulator.engine.puppets import played
from tests.lab.simulator.traces import job, scenario

COLUMNS = "submit_s,name,gpus,duration_s,memory_mib,smact"


def read(columns: str, cells: str) -> TraceJob:
    (found,) = read_trace([f"{COLUMNS},{columns}", f"0,a,2,900,8000,0.5,{cells}"], "t").jobs
    return found


def test_a_trace_keeps_the_columns() -> None:
    parts = {"io_s": 0.5, "compute_s": 2.0, "sync_s": 0.25}
    jobs = [replace(job(), cpus=2.0, cpus_max=8.0, gpus_max=4, line=2, **parts)]
    assert list(read_trace(trace_lines(jobs), "t").jobs) == jobs
    assert "gpus_max" not in next(iter(trace_lines([job()])))


def test_empty_cells_and_zeros_are_no_ranges() -> None:
    for cells in ("", "0"):
        found = read("gpus_max", cells)
        assert found.gpus_max is None and not found.elastic and step_times(found) is None


@pytest.mark.parametrize(
    ("columns", "cells", "message"),
    [
        ("gpus_max", "1", r"line 2: gpus_max 1 is below gpus 2, which is the fewest"),
        ("gpus_max", "2.5", r"line 2: gpus_max '2.5' is not a whole number"),
        ("gpus_max", "2000", r"line 2: gpus_max '2000'"),
        ("cpus_max", "4", r"line 2: cpus_max 4 is below what it starts with; write cpus, too"),
        ("cpus,cpus_max", "8,4", r"line 2: cpus_max 4 is below cpus 8, with which it starts"),
        ("gpus_max,io_s", "4,-1", r"line 2: io_s '-1'"),
        ("gpus_max,compute_s", "4,nan", r"line 2: compute_s 'nan'"),
        ("gpus_max,duration_s@V100", "4,500", r"gpus_max and duration_s@KIND both say"),
    ],
)
def test_a_wrong_cell_is_named(columns: str, cells: str, message: str) -> None:
    with pytest.raises(BadFile, match=message):
        read(columns, cells)


def test_a_step_by_its_parts() -> None:
    steps = StepTimes(1.0, 8.0, 0.5, workers=1, cpus=4.0, cpus_max=8.0)
    assert steps.step_s(1) == 9.0 and steps.step_s(4) == 1 + 2 + 1.5
    assert steps.step_s(4, 8.0) == steps.step_s(4, 100.0) == 0.5 + 2 + 1.5
    assert steps.step_s(4, 2.0) == 2 + 2 + 1.5
    assert steps.pace(4) == pytest.approx(9 / 4.5)
    assert steps.activity(4) == pytest.approx(9 / 4.5 / 4)
    assert steps.cpu_s(10) == 40.0


def test_without_parts_a_job_only_computes() -> None:
    steps = step_times(elastic(gpus=2))
    assert steps.pace(4) == 2.0 and steps.data_wait(4) == 0.0


def test_the_bounds_of_a_job_allow_for_every_size() -> None:
    found = elastic(duration_s=900, smact=0.5, compute_s=8.0, sync_s=1.0)
    load, least = best_of(found)
    assert least == pytest.approx(min(8 / n + n - 1 for n in (1, 2, 3, 4)) / 8)
    assert load == pytest.approx(1.0), "the same computing, by however many"
    run = played([found], four(), Sizer(sizes=((0.0, 2),)))
    limits = bounds(*drawn(run, 0.0), [1.0] * 4)
    assert limits.mean_jct_s <= (run.jobs[0].ended_s or 0) + 1e-6
    assert limits.mean_jct_s == pytest.approx(900 * (8 / 3 + 2) / 8)
    fixed = bounds([found], nominal([found]), [1.0] * 4)
    assert fixed.mean_jct_s == 900


# ------------------------------------------------------------------ figures


def attempt(from_s: float, until_s: float, *devices: int, **more: Any) -> AttemptRun:
    return AttemptRun(from_s, until_s, devices, Outcome.COMPLETED, "exclusive", **more)


def test_the_figures_of_a_run_worked_out_by_hand() -> None:
    grown = attempt(10.0, 110.0, 0, 1, sizes=((10.0, (0,)), (60.0, (0, 1))))
    other = attempt(20.0, 120.0, 1)
    run = Run(
        (
            JobRun(elastic(), (grown,), 110.0),
            JobRun(job(), (other,), 120.0),
        ),
        tuple(DeviceRun("A100", 40960, (DeviceStep(0.0, 0.0, 0.0, 50.0),)) for _ in range(2)),
        ended_s=120.0,
        oom_count=0,
    )
    found = sizes_of(run, 0.0, 120.0)
    assert found["resizes"] == 1
    assert found["mean_gpus"] == pytest.approx((1.5 + 1) / 2)
    # GPU 0 from 10 to 110, GPU 1 from 20 to 120: what two jobs hold counts once.
    assert found["gpu_held"] == pytest.approx(200 / 240)
    assert found["mean_queue_s"] == 15
    assert metrics(run).resizes == 1


def test_a_restart_at_another_size_is_a_change() -> None:
    run = Run((JobRun(elastic(), (attempt(0, 10, 0), attempt(10, 20, 0, 1)), 20.0),), (), 20.0, 0)
    found = sizes_of(run, 0.0, 20.0)
    assert (found["resizes"], found["gpu_held"]) == (1, None)


def variant(**choices: Any) -> Variant:
    return make_variant(Config(), "exclusive", "oracle", Choices(**choices))


def test_the_figures_are_there_for_elastic_traces_only() -> None:
    plain, elastic_one = (
        results([[each]], [variant()], range(2))[0] for each in (job(), elastic())
    )
    assert not set(ELASTIC) & set(document(plain))
    found = document(elastic_one)
    assert {*ELASTIC, "resizes_sd"} - set(found) == {"cpu_efficiency"}, "it has no such job"
    assert (found["resizes"], found["mean_gpus"]) == (0, 1)
    assert metrics(simulate([job()], scenario())).mean_gpus is None


def test_a_planner_that_starts_no_jobs_stands_beside_default() -> None:
    assert variant(planner="flowcon").planner == "strict+flowcon"
    assert variant(planner="backfill").planner == "backfill"
    assert variant(planner="backfill+specon").planner == "backfill+specon"


def test_the_published_loop_has_one_size() -> None:
    with pytest.raises(UsageError, match="one size for each job"):
        simulate([elastic()], scenario(fidelity="published"))


def test_settings_of_the_model_are_checked() -> None:
    found = variant(settings=("life.restarts=1", "life.standby_s=7"))
    assert (found.scenario.life.restarts, found.scenario.life.standby_s) == (True, 7.0)
    with pytest.raises(BadConfig, match="restarts=2"):
        variant(settings=("life.restarts=2",))
