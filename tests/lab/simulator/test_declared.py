"""Memory that submitters declare, with an error: what the simulator draws."""

from __future__ import annotations

import pytest

from radrm.lab.simulator.engine import simulate, tasks_of
from radrm.lab.simulator.scenario import Known, Scenario
from radrm.lab.simulator.traces.job import TraceJob
from radrm.simulated.spec import parse

JOBS = [TraceJob(60.0 * at, f"job{at}", 1, 900.0, 6000.0, 0.3, line=at + 1) for at in range(8)]


def scenario(error: float) -> Scenario:
    known = Known(declared=error, smact=0.0)
    return Scenario(parse("sim:1xA100-40GB"), estimator="none", known=known)


def test_it_is_drawn_and_counts_as_declared_whatever_the_estimator() -> None:
    exact, wrong = tasks_of(JOBS, scenario(0.0)), tasks_of(JOBS, scenario(0.08))
    assert {task.declared_mib for task in exact} == {6000}
    drawn = [task.declared_mib or 0 for task in wrong]
    assert len(set(drawn)) == 8 and all(6000 / 1.3 < mib < 6000 * 1.3 for mib in drawn)
    assert {task.estimates[0].source for task in wrong} == {"declared"}


@pytest.mark.parametrize("error", [0.0, 0.08])
def test_clients_of_mps_do_not_die_of_it(error: float) -> None:
    run = simulate(JOBS, scenario(error))
    assert run.oom_count == 0 and all(job.ended_s is not None for job in run.jobs)
