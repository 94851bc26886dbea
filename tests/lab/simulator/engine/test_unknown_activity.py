"""Jobs of which nothing is known share GPUs: by what their GPU shows, or few of them."""

from __future__ import annotations

import pytest

from radrm.config import Config
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.scenario import Known, Scenario
from radrm.lab.simulator.traces.job import TraceJob
from radrm.simulated.spec import parse

HOUR_S = 3600.0


def starts(smact: float, gpus: str = "sim:2xA100-40GB", jobs: int = 6) -> list[float]:
    """Return when each of these jobs started, in seconds. Only their memory is declared."""
    trace = tuple(TraceJob(0.0, f"j{n}", 1, HOUR_S, 6144.0, smact) for n in range(jobs))
    scenario = Scenario(
        devices=parse(gpus), config=Config(), known=Known(memory=0.0), estimator="none", mps=False
    )
    return sorted(each.attempts[0].started_s for each in simulate(trace, scenario).jobs)


def test_six_jobs_share_two_gpus_as_soon_as_these_show_their_activity() -> None:
    assert starts(0.4) == pytest.approx([0, 0, 60, 60, 120, 120], abs=2)


def test_jobs_that_fill_a_gpu_wait_once_it_shows_that() -> None:
    assert starts(0.95)[2] > HOUR_S / 2


def test_two_share_a_gpu_that_shows_nothing() -> None:
    found = starts(0.4, "sim:2xRTX4090-24GB,smact=none")
    assert found[:4] == pytest.approx([0, 0, 60, 60], abs=2)
    assert found[4] > HOUR_S / 2
