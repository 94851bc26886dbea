"""Rules that never return, in the daemon's own thread: each rests, and nothing is half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from radrm.core import events as ev
from radrm.core.planning.interrupt import interrupt
from radrm.core.records import Instant, Job, OutOfMemory
from radrm.core.rules import Ask, Order, Plan
from radrm.core.scheduler import Scheduler
from radrm.core.view import Offer, View
from radrm.core.words import JobState
from radrm.daemon.rule_limit import AGAIN_S, RuleLimit
from tests.contract.broken import Broken, Recovering, Watched, world_of
from tests.world import GIB, default_planner, gpus

LIMIT_S = 600.0
"""No rule that does not spin takes as long, however busy the machine is."""
ASKED = frozenset({ev.JobSubmitted})


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGALRM)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def limited(world: Watched) -> Watched:
    """The same world, with a limit on its rules."""
    world.scheduler = Scheduler(world.rules, world.settings, limit=RuleLimit(LIMIT_S))
    world.step(ev.DevicesSeen(at=world.now, devices=world.devices))
    world.read()
    return world


def ring() -> None:
    """Have the alarm ring as it does when the time is over: soon, and on until it was heeded."""
    signal.setitimer(signal.ITIMER_REAL, 0.001, AGAIN_S)


def spin() -> Any:
    ring()
    while True:
        pass


def spin_and_catch() -> Any:
    ring()
    while True:
        try:
            len(str(12345))
        except Exception:
            pass


@dataclass
class Looping(Broken):
    """Loops over what the core answers, in `call`, for ever."""

    call: Callable[[View], object] = id
    name: str = "looping"

    def plan(self, view: View, event: ev.Event, state: Any) -> Plan:
        ring()
        while True:
            self.call(view)


CALLS: dict[str, Callable[[View], object]] = {
    "the jobs": lambda view: [*view.waiting(), *view.running()],
    "the devices": lambda view: view.devices(),
    "a failing call": lambda view: view.job(0),
}


@pytest.mark.parametrize("how", [spin, spin_and_catch])
def test_a_planner_that_spins_rests(how: Callable[[], Any]) -> None:
    world = limited(world_of(default_planner(), Broken(make=how, listens=ASKED)))
    job = world.submit(GIB)
    assert world.state(job) is JobState.RUNNING
    (said,) = world.said
    assert said.startswith("the planner broken failed (it took longer than 600 s (")
    assert "test_rule_limit.py:" in said
    assert world.end(job).state is JobState.COMPLETED


@pytest.mark.parametrize("what", CALLS)
def test_a_loop_over_the_view_is_interrupted_between_two_calls(what: str) -> None:
    world = limited(world_of(default_planner(), Looping(call=CALLS[what], listens=ASKED)))
    job = world.submit(GIB)
    assert world.state(job) is JobState.RUNNING
    assert "the planner looping failed (it took longer" in world.said[0]


def test_an_explanation_that_spins_is_interrupted() -> None:
    class Pondering(Broken):
        starts_jobs = True

        def explain(self, view: View, job: Job) -> Any:
            return spin()

    world = limited(world_of(Pondering(listens=ASKED), alone=True))
    job = world.submit(GIB)
    (refusal, *_) = world.scheduler.why_waiting(job.id, world.now)
    assert "cannot say why: it took longer" in refusal.message
    (refusal,) = world.scheduler.why_waiting(job.id, world.now)
    assert "the planner broken failed (it took longer" in refusal.message, "it rests"


class Endless:
    """A policy that spins. The planner that asks it goes on."""

    name, version, floor_mib, whole_device, overcommits = "endless", 1, GIB, False, False

    def refuse(self, ask: Ask, offer: Offer) -> Any:
        return spin()

    def choose(self, ask: Ask, eligible: Sequence[Offer], state: Any) -> Any:
        return eligible[: ask.gpus], state


def test_a_policy_that_spins_rests_and_not_its_planner() -> None:
    world = limited(Watched(gpus(2), planners=(default_planner(Endless()),)))
    job = world.submit(GIB)
    assert world.state(job) is JobState.RUNNING
    (said,) = world.said
    assert said.startswith("the policy endless failed") and "exclusive is used" in said


def test_an_order_that_spins_rests_also_at_a_restart() -> None:
    class Sorting(Order):
        name, slow = "sorting", False

        def key(self, job: Job, now: Instant) -> Any:
            return spin() if self.slow else (job.id,)

    asked = 0

    class Counted(Sorting):
        def key(self, job: Job, now: Instant) -> Any:
            nonlocal asked
            asked += self.slow
            return super().key(job, now)

    order = Counted()
    world = limited(Watched(gpus(1), order=order))
    jobs = [world.submit(30 * GIB) for _ in range(2)]
    order.slow = True
    third = world.submit(30 * GIB)
    assert world.said[0].startswith("the order sorting failed (it took longer")
    assert world.state(third) is JobState.PENDING
    more = [world.submit(30 * GIB) for _ in range(50)]
    assert asked == 1, "it rests"
    for job in more:
        world.cancel(job)
    for job in jobs:
        world.end(job)
    assert world.state(third) is JobState.RUNNING


def test_what_a_planner_listens_to_is_not_asked_while_it_rests() -> None:
    class Deaf:
        name, version, starts_jobs, spins, times = "deaf", 1, True, False, 0

        @property
        def listens(self) -> Any:
            self.times += self.spins
            return spin() if self.spins else ASKED

        def plan(self, *_: Any) -> Plan:
            return Plan()

        def explain(self, *_: Any) -> tuple[()]:
            return ()

    deaf = Deaf()
    world = limited(Watched(gpus(2), planners=(deaf,), fallback=default_planner()))
    deaf.spins = True
    jobs = [world.submit(GIB)]
    assert world.state(jobs[0]) is JobState.RUNNING, "by the fallback, in the same step"
    jobs += [world.submit(GIB) for _ in range(4)]
    assert world.state(jobs[1]) is JobState.RUNNING
    assert deaf.times == 1
    assert "the planner deaf failed (it took longer" in world.said[0]


def test_a_recovery_rule_that_spins_rests() -> None:
    world = limited(Watched(gpus(1), recovery=Recovering(spin)))
    job = world.submit(GIB)
    world.end(job, 1, oom=OutOfMemory("CUDA out of memory"))
    assert world.said[0].startswith("the recovery recovering failed (it took longer")
    assert world.jobs[job.id].oom_count == 1


def test_nothing_but_a_rules_own_code_is_interrupted() -> None:
    """An alarm while the core works, or outside a step, changes nothing."""
    limit = RuleLimit(LIMIT_S)
    with limit:
        for _ in range(10):
            signal.raise_signal(signal.SIGALRM)
    signal.raise_signal(signal.SIGALRM)
    interrupt(None, LIMIT_S)
    world = limited(world_of(default_planner()))
    inside = world.scheduler.state.begin

    def begin(now: Any) -> None:
        signal.raise_signal(signal.SIGALRM)
        inside(now)

    world.scheduler.state.begin = begin
    job = world.submit(GIB)
    assert world.state(job) is JobState.RUNNING and world.said == []


def test_a_rule_that_is_asked_after_an_interrupted_one_has_the_whole_time() -> None:
    left_s: list[float] = []

    def look() -> Plan:
        left_s.append(signal.getitimer(signal.ITIMER_REAL)[0])
        return Plan()

    spinning, looking = Broken(make=spin, listens=ASKED), Broken(make=look, listens=ASKED)
    looking.name = "looking"
    world = limited(world_of(default_planner(), spinning, looking))
    world.submit(GIB)
    assert len(world.said) == 1 and left_s and left_s[0] > LIMIT_S / 2


def test_a_plan_that_spins_while_it_is_dropped_is_interrupted() -> None:
    def endless() -> Iterator[Any]:
        try:
            yield 5
        finally:
            spin()

    broken = Broken(make=lambda: Plan(endless()), listens=ASKED)
    world = limited(world_of(default_planner(), broken))
    job = world.submit(GIB)
    assert world.state(job) is JobState.RUNNING
    assert "the planner broken failed (it proposed a int)" in world.said[0]


def test_no_alarm_is_left_after_a_step() -> None:
    world = limited(world_of(default_planner()))
    world.submit(GIB)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert threading.current_thread() is threading.main_thread()
