"""Planners that raise or answer nonsense: the server goes on without them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from radrm.core import events as ev
from radrm.core.planning.asking import MOST_PROPOSALS
from radrm.core.planning.shapes import MOST_STATE_CHARACTERS
from radrm.core.proposals import (
    Cancel,
    Preempt,
    Proposal,
    SetShares,
    Start,
)
from radrm.core.records import (
    Job,
    Placement,
    Refusal,
    Share,
)
from radrm.core.rules import Plan
from radrm.core.view import View
from radrm.core.words import Collocation, JobState
from radrm.structs import replace
from tests.contract.broken import Broken, Wishing, lives, raising, world_of
from tests.world import GIB, default_planner


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError


def failing_half_way() -> Iterator[Proposal]:
    yield Cancel(job_id=99, reason="x")
    raise RuntimeError("half way")


def start(**changes: Any) -> Start:
    share = replace(Share(device="GPU-0", reserved_mib=GIB), **changes)
    return Start(job_id=1, placement=Placement((share,), Collocation.TIMESLICE))


def deep(levels: int) -> Any:
    found: Any = None
    for _ in range(levels):
        found = [found]
    return found


PLANS: dict[str, Callable[[], Any]] = {
    "raises": raising(KeyError("GPU-0")),
    "exits": raising(SystemExit(3)),
    "raises what cannot be told": raising(Unspeakable()),
    "raises a book": raising(ValueError("many\nlines\n" * 100_000)),
    "recurses": raising(RecursionError()),
    "answers nothing": lambda: None,
    "answers a list": lambda: [start()],
    "proposes a number": lambda: Plan(5),
    "fails half way": lambda: Plan(failing_half_way()),
    "proposes nothing known": lambda: Plan([object()]),
    "proposes None": lambda: Plan([None]),
    "proposes for a name": lambda: Plan([Preempt(job_id="1")]),
    "proposes no placement": lambda: Plan([Start(job_id=1, placement=None)]),
    "a placement of words": lambda: Plan([Start(job_id=1, placement=Placement("ab", "mps"))]),
    "a memory that is none": lambda: Plan([start(reserved_mib=float("nan"))]),
    "a device that is a list": lambda: Plan([start(device=["GPU-0"])]),
    "endless CPUs": lambda: Plan([start(cpus=float("inf"))]),
    "more CPUs than a number holds": lambda: Plan([start(cpus=10**400)]),
    "more memory than a number holds": lambda: Plan([start(reserved_mib=10**400)]),
    "host memory beyond all": lambda: Plan([start(memory_mib=10**400)]),
    "a host memory of words": lambda: Plan([start(memory_mib="4G")]),
    "memory below zero": lambda: Plan([start(reserved_mib=-GIB)]),
    "shares of words": lambda: Plan([SetShares(job_id=1, shares=("a",))]),
    "a reason of numbers": lambda: Plan([Cancel(job_id=1, reason=5)]),
    "never ends": lambda: Plan(Cancel(job_id=n, reason="x") for n in count(10**6)),
    "keeps a set": lambda: Plan(state={"a": {1, 2}}),
    "keeps a number as a key": lambda: Plan(state={1: 2}),
    "keeps NaN": lambda: Plan(state=[float("nan")]),
    "keeps a huge number": lambda: Plan(state=2**70),
    "keeps an abyss": lambda: Plan(state=deep(100_000)),
    "keeps a library": lambda: Plan(state="x" * (MOST_STATE_CHARACTERS + 1)),
    "keeps a crowd": lambda: Plan(state=list(range(300_000))),
    "wakes at no time": lambda: Plan(wake_at=float("nan")),
    "wakes at a word": lambda: Plan(wake_at="soon"),
}


@pytest.mark.parametrize("what", PLANS)
def test_a_planner_beside_the_first_that_fails_is_left_out(what: str) -> None:
    broken = Broken(make=PLANS[what])
    world = world_of(default_planner(), broken)
    lives(world)
    first = world.said[0]
    assert first.startswith("the planner broken failed (") and "go on without it" in first
    assert len(first) < 600 and "\n" not in first
    assert broken.asked < 20, "it rests, longer each time"
    assert broken.asked > 2, "and is tried again"
    kept = [name for kind, name in world.rule_states if kind == "planner"]
    assert kept == ["strict"], "nothing of it is kept"


@pytest.mark.parametrize(
    "what", ["raises", "exits", "answers nothing", "fails half way", "proposes None", "keeps NaN"]
)
def test_the_first_planner_that_fails_has_another_in_its_place(what: str) -> None:
    world = world_of(Broken(make=PLANS[what]))
    lives(world)
    assert "in the order of the queue, on GPUs of their own" in world.said[0]


def test_what_failed_is_said_once_and_explained_while_it_lasts() -> None:
    world = world_of(Broken(make=raising(ValueError("no such thing"))), alone=True)
    job = world.submit(GIB)
    for _ in range(50):
        world.pass_time(5.0)
    (said,) = world.said
    assert "ValueError: no such thing (broken.py:" in said
    assert "no job starts meanwhile" in said
    (refusal,) = world.scheduler.why_waiting(job.id, world.now)
    assert refusal.rule == "rule" and "no such thing" in refusal.message
    assert "tried again in" in refusal.message
    assert world.scheduler.errors(world.now) == (refusal.message,)


def test_a_planner_that_works_again_is_asked_again() -> None:
    broken = Broken(make=raising(ValueError()))
    world = world_of(broken, alone=True)
    job = world.submit(GIB)
    good = default_planner()
    broken.make = lambda: good.plan(world.scheduler.view, ev.Tick(at=world.now), None)
    world.pass_time(world.settings.retry_s)
    assert world.state(job) is JobState.RUNNING, "the timer alone has it asked"


@pytest.mark.parametrize("listens", [None, 5, "raises"])
def test_a_planner_that_listens_to_nonsense_is_left_out(listens: Any) -> None:
    class Deaf(Broken):
        def __getattribute__(self, name: str) -> Any:
            if name == "listens":
                return raising(KeyError())() if listens == "raises" else listens
            return super().__getattribute__(name)

    lives(world_of(default_planner(), Deaf()))


@pytest.mark.parametrize("words", ["raises", None, "abc", [5], [Refusal("a", 5)]])
def test_a_planner_that_cannot_explain_is_said_so(words: Any) -> None:
    class Mute(Wishing):
        def explain(self, view: View, job: Job) -> Any:
            return raising(KeyError("why"))() if words == "raises" else words

    world = world_of(Mute(), alone=True)
    job = world.submit(GIB)
    (refusal,) = world.scheduler.why_waiting(job.id, world.now)
    assert refusal.rule == "rule" and "cannot say why" in refusal.message


def test_a_state_is_the_cores_own_copy() -> None:
    """What a rule does to its state afterwards changes nothing that is saved."""
    kept: dict[str, Any] = {"n": [1]}

    class Meddling(Wishing):
        def plan(self, view: View, event: ev.Event, state: Any) -> Plan:
            if state is not None:
                state["n"] = {1, 2}
            return Plan(state=kept)

    world = world_of(default_planner(), Meddling())
    kept["n"].append(object())
    assert world.scheduler.state.rule_states["planner", "wishing"].state == {"n": [1]}
    kept["n"].pop()
    lives(world)
    assert world.said == []


def test_a_slow_planners_nonsense_is_refused_too() -> None:
    world = world_of(default_planner())
    for proposals in ((5,), (Start(job_id=1, placement=None),)):
        world.step(ev.PlanReady(at=world.now, planner="slow", version=10**9, proposals=proposals))
    assert len(world.said) == 1
    lives(world)


def test_the_number_of_proposals_in_one_answer_is_bounded() -> None:
    drawn = 0

    def endless() -> Iterator[Proposal]:
        nonlocal drawn
        while True:
            drawn += 1
            yield Cancel(job_id=10**6, reason="x")

    world = world_of(default_planner(), Broken(make=lambda: Plan(endless())))
    world.submit(GIB)
    assert drawn <= MOST_PROPOSALS + 10
