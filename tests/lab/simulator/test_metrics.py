"""The metrics of the thesis, section 6.3.4, worked out by hand on small runs."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.core.words import Outcome
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.metrics import (
    MEASURED,
    gain,
    metrics,
    over_seeds,
    percentile,
    range_of_gain,
    spread,
)
from radrm.lab.simulator.run import AttemptRun, DeviceRun, DeviceStep, JobRun, Run
from radrm.lab.simulator.scenario import Scenario
from radrm.lab.simulator.traces.job import TraceJob
from radrm.simulated.spec import parse
from tests.examples import some


def job(submit_s: float, due_s: float | None = None, weight: float = 1.0) -> TraceJob:
    return TraceJob(submit_s, "a", 1, 60, 1000, 0.5, due_s=due_s, weight=weight)


def attempt(begin_s: float, end_s: float, outcome: Outcome = Outcome.COMPLETED) -> AttemptRun:
    return AttemptRun(begin_s, end_s, (0,), outcome, "mps")


def device(*steps: tuple[float, float, float, float]) -> DeviceRun:
    return DeviceRun("gpu", 1000, tuple(DeviceStep(*step) for step in steps))


RUN = Run(
    jobs=(
        JobRun(job(10, due_s=100, weight=3), (attempt(20, 120),), 120),
        JobRun(job(30), (attempt(40, 50, Outcome.OOM), attempt(90, 190)), 190),
        JobRun(job(40), (attempt(60, 70, Outcome.OOM),), None, "three times"),
    ),
    devices=(
        device((0, 0, 0.0, 50), (20, 500, 0.5, 150), (110, 0, 0.0, 50)),
        device((0, 0, 0.0, 50)),
    ),
    ended_s=190,
    oom_count=2,
)


def test_the_figures_of_a_run() -> None:
    found = metrics(RUN)
    assert (found.jobs, found.unfinished, found.oom_count) == (3, 1, 2)
    assert found.makespan_s == 180  # from the first submission, at 10
    assert found.mean_exec_s == (100 + 110) / 2  # the attempt that died ran, too
    assert found.mean_jct_s == (110 + 160) / 2
    assert found.mean_wait_s == (10 + 50) / 2
    assert found.p95_jct_s == 160
    assert found.energy_j == 10 * 50 + 90 * 150 + 80 * 50 + 180 * 50
    assert found.gpu_smact_mean == pytest.approx(0.5 * 90 / 180 / 2)
    assert found.gpu_memory_mean == pytest.approx(0.5 * 90 / 180 / 2)
    assert found.tardiness_s == 20


def test_nothing_ended_nothing_is_claimed() -> None:
    found = metrics(Run((JobRun(job(0)),), (device((0, 0, 0.0, 50)),), 0, 0))
    assert found.unfinished == 1 and found.mean_jct_s is None and found.p95_jct_s is None
    assert found.energy_j == 0 and found.tardiness_s is None


def test_the_nearest_rank() -> None:
    assert percentile(range(1, 101), 0.95) == 95
    assert percentile([3, 1, 2], 0.95) == 3 and percentile([7], 0.95) == 7


def test_over_seeds() -> None:
    found = over_seeds([metrics(RUN), metrics(RUN)])
    assert found["makespan_s"].mean == 180 and found["makespan_s"].sd == 0
    assert set(found) > set(MEASURED)
    assert spread([1.0, 3.0]).mean == 2 and spread([1.0, 3.0]).sd == pytest.approx(2**0.5)
    assert spread([5.0]).sd is None  # one run says nothing of its spread
    assert spread([1.0, None]).mean is None


def test_how_much_less() -> None:
    alone = gain([77.0], [100.0])
    assert alone.gain == pytest.approx(0.23) and alone.low is None
    several = gain([80.0, 70.0], [100.0, 100.0])
    assert several.low is not None and several.high is not None
    assert several.low < 0.25 < several.high
    assert gain([1.0], [0.0]) is None


def test_the_range_of_one_more_pair() -> None:
    assert range_of_gain([77.0], [100.0]) == gain([77.0], [100.0])
    assert range_of_gain([1.0], [0.0]) is None
    # Three gains of 0.1, 0.2 and 0.3: t is 2.92 at two degrees of freedom, the deviation 0.1.
    found = range_of_gain([90.0, 80.0, 70.0], [100.0] * 3)
    assert found.low is not None and found.high is not None
    assert found.high - found.gain == pytest.approx(2.92 * 0.1 * (4 / 3) ** 0.5, rel=0.02)
    assert found.gain - found.low == pytest.approx(found.high - found.gain)


@pytest.mark.parametrize("seed", range(5))
def test_the_range_contains_nine_of_ten(seed: int) -> None:
    rng = random.Random(seed)
    hits = 0
    for _ in range(200):
        *known, one_more = (1 - rng.gauss(0.2, 0.05) for _ in range(7))
        found = range_of_gain(known, [1.0] * 6)
        assert found.low is not None and found.high is not None
        hits += found.low <= 1 - one_more <= found.high
    assert 155 <= hits <= 199


TRACES = st.lists(
    st.builds(
        TraceJob,
        submit_s=st.floats(0, 500),
        name=st.just("a"),
        gpus=st.integers(1, 2),
        duration_s=st.floats(40, 400),
        memory_mib=st.floats(1000, 30000),
        smact=st.floats(0.05, 1),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=some(25))
@given(TRACES)
def test_waiting_and_execution_make_up_completion(jobs: list[TraceJob]) -> None:
    found = metrics(simulate(jobs, Scenario(parse("sim:2xA100-40GB"))))
    assert found.unfinished == 0
    assert found.mean_wait_s is not None and found.mean_exec_s is not None
    assert found.mean_jct_s == pytest.approx(found.mean_wait_s + found.mean_exec_s)
    assert found.p95_jct_s is not None and found.mean_jct_s <= found.makespan_s + 1e-6
    assert 0 <= found.gpu_smact_mean <= 1 and 0 <= found.gpu_memory_mean <= 1
    assert 2 * 58 * found.makespan_s * 0.999 <= found.energy_j <= 2 * 273 * found.makespan_s
