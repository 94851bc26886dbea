"""Lower bounds: worked out by hand, never beaten by a run, and the published figures."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.config import Config
from radrm.interference.model import delivered
from radrm.lab.simulator.bounds import Bounds, bounds, drawn, nominal
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.metrics import metrics
from radrm.lab.simulator.scenario import Scenario
from radrm.lab.simulator.traces.importers.aids import Aids, read_profile
from radrm.lab.simulator.traces.importers.forms import read_any
from radrm.lab.simulator.traces.job import TraceJob
from radrm.simulated.spec import parse
from tests.examples import some
from tests.paths import SHARED_DATA

FULL = delivered(1e6)


def job(submit_s: float, duration_s: float, smact: float, gpus: int = 1) -> TraceJob:
    return TraceJob(submit_s, "a", gpus, duration_s, 1000, smact)


def of(jobs: list[TraceJob], gpus: int = 1, part: float = 1.0) -> Bounds:
    return bounds(jobs, nominal(jobs), [part] * gpus)


def test_a_job_alone_takes_what_it_takes() -> None:
    found = of([job(50, 100, 0.5)])
    assert found == Bounds(100, 100, 100, 100)


def test_work_over_capacity_with_release_times() -> None:
    # Two jobs of full activity from 0, two more from 1000, on one GPU.
    full = [job(0, 100, FULL), job(0, 100, FULL), job(1000, 100, FULL), job(1000, 100, FULL)]
    found = of(full)
    assert found.makespan_s == pytest.approx(1200)
    assert found.mean_jct_s == pytest.approx(150)  # one waits for the other
    assert found.fluid_mean_jct_s == pytest.approx(150)


def test_the_shortest_goes_first_and_interrupts() -> None:
    found = of([job(0, 100, FULL), job(10, 10, FULL)])
    assert found.mean_jct_s == pytest.approx((110 + 10) / 2)
    assert found.makespan_s == pytest.approx(110)


def test_more_gpus_do_not_make_one_job_faster() -> None:
    found = of([job(0, 100, FULL)] * 4, gpus=64)
    assert found.makespan_s == 100 and found.mean_jct_s == pytest.approx(100)


def test_a_part_of_a_gpu_and_a_job_without_load() -> None:
    assert of([job(0, 100, 0.4)] * 2, part=0.5).makespan_s == pytest.approx(160)
    assert of([job(0, 100, 0.0)] * 50).mean_jct_s == 100
    assert of([]) == Bounds(0, 0, 0, 0)


def test_start_up_is_no_work() -> None:
    jobs = [job(0, 100, FULL)] * 3
    assert bounds(jobs, nominal(jobs, 30), [1.0]).makespan_s == pytest.approx(210)
    assert bounds(jobs, nominal(jobs, 500), [1.0]).makespan_s == pytest.approx(150)


JOBS = st.builds(
    TraceJob,
    submit_s=st.floats(0, 600),
    name=st.just("a"),
    gpus=st.integers(1, 2),
    duration_s=st.floats(40, 900),
    memory_mib=st.floats(1000, 20000),
    smact=st.floats(0.05, 1),
    batch_size=st.sampled_from([None, 32, 128]),
)


@settings(max_examples=some(60))
@given(
    st.lists(JOBS, min_size=1, max_size=10),
    st.sampled_from(["exclusive", "rr", "magm", "lug", "best-fit"]),
    st.booleans(),
    st.integers(0, 3),
)
def test_no_policy_beats_the_bounds(
    jobs: list[TraceJob], policy: str, mps: bool, seed: int
) -> None:
    scenario = Scenario(parse("sim:2xA100-40GB"), Config(policy=policy), seed=seed, mps=mps)
    run = simulate(jobs, scenario)
    found, life = metrics(run), scenario.life
    limits = bounds(*drawn(run, life.start_up_s * (1 - life.spread)), [1.0, 1.0])
    assert found.mean_jct_s is not None and found.unfinished == 0
    assert found.makespan_s >= limits.makespan_s * (1 - 1e-9)
    assert found.mean_jct_s >= limits.mean_jct_s * (1 - 1e-9)
    # The mark is a schedule of the relaxed server: it cannot beat them either.
    assert limits.fluid_makespan_s >= limits.makespan_s * (1 - 1e-6)
    assert limits.fluid_mean_jct_s >= limits.mean_jct_s * (1 - 1e-6)


@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="the development data is not here")
def test_the_published_trace() -> None:
    """413 and 100 minutes were found before, with the start-up taken for work."""
    with open(SHARED_DATA / "measured/measured_solo_profile_a100.csv") as file:
        aids = Aids(profile=read_profile(file, "profile"))
    jobs = read_any(
        (SHARED_DATA / "traces/heavy60.csv").read_text().splitlines(True), "t", "auto", aids
    )
    found = bounds(jobs.jobs, nominal(jobs.jobs), [1.0] * 4)
    assert found.makespan_s / 60 == pytest.approx(413.4, abs=0.1)
    assert found.fluid_mean_jct_s / 60 == pytest.approx(100.1, abs=0.1)
    assert found.mean_jct_s / 60 == pytest.approx(87.8, abs=0.1)
