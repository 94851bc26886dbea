"""Planners that do what a test says, and runs with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from radrm.core import events as ev
from radrm.core.proposals import Proposal
from radrm.core.records import Job, Refusal
from radrm.core.rules import Plan
from radrm.core.view import View
from radrm.lab.simulator.elastic.loop import ElasticLoop
from radrm.lab.simulator.engine import tasks_of
from radrm.lab.simulator.history import History
from radrm.lab.simulator.reporting import ReportingLoop
from radrm.lab.simulator.run import Run
from radrm.lab.simulator.scenario import Life, Scenario
from radrm.lab.simulator.traces.job import TraceJob
from radrm.structs import replace
from radrm.wiring import make_rules, make_settings

AT_ONCE = Life(0.0, 0.0, 0.0, spread=0.0, work_sd=0.0, restart_s=0.0)


@dataclass(frozen=True)
class Puppet:
    """A planner that looks at each start and every second, and does what its subclass says."""

    seen: list[Any] = field(default_factory=list)
    name: str = "puppet"
    version: int = 1
    starts_jobs: bool = False
    listens: frozenset[type[ev.Event]] = frozenset({ev.AttemptStarted})

    def plan(self, view: View, event: ev.Event, state: Any) -> Plan:
        return Plan(self.act(view), None, view.now.boot_s + 1.0)

    def act(self, view: View) -> Iterator[Proposal]:
        raise NotImplementedError

    def explain(self, view: View, job: Job) -> Sequence[Refusal]:
        return ()


def played(jobs: Sequence[TraceJob], found: Scenario, planner: Puppet) -> Run:
    rules, history = make_rules(found.config), History(jobs)
    rules = replace(rules, planners=(*rules.planners, planner))
    tasks, settings = tasks_of(jobs, found), make_settings(found.config)
    kind = ElasticLoop if any(job.elastic for job in jobs) else ReportingLoop
    loop = kind(found, rules, settings, tasks, history)
    loop.run()
    return history.run(loop.world.device_runs())
