"""Rules that raise, answer nonsense or never stop, and worlds that check what comes of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from radrm.core import events as ev
from radrm.core.decision import Decision
from radrm.core.proposals import (
    Proposal,
    SetShares,
)
from radrm.core.records import (
    Checkpoint,
    Job,
    Refusal,
)
from radrm.core.rules import Plan
from radrm.core.view import View
from radrm.core.words import CheckpointKind, JobState
from radrm.host.storage.database import encoded
from radrm.planners.order_policy import OrderPolicy
from radrm.policies.exclusive import Exclusive
from radrm.structs import replace
from tests.world import GIB, World, gpus

EVERYTHING = frozenset(
    {ev.JobSubmitted, ev.AttemptEnded, ev.AttemptStarted, ev.ReadingsTaken, ev.CancelRequested}
)
CAN_SAVE = Checkpoint(CheckpointKind.SIGNAL)


class Watched(World):
    """Every decision must be fit for the store, and no moment may have steps without end."""

    most_steps_at_once = 300
    steps: dict[float, int]

    def decide(self, event: ev.Event) -> Decision:
        steps = self.__dict__.setdefault("steps", {})
        steps[self.boot_s] = steps.get(self.boot_s, 0) + 1
        assert steps[self.boot_s] < self.most_steps_at_once, "it goes round without end"
        decision = super().decide(event)
        for record in decision.changed:
            assert json.loads(encoded(record)) is not None
        return decision

    @property
    def said(self) -> list[str]:
        return [line for decision in self.decisions for line in decision.log_lines]


def world_of(*planners: Any, alone: bool = False, **rules: Any) -> Watched:
    stand_in = OrderPolicy(Exclusive(), Exclusive(), name="fallback")
    fallback = None if alone else stand_in
    if planners and not any(planner.starts_jobs for planner in planners):
        planners[0].starts_jobs = True
    return Watched(gpus(2), planners=planners or None, fallback=fallback, **rules)


def lives(world: World) -> None:
    """Jobs are started and end, also after a restart; nothing of it fails."""
    first = world.submit(GIB)
    second = world.submit(GIB, gpus=0)
    for job in (first, second):
        assert world.state(job) is JobState.RUNNING, world.why(job)
        assert world.end(job).state is JobState.COMPLETED
    for _ in range(4):
        world.pass_time(400.0)
    world.restart()
    third = world.submit(GIB)
    assert world.state(third) is JobState.RUNNING
    assert world.cancel(third).state is JobState.CANCELLED


@dataclass
class Wishing:
    """A planner that always proposes the same."""

    wish: Any = None
    listens: frozenset[type[ev.Event]] = EVERYTHING
    name: str = "wishing"
    version: int = 1
    starts_jobs: bool = False
    asked: int = 0

    def plan(self, view: View, event: ev.Event, state: Any) -> Plan:
        self.asked += 1
        return Plan([self.wish] if self.wish is not None else [])

    def explain(self, view: View, job: Job) -> Sequence[Refusal]:
        return ()


@dataclass
class Broken(Wishing):
    """A planner whose answer is what `make` makes of the job's id."""

    make: Callable[[], Any] = Plan
    name: str = "broken"

    def plan(self, view: View, event: ev.Event, state: Any) -> Plan:
        self.asked += 1
        found: Plan = self.make()
        return found


def raising(error: BaseException) -> Callable[[], Any]:
    def make() -> Any:
        raise error

    return make


def flip(view: View) -> Iterator[Proposal]:
    """Caps of CPUs that are never twice the same."""
    for job, attempt in view.running():
        (share, *others) = attempt.placement.shares
        other = replace(share, cpus=2.0 if share.cpus == 1.0 else 1.0)
        yield SetShares(job_id=job.id, shares=(other, *others))


@dataclass
class Stubborn(Wishing):
    """Proposes the same after each kind of event, failures of its own wishes among them."""

    wish: Any = flip
    name: str = "stubborn"
    listens: frozenset[type[ev.Event]] = frozenset(
        {
            *(ev.ActionFailed, ev.AttemptStarted, ev.SharesApplied, ev.CheckpointTaken),
            *(ev.Resized, ev.AttemptEnded, ev.ReadingsTaken, ev.Tick),
        }
    )

    def plan(self, view: View, event: ev.Event, state: Any) -> Plan:
        return Plan(self.wish(view), wake_at=view.now.boot_s - 1.0)


@dataclass
class Recovering:
    answer: Any
    name: str = "recovering"

    def after_oom(self, *_: Any) -> Any:
        return self.answer() if callable(self.answer) else self.answer
