"""Any changes of jobs with parameter servers: what must hold in every run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.config import Config
from radrm.core.events import Event
from radrm.core.planning.requests import find_size, with_cpus
from radrm.core.proposals import Preempt, Proposal, ResizeTo, SetShares
from radrm.core.records import Node, Placement
from radrm.core.rules import Plan
from radrm.core.view import View
from radrm.lab.simulator.elastic.training import TrainingRun
from radrm.policies.exclusive import Exclusive
from tests.lab.simulator.elastic.test_training import run, scenario, training_job
from tests.lab.simulator.engine.puppets import Puppet

NODES = tuple(Node(f"n{number}", cpus=24.0) for number in range(3))
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Restless(Puppet):
    """Gives jobs other tasks and other CPUs, and stops them, now and then."""

    seed: int = 0

    def plan(self, view: View, event: Event, state: Any) -> Plan:
        return Plan(self.act(view), None, view.now.boot_s + 3.0)

    def act(self, view: View) -> Iterator[Proposal]:
        for job, attempt in list(view.running()):
            rng = Random(f"{self.seed} {job.id} {view.now.boot_s // 9}")
            deed = rng.random()
            shares = attempt.placement.shares
            if deed < 0.2:
                counts = {role.name: rng.randint(1, role.count_max) for role in job.spec.roles}
                found = find_size(view, Exclusive(), Exclusive(), job, attempt, counts)
                if isinstance(found, Placement):
                    yield ResizeTo(job_id=job.id, placement=found)
            elif deed < 0.4:
                cpus = {(s.role, s.task): rng.uniform(4, 12) for s in shares}
                yield SetShares(job_id=job.id, shares=with_cpus(attempt.placement, cpus).shares)
            elif deed < 0.45:
                yield Preempt(job_id=job.id)


def booked_at_once(found: TrainingRun) -> Iterator[float]:
    """The CPUs of all tasks on a node, whenever they change."""
    spans = [span for each in found.jobs for span in each.spans]
    for moment in {span.from_s for span in spans}:
        here = [s for s in spans if s.from_s <= moment < s.until_s]
        for node in NODES:
            yield sum(t.cpus for span in here for t in span.tasks if t.node == node.name)


@given(
    st.integers(0, 10**6),
    st.lists(st.floats(0, 60), min_size=1, max_size=4),
    st.sampled_from((0.0, 5.0, 40.0)),
    st.sampled_from((0.0, 4.0)),
    st.sampled_from((0.0, 0.1)),
)
def test_every_step_is_done_once_and_no_server_gives_more_than_it_has(
    seed: int, times: list[float], standby_s: float, resize_s: float, noise: float
) -> None:
    jobs = [training_job(at_s, 800.0) for at_s in sorted(times)]
    config = Config(core={"resize_limit_s": 20.0})
    what = {"nodes": NODES, "config": config, "save_s": 2.0, "start_s": 1.0, "noise": noise}
    found = run(jobs, scenario(standby_s=standby_s, resize_s=resize_s, **what), Restless(seed=seed))
    assert found.unfinished == 0, [each.reason for each in found.jobs]
    assert all(cpus <= 24 + _ROUNDING for cpus in booked_at_once(found))
    for each in found.jobs:
        assert all(a.until_s <= b.from_s + _ROUNDING for a, b in pairwise(each.spans))
        if not noise:
            done = sum(s.steps_s * (s.until_s - s.from_s) for s in each.spans)
            assert done == pytest.approx(800), "saved steps are not done again"
