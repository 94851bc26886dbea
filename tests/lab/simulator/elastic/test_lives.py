"""Any jobs, any sizes, at any times: what must hold in every simulated run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core.events import Event
from radrm.core.planning.requests import find_size
from radrm.core.proposals import Proposal, ResizeTo
from radrm.core.records import Placement
from radrm.core.rules import Plan
from radrm.core.view import View
from radrm.core.words import Outcome
from radrm.lab.simulator.engine import tasks_of
from radrm.lab.simulator.run import Run
from radrm.lab.simulator.scenario import Scenario
from radrm.lab.simulator.traces.job import TraceJob
from radrm.policies.exclusive import Exclusive
from radrm.policies.sharing import FirstFit
from radrm.structs import replace
from tests.lab.simulator.elastic.test_loop import CORE, FREE
from tests.lab.simulator.engine.puppets import Puppet, played
from tests.lab.simulator.traces import job, scenario


@dataclass(frozen=True)
class Restless(Puppet):
    """Gives jobs any other size, now and then."""

    seed: int = 0

    def plan(self, view: View, event: Event, state: Any) -> Plan:
        return Plan(self.act(view), None, view.now.boot_s + 5.0)

    def act(self, view: View) -> Iterator[Proposal]:
        for each, attempt in list(view.running()):
            rng = Random(f"{self.seed} {each.id} {view.now.boot_s // 20}")
            role = each.spec.roles[0]
            wanted = rng.randint(role.count_min, role.count_max)
            if rng.random() < 0.3 and wanted != len(attempt.tasks):
                policy = Exclusive() if attempt.placement.collocation.whole_device else FirstFit()
                found = find_size(view, policy, Exclusive(), each, attempt, {"main": wanted})
                if isinstance(found, Placement):
                    yield ResizeTo(job_id=each.id, placement=found)


@st.composite
def elastic_jobs(draw: st.DrawFn) -> list[TraceJob]:
    """Up to six jobs, most of them elastic, all of which fit a GPU of 40 GB."""
    jobs = []
    for number in range(draw(st.integers(1, 6))):
        gpus = draw(st.sampled_from((1, 1, 1, 2)))
        jobs.append(
            job(
                draw(st.floats(0, 300)),
                draw(st.floats(60, 600)),
                draw(st.sampled_from((1800, 9700, 24400))),
                name=f"job{number}",
                gpus=gpus,
                gpus_max=draw(st.sampled_from((None, gpus + 1, 4))),
                cpus=4.0,
                io_s=draw(st.sampled_from((None, 0.5))),
                compute_s=draw(st.sampled_from((1.0, 4.0))),
                sync_s=draw(st.sampled_from((None, 0.2))),
                saves=draw(st.booleans()),
            )
        )
    return jobs


def scene(policy: str, standby_s: float, resize_s: float, limit_s: float, again: bool) -> Scenario:
    life = replace(
        FREE,
        start_up_s=5.0,
        ramp_s=5.0,
        standby_s=standby_s,
        resize_s=resize_s,
        checkpoint_s=3.0,
        restart_s=4.0,
        restarts=again,
    )
    core = {**CORE, "resize_limit_s": limit_s}
    return scenario(policy, "sim:4xA100-40GB", core=core, life=life)


SCENES = st.builds(
    scene,
    st.sampled_from(("exclusive", "first-fit")),
    st.sampled_from((0.0, 12.0, 40.0)),
    st.sampled_from((0.0, 7.0)),
    st.sampled_from((30.0, 600.0)),
    st.booleans(),
)


def held_by(run: Run, at: int) -> list[tuple[float, float]]:
    """When each attempt had a device, in order."""
    return sorted(
        (from_s, until_s)
        for each in run.jobs
        for attempt in each.attempts
        for from_s, until_s, devices in attempt.held()
        if at in devices
    )


@given(elastic_jobs(), SCENES, st.integers(0, 10**6))
def test_every_life_ends_with_its_work_and_no_gpu_is_given_twice(
    jobs: list[TraceJob], found: Scenario, seed: int
) -> None:
    jobs = sorted(jobs, key=lambda each: each.submit_s)
    run = played(jobs, found, Restless(seed=seed))
    assert all(each.ended_s is not None for each in run.jobs), [e.reason for e in run.jobs]
    for each, task in zip(run.jobs, tasks_of(jobs, found), strict=True):
        done = [a for a in each.attempts if a.outcome is Outcome.COMPLETED]
        assert [a.begun_s + a.solo_s for a in done] == [pytest.approx(task.course.work_s)]
        most = each.job.gpus_max or each.job.gpus
        sizes = [len(devices) for a in each.attempts for _, _, devices in a.held()]
        assert all(each.job.gpus <= size <= most for size in sizes)
    for at, device in enumerate(run.devices):
        assert all(step.memory_mib <= device.total_mib for step in device.steps)
        assert device.steps[-1].memory_mib == 0
        if found.config.policy == "exclusive":
            spans = held_by(run, at)
            assert all(end <= begin + 1e-9 for (_, end), (begin, _) in pairwise(spans))
    if seed % 4 == 0:
        again = played(jobs, found, Restless(seed=seed))
        assert (again.jobs, again.devices) == (run.jobs, run.devices)
