"""Small traces for the engine's tests."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from radrm.config import Config
from radrm.core.words import Collocation
from radrm.lab.simulator.scenario import Life, Scenario
from radrm.lab.simulator.traces.job import TraceJob
from radrm.simulated.spec import parse
from radrm.wiring import table_of

PLAIN = Life(spread=0.0, work_sd=0.0)
"""Every start-up takes 30 s, and so on: no seed changes anything."""

POLICIES = ("exclusive", "rr", "magm", "lug", "mug", "first-fit", "best-fit")


def job(
    submit_s: float = 0.0,
    duration_s: float = 330.0,
    memory_mib: float = 8000.0,
    smact: float = 0.5,
    gpus: int = 1,
    **more: object,
) -> TraceJob:
    name = str(more.pop("name", "job"))
    return TraceJob(submit_s, name, gpus, duration_s, memory_mib, smact, **more)


def scenario(policy: str = "magm", spec: str = "sim:2xA100-40GB", **changes: object) -> Scenario:
    settings = changes.pop("settings", {})
    collocation = changes.pop("collocation", Collocation.AUTO)
    core = changes.pop("core", {})
    rules = {"policies": {table_of("policies", policy): settings}, "core": core}
    config = Config(policy=policy, collocation=collocation, **rules)
    fields: dict[str, object] = {"config": config, "life": PLAIN, **changes}
    return Scenario(devices=parse(spec), **fields)


def drawn(seed: int, count: int, over_s: float = 3000.0) -> list[TraceJob]:
    """A trace of many kinds of jobs, estimates a little off."""
    rng = random.Random(seed)
    jobs = []
    for number in range(count):
        memory_mib = rng.choice((1800, 5200, 9700, 15000, 24400))
        jobs.append(
            job(
                submit_s=rng.uniform(0, over_s),
                name=f"job{number}",
                gpus=rng.choice((1, 1, 1, 1, 2)),
                duration_s=rng.uniform(120, 900),
                memory_mib=memory_mib,
                smact=rng.choice((0.07, 0.3, 0.45, 0.62, 0.88)),
                estimates={"off": memory_mib * rng.uniform(0.7, 2.0)},
                batch_size=rng.choice((32, 64, 128)),
                steady_mib=memory_mib * rng.uniform(0.65, 0.98),
                line=number + 2,
            )
        )
    return sorted(jobs, key=lambda found: found.submit_s)


@st.composite
def traces(draw: st.DrawFn) -> list[TraceJob]:
    """Up to eight jobs in any order of time, now and then one that fits nowhere."""
    times = st.floats(0, 2000)
    return [
        job(
            submit_s=draw(times),
            name=f"job{number}",
            gpus=draw(st.sampled_from((1, 1, 1, 2, 3))),
            duration_s=draw(st.floats(1, 900)),
            memory_mib=draw(st.sampled_from((0, 500, 1800, 9700, 24400, 39000, 45000))),
            smact=draw(st.sampled_from((0.0, 0.07, 0.45, 0.88, 1.0))),
            user=draw(st.sampled_from(("ann", "bob"))),
            priority=draw(st.integers(0, 1)),
            estimates={"off": draw(st.sampled_from((100.0, 8000.0, 30000.0, 40000.0)))},
        )
        for number in range(draw(st.integers(1, 8)))
    ]
