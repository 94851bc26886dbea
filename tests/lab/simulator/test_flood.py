"""A sweep of one user does not hold the short jobs of four others."""

from __future__ import annotations

from statistics import median

from benchmarks.simulation.flood import MOST_MIN, OTHERS, as_shipped, flood, waits_min
from radrm.lab.simulator.engine import simulate


def test_short_jobs_of_others_wait_a_few_minutes_beside_a_sweep() -> None:
    """Under smallest work alone they wait for 52 minutes; with 80 jobs, for hours."""
    jobs = flood(sweep=30, short=6)
    assert {each.user for each in jobs} == {"ann", *OTHERS}
    run = simulate(jobs, as_shipped())
    assert median(waits_min(run)) <= MOST_MIN
    assert all(each.ended_s is not None for each in run.jobs), "the sweep ends, too"
