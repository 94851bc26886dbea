"""Sparse readings decide what a reading each second would."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.core.state.load import SmactWindow
from radrm.lab.simulator import engine
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.run import Run
from radrm.lab.simulator.scheduling import PiecewiseWindow
from radrm.lab.simulator.world import Gpu, World
from radrm.simulated.spec import parse
from radrm.structs import replace
from tests.examples import some
from tests.lab.simulator.engine.every_second import EverySecond
from tests.lab.simulator.traces import drawn, scenario


@settings(max_examples=some(100))
@given(
    seed=st.integers(0, 10**6),
    changes=st.lists(st.tuples(st.integers(1, 60), st.booleans()), max_size=12),
    wait_s=st.integers(0, 120),
)
def test_the_window_tells_what_readings_each_second_would(
    seed: int, changes: list[tuple[int, bool]], wait_s: int
) -> None:
    rng = Random(seed)
    gpu = Gpu(parse("sim:1xA100-40GB")[0])
    world = World(parse("sim:1xA100-40GB"))
    exact, read = PiecewiseWindow(90, 1, gpu, world), SmactWindow(90)

    def go_on(seconds: int) -> None:
        for _ in range(seconds):
            world.now_s += 1
            read.add(world.now_s, gpu.activity)

    for seconds, restarts in changes:
        go_on(seconds)
        gpu.activity = rng.random()
        gpu.note(world.now_s)
        if restarts:
            exact.restart()
            read.restart()
    go_on(wait_s)
    # The daemon's window counts both its ends; the exact one is as long as it says.
    assert 0 <= len(read) - len(exact) <= 1
    if len(exact):
        assert read.mean is not None
        assert exact.mean == pytest.approx(read.mean, abs=2 / len(exact))


def every_second(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> Run:
    with monkeypatch.context() as patched:
        patched.setattr(engine, "OwnLoop", EverySecond)
        return simulate(*arguments)


@pytest.mark.parametrize(
    ("policy", "estimator"), [("magm", "oracle"), ("lug", "off"), ("magm", "none")]
)
def test_the_same_placements_as_with_a_reading_each_second(
    monkeypatch: pytest.MonkeyPatch, policy: str, estimator: str
) -> None:
    # No two alike: between devices that show the same, the last digit would decide.
    jobs = [
        replace(job, submit_s=float(int(job.submit_s)), smact=job.smact + 0.003 * at)
        for at, job in enumerate(drawn(12, 14, 900.0))
    ]
    setting = scenario(policy, "sim:2xA100-40GB", estimator=estimator)
    sparse, dense = simulate(jobs, setting), every_second(monkeypatch, jobs, setting)
    assert sparse.decisions == dense.decisions
    for mine, other in zip(sparse.jobs, dense.jobs, strict=True):
        # When the first reading of a device that is warm again is there depends on when readings
        # are taken: a change just before or after it may cost ten seconds more.
        assert mine.attempts[-1].started_s == pytest.approx(other.attempts[-1].started_s, abs=15)
