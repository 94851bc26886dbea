"""Jobs of unknown need in the simulator, by the configuration as installed."""

from __future__ import annotations

import pytest

from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.run import Run
from radrm.lab.simulator.scenario import Life, as_configured
from radrm.lab.simulator.traces.job import TraceJob
from radrm.simulated.spec import parse


def run(memory_mib: float, life: Life) -> Run:
    jobs = tuple(
        TraceJob(0.0, f"job-{at}", 1, 3600.0, memory_mib, 0.25, user="ann") for at in range(6)
    )
    scenario = as_configured(parse("sim:2xA100-40GB"), life=life, estimator="none")
    return simulate(jobs, scenario)


@pytest.mark.parametrize("memory_mib", [3_000.0, 12_000.0, 18_000.0])
@pytest.mark.parametrize("steps_s", [10.0, 1e9])
@pytest.mark.parametrize("start_up_s", [30.0, 200.0])
def test_six_share_two_gpus_without_a_death(
    memory_mib: float, steps_s: float, start_up_s: float
) -> None:
    found = run(memory_mib, Life(start_up_s=start_up_s, steps_s=steps_s, spread=0.0))
    assert (found.oom_count, [j.ended_s is None for j in found.jobs]) == (0, [False] * 6)
    starts = sorted(job.attempts[0].started_s for job in found.jobs)
    assert starts[2] < 3600.0, "the third joined another one"


def test_told_steps_let_the_next_start_sooner() -> None:
    told, untold = (run(6_000.0, Life(steps_s=each, spread=0.0)) for each in (10.0, 1e9))
    assert told.ended_s <= untold.ended_s
    third = [sorted(j.attempts[0].started_s for j in each.jobs)[2] for each in (told, untold)]
    assert third[0] < third[1]
