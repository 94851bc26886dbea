"""Random planners, fast and slow, beside the default one: what must hold, holds all the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.planning.thinking import deadline_s, think_in_place
from radrm.core.proposals import (
    Cancel,
    Migrate,
    Preempt,
    Proposal,
    SetShares,
    Start,
    TakeCheckpointNow,
)
from radrm.core.records import Attempt, Device, Job, Placement, Refusal, Share
from radrm.core.rules import Plan
from radrm.core.snapshot import Snapshot
from radrm.core.view import View
from radrm.core.words import Collocation
from radrm.structs import replace
from tests.contract.broken import EVERYTHING, Watched
from tests.contract.lives.test_properties import Move, check, lives, play, servers
from tests.examples import some
from tests.world import GIB, default_planner

CAUSES = ("KeyError: 'raise'", "job_id of its Preempt has the wrong", "it gave no plan in its time")
EVENTS = EVERYTHING | {ev.PlanReady, ev.ProgressReported}
KINDS = ("start", "preempt", "checkpoint", "migrate", "caps", "cancel", "raise", "nonsense")
wishes = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 20), st.integers(0, 5)), max_size=12
)


def wish(kind: str, job_id: int, device: str, attempt: Attempt | None) -> Proposal:
    """A proposal of this kind, sound or not."""
    share = Share(device=device, reserved_mib=GIB)
    placement = Placement((share,), Collocation.TIMESLICE)
    if kind == "start":
        return Start(job_id=job_id, placement=placement)
    if kind == "migrate":
        return Migrate(job_id=job_id, placement=placement)
    if kind == "caps":
        shares = attempt.placement.shares if attempt is not None else (share,)
        return SetShares(job_id=job_id, shares=tuple(replace(s, cpus=2.0) for s in shares))
    if kind == "cancel":
        return Cancel(job_id=job_id, reason="a planner says so")
    if kind == "raise":
        raise KeyError(kind)
    if kind == "nonsense":
        return Preempt(job_id="x")
    return Preempt(job_id=job_id) if kind == "preempt" else TakeCheckpointNow(job_id=job_id)


@dataclass
class Wild:
    """Makes the next of its wishes at each call."""

    wishes: Sequence[tuple[str, int, int]]
    name: str = "wild"
    version: int = 1
    starts_jobs: bool = False
    listens: frozenset[type[ev.Event]] = EVENTS

    def plan(self, view: View, event: ev.Event, state: Any) -> Plan:
        attempts = {job.id: attempt for job, attempt in view.running()}
        at = state or 0
        return Plan(self._made(at, attempts, len(view.devices())), state=at + 1)

    def _made(self, at: int, attempts: dict[int, Attempt], devices: int) -> Iterator[Proposal]:
        if at < len(self.wishes):
            kind, job_id, device = self.wishes[at]
            yield wish(kind, job_id, f"GPU-{device % (devices + 1)}", attempts.get(job_id))

    def explain(self, view: View, job: Job) -> tuple[Refusal, ...]:
        return ()


class SlowlyWild(Wild):
    """The same, slowly."""

    def think(self, view: View, state: Any) -> Plan:
        attempts = {job.id: attempt for job, attempt in view.running()}
        at = state or 0
        return Plan(tuple(self._made(at, attempts, len(view.every_device()))), state=at + 1)


class Thinking(Watched):
    """Its slow planners have looked at once, and answer later, in any order, or never."""

    most_steps_at_once = 3000
    looked: list[ev.PlanReady]

    def _do(self, action: act.Action) -> None:
        if isinstance(action, act.Think):
            seen = Snapshot.of(self.scheduler.snapshot.data(), self.order)
            answer = think_in_place(self.rules.planners, action, seen, self.now)
            self.__dict__.setdefault("looked", []).append(answer)
        else:
            super()._do(action)

    def answer(self, pick: int) -> None:
        if self.__dict__.get("looked"):
            answer = self.looked.pop(pick % len(self.looked))
            self.step(replace(answer, at=self.now))


answers = st.builds(Move, kind=st.just("answer"), pick=st.integers(0, 5))
moves = st.lists(st.one_of(answers, lives.map(lambda found: found[0])), min_size=4, max_size=40)


@settings(max_examples=some(60))
@given(servers, st.lists(wishes, min_size=3, max_size=3), moves)
def test_the_reservations_hold_whatever_planners_want(
    devices: tuple[Device, ...], wanted: list[Sequence[tuple[str, int, int]]], life: list[Move]
) -> None:
    planners = (
        Wild(wanted[0], name="first"),
        default_planner(),
        Wild(wanted[1], name="last"),
        SlowlyWild(wanted[2], name="slow"),
    )
    world = Thinking(devices, planners=planners)
    check(world)
    for move in life:
        if move.kind == "answer":
            world.answer(move.pick)
        else:
            play(world, move)
        check(world)
    for line in world.said:
        assert any(cause in line for cause in CAUSES), line
    for attempt in world.attempts.values():
        assert attempt.planner in {"strict", "first", "last", "slow"}
        if attempt.requested is not None:
            assert attempt.requested.planner in {"first", "last", "slow"}
    _thoughts_go_on(world)


def _thoughts_go_on(world: Thinking) -> None:
    """Whatever answers were lost, the slow planner is asked again in the end."""
    before = sum(isinstance(action, act.Think) for action in world.actions)
    world.looked = []
    for _ in range(3):
        world.pass_time(deadline_s(world.settings.think_s) + 1.0)
    assert sum(isinstance(action, act.Think) for action in world.actions) > before
