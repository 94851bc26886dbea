"""Nodes with jobs of parameter servers and workers, whose speed and use follow from a formula."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.records import (
    HostUse,
    Job,
    JobSpec,
    Needs,
    Node,
    Placement,
    Progress,
    Role,
    TaskUse,
)
from radrm.core.rules import Planner
from radrm.core.words import Resizing
from radrm.policies.exclusive import Exclusive
from radrm.published.servers.layout import SERVER, WORKER, Layout, layout_of
from radrm.structs import replace
from tests.world import World, gpus

POLICY = Exclusive()


@dataclass(frozen=True)
class Work:
    """What a layout does: steps per second, the CPUs that its tasks use, its servers' networks."""

    speed: float
    used: Layout
    network: Sequence[float] = ()


Model = Callable[[Layout], Work]


def roles(
    servers: int = 20, workers: int = 100, least: float = 1.0, most: float | None = 32.0
) -> tuple[Role, ...]:
    needs = Needs(gpus=0, cpus=least, cpus_max=most)
    return Role(SERVER, 1, servers, needs=needs), Role(WORKER, 1, workers, needs=needs)


class Cluster(World):
    """Nodes of so many CPUs each, one planner, and jobs that report every `look_s` seconds."""

    def __init__(self, rule: Planner, model: Model, *cpus: float, look_s: float = 10.0) -> None:
        names = ["local", *(f"node-{at}" for at in range(1, len(cpus)))]
        self.nodes = tuple(Node(name, each) for name, each in zip(names, cpus, strict=True))
        self.model, self.look_s = model, look_s
        self.sums: dict[tuple[int, Placement], list[float]] = {}
        self.steps: dict[int, float] = {}
        self.history: list[tuple[float, int, Layout]] = []
        """When each job was seen with which layout, where that differs from the one before."""
        super().__init__(gpus(2), planners=(rule,), node=self.nodes[0])

    def see_nodes(self, node: Node | None = None) -> None:
        self.step(ev.NodesSeen(at=self.now, nodes=self.nodes))

    def train(self, **wanted: Any) -> Job:
        """Submit a job with parameter servers and workers."""
        fields = {"roles": roles(), "resizing": Resizing.LIVE, **wanted}
        fingerprint = fields.pop("fingerprint", None)
        job = Job(
            id=self.next_id,
            ticket=f"T{self.next_id}",
            spec=JobSpec(name=f"job{self.next_id}", user="ann", uid=1000, **fields),
            submitted=self.now,
            fingerprint=fingerprint,
        )
        self.next_id += 1
        self.step(ev.JobSubmitted(at=self.now, job=job))
        return self.jobs[job.id]

    def layout(self, job: Job) -> Layout:
        return layout_of(self.live(job).placement)

    def layouts(self, job: Job) -> list[Layout]:
        """The layouts that a job has had, one after another."""
        return [layout for _, job_id, layout in self.history if job_id == job.id]

    def asked(self, kind: type[act.Action], job: Job | None = None) -> list[Any]:
        """The actions of a kind so far."""
        found = [action for action in self.actions if type(action) is kind]
        return [a for a in found if job is None or getattr(a, "job_id", 0) == job.id]

    def run(self, seconds: float, restart_each_s: float | None = None) -> None:
        """Pass time; jobs work and report."""
        end_s, again_s = self.boot_s + seconds, self.boot_s
        while self.boot_s < end_s - 0.001:
            self.boot_s += min(self.look_s, end_s - self.boot_s)
            self._work()
            self.step(ev.Tick(at=self.now))
            self._note()
            if restart_each_s is not None and self.boot_s >= again_s + restart_each_s:
                again_s = self.boot_s
                for key, kept in self.rule_states.items():
                    self.rule_states[key] = replace(kept, state=json.loads(json.dumps(kept.state)))
                self.restart()

    def _work(self) -> None:
        uses: list[tuple[int, int, HostUse]] = []
        for job, attempt in list(self.scheduler.view.running()):
            if {role.name for role in job.spec.roles} != {SERVER, WORKER}:
                continue
            layout = layout_of(attempt.placement)
            work = self.model(layout)
            used = (*work.used.servers, *work.used.workers)
            sums = self.sums.setdefault((attempt.serial, attempt.placement), [0.0] * len(used))
            for at, cpus in enumerate(used):
                sums[at] += cpus * self.look_s
            self.steps[job.id] = self.steps.get(job.id, 0.0) + work.speed * self.look_s
            network = (*work.network, *(None for _ in used))
            tasks = [(SERVER, at) for at in range(len(layout.servers))]
            tasks += [(WORKER, at) for at in range(len(layout.workers))]
            found = tuple(
                TaskUse(role, number, cpu_s, None, net)
                for (role, number), cpu_s, net in zip(tasks, sums, network, strict=False)
            )
            uses.append((job.id, attempt.serial, HostUse(self.now, sum(sums), tasks=found)))
            progress = Progress(at=self.now, step=self.steps[job.id])
            self.step(
                ev.ProgressReported(
                    at=self.now, job_id=job.id, serial=attempt.serial, progress=progress
                )
            )
        if uses:
            self.step(ev.HostUsed(at=self.now, uses=tuple(uses)))

    def _note(self) -> None:
        for job, attempt in self.scheduler.view.running():
            if {role.name for role in job.spec.roles} != {SERVER, WORKER}:
                continue
            layout = layout_of(attempt.placement)
            before = [each for _, job_id, each in self.history if job_id == job.id]
            if not before or before[-1].differs(layout, 0.0):
                self.history.append((self.boot_s, job.id, layout))
