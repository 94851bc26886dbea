"""FlowCon through `step`: a controller lowers a converged job's CPU share, and backs off.

After Algorithms 1 and 2 of FlowCon (thesis, section 5.1.2), in a few lines: jobs
move from the new list to the watching and the completing list as their growth
falls below a threshold; those in the completing list get a small CPU limit; when
all are there, limits go and the interval doubles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.proposals import Proposal, SetShares
from radrm.core.records import Job, Needs, Refusal, Role
from radrm.core.rules import Plan
from radrm.core.view import View
from tests.world import World, default_planner, gpus

NEW, WATCHING, COMPLETING = "new", "watching", "completing"


@dataclass(frozen=True)
class FlowCon:
    cpus: float = 8.0
    alpha: float = 0.01
    beta: float = 2.0
    interval_s: float = 20.0
    name: str = "flowcon"
    version: int = 1
    starts_jobs: bool = False
    listens: frozenset[type[ev.Event]] = frozenset({ev.AttemptStarted, ev.AttemptEnded})

    def plan(self, view: View, event: ev.Event, state: Any) -> Plan:
        now = view.now.boot_s
        running = {str(job.id): job for job, _ in view.running()}
        before = dict((state or {}).get("lists", {}))
        interval, due = (state or {}).get("interval", self.interval_s), (state or {}).get("due", 0)
        if set(before) != set(running):  # Algorithm 2: somebody came or went
            interval = self.interval_s
        elif now < due:
            return Plan(state=state, wake_at=due)
        lists, growth = {}, {}
        for key, job in running.items():
            was, loss = before.get(key, (NEW, None))
            now_loss = job.progress.loss if job.progress else None
            known = loss is not None and now_loss is not None
            growth[key] = abs(loss - now_loss) / interval if known else self.alpha
            slower = {NEW: WATCHING, WATCHING: COMPLETING}.get(was, COMPLETING)
            lists[key] = (slower if growth[key] < self.alpha else NEW, now_loss)
        if running and all(which == COMPLETING for which, _ in lists.values()):
            interval *= 2
            limits = dict.fromkeys(running, self.cpus)
        else:
            total = sum(growth.values()) or 1.0
            least = 1 / (self.beta * max(1, len(running)))
            limits = {
                key: self.cpus * (max(growth[key] / total, least) if which == COMPLETING else 1.0)
                for key, (which, _) in lists.items()
            }
        wake = now + interval if running else None
        new_state = {"lists": lists, "interval": interval, "due": wake or 0}
        return Plan(self._caps(view, limits), new_state, wake)

    def _caps(self, view: View, limits: dict[str, float]) -> Iterator[Proposal]:
        for job, attempt in view.running():
            shares = tuple(replace(s, cpus=limits[str(job.id)]) for s in attempt.placement.shares)
            if shares != attempt.placement.shares:
                yield SetShares(job_id=job.id, shares=shares)

    def explain(self, view: View, job: Job) -> Sequence[Refusal]:
        return ()


def cpus(world: World, job: Job) -> float | None:
    attempt = world.live(job)
    return attempt.placement.shares[0].cpus if attempt else None


def flowcon_world() -> tuple[World, Job, Job]:
    world = World(gpus(1), planners=(default_planner(), FlowCon()))
    roles = (Role(needs=Needs(cpus=8.0)),)
    old = world.submit(4000, smact=0.2, roles=roles)
    young = world.submit(4000, smact=0.2, roles=roles)
    return world, old, young


def interval(world: World, old: Job, old_loss: float, young: Job, young_loss: float) -> None:
    world.report(old, loss=old_loss)
    world.report(young, loss=young_loss)
    world.pass_time(world.rule_states["planner", "flowcon"].state["interval"])


def test_a_converged_job_gives_its_cpus_to_a_growing_one() -> None:
    world, old, young = flowcon_world()
    for loss in (0.5, 0.499, 0.4985, 0.498):
        interval(world, old, loss, young, 10 * loss * loss * (1 if loss == 0.5 else loss * 1.5))
    # The young job keeps falling by more than alpha; the old one has converged.
    for young_loss in (5.0, 4.0, 3.0):
        interval(world, old, 0.498, young, young_loss)
    assert cpus(world, old) == 8.0 / (2 * 2), "the lower bound 1 / (beta n)"
    assert cpus(world, young) == 8.0


def test_when_all_have_converged_limits_go_and_the_interval_doubles() -> None:
    world, old, young = flowcon_world()
    for _ in range(5):
        interval(world, old, 0.5, young, 0.7)
    assert cpus(world, old) == cpus(world, young) == 8.0
    backed_off = world.rule_states["planner", "flowcon"].state["interval"]
    assert backed_off > FlowCon().interval_s
    calls = len(world.decisions)
    world.submit(4000, smact=0.2)
    assert world.rule_states["planner", "flowcon"].state["interval"] == FlowCon().interval_s
    assert len(world.decisions) > calls


def test_its_memory_survives_a_restart_and_a_failed_share_changes_nothing() -> None:
    world, old, young = flowcon_world()
    interval(world, old, 0.5, young, 5.0)
    state = world.rule_states["planner", "flowcon"].state
    world.restart()
    assert world.scheduler.state.rule_states["planner", "flowcon"].state == state
    world.obey = False
    for young_loss in (4.0, 3.0, 2.0):
        interval(world, old, 0.5, young, young_loss)
    wanted = [a for a in world.actions if isinstance(a, act.ApplyShares)]
    assert wanted and cpus(world, old) == 8.0
    world.step(ev.ActionFailed(at=world.now, action=wanted[-1], reason="no cgroup"))
    assert cpus(world, old) == 8.0
