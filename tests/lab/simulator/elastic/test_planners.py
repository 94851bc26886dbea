"""The planner `elastic` in virtual time, on the example trace."""

from __future__ import annotations

from functools import cache

import pytest

from radrm.config import Config
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.metrics import metrics
from radrm.lab.simulator.run import Run
from radrm.lab.simulator.scenario import Life, Scenario
from radrm.lab.simulator.traces.trace import read_trace
from radrm.simulated.spec import parse
from radrm.structs import replace
from tests.paths import REPOSITORY


@cache
def example(planner: str, restarts: bool = False) -> Run:
    path = REPOSITORY / "examples" / "traces" / "elastic.csv"
    jobs = read_trace(path.read_text().splitlines(), path.name).jobs
    config = Config(policy="exclusive", planner=tuple(planner.split("+")))
    life = Life(restarts=restarts)
    return simulate(jobs, Scenario(parse("sim:4xA100-40GB"), config, life=life))


@pytest.mark.parametrize("restarts", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_idle_gpus_shorten_the_run_times_by_a_fifth(restarts: bool) -> None:
    before, after = metrics(example("strict")), metrics(example("strict+elastic", restarts))
    assert before.unfinished == after.unfinished == after.oom_count == 0
    assert before.mean_jct_s is not None and after.mean_jct_s is not None
    assert after.mean_jct_s < 0.8 * before.mean_jct_s
    assert (after.mean_gpus or 0) > 1.3 and (after.gpu_held or 0) > (before.gpu_held or 1)


def waits(run: Run) -> list[float]:
    return [each.attempts[0].started_s - each.job.submit_s for each in run.jobs]


@pytest.mark.nightly
def test_growth_is_given_back_before_a_job_waits_longer_than_a_resize() -> None:
    grown = example("strict+elastic")
    life = Life()
    resizes = 2 * (life.standby_s + life.resize_s)
    for at, (own, usual) in enumerate(zip(waits(grown), waits(example("strict")), strict=True)):
        assert own <= usual + resizes, grown.jobs[at].job.name


def test_jobs_of_one_size_keep_it() -> None:
    run = example("strict+elastic")
    fixed = [each for each in run.jobs if not each.job.elastic]
    assert fixed and all(not a.sizes for each in fixed for a in each.attempts)
    grown = [each for each in run.jobs if any(a.sizes for a in each.attempts)]
    assert len(grown) > len(run.jobs) / 3


@pytest.mark.nightly
def test_without_idle_gpus_nothing_grows() -> None:
    path = REPOSITORY / "examples" / "traces" / "elastic.csv"
    jobs = [
        replace(job, submit_s=0.0)
        for job in read_trace(path.read_text().splitlines(), path.name).jobs[:12]
    ]
    config = Config(policy="exclusive", planner=("strict", "elastic"))
    run = simulate(jobs, Scenario(parse("sim:1xA100-40GB"), config))
    assert metrics(run).resizes == 0
