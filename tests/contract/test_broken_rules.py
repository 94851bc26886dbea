"""Orders, policies and recovery rules that fail: others stand in for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from radrm.core.records import (
    Instant,
    Job,
    OutOfMemory,
    Refusal,
)
from radrm.core.rules import Again, GiveUp, Order
from radrm.core.words import Collocation, JobState
from radrm.policies.sharing import Magm
from radrm.structs import replace
from tests.contract.broken import Recovering, lives, raising, world_of
from tests.world import GIB

# ------------------------------------------------------------------ orders


@dataclass
class Sorting(Order):
    make: Callable[[Job], Any]
    name: str = "sorting"

    def key(self, job: Job, now: Instant) -> Any:
        return self.make(job)


ORDERS: dict[str, Callable[[Job], Any]] = {
    "raises": lambda job: 1 // 0,
    "nothing": lambda job: None,
    "a list": lambda job: [job.id],
    "NaN": lambda job: (float("nan"),),
    "an object": lambda job: (object(),),
    "a complex number": lambda job: (1j,),
    "raises for some": lambda job: (job.id // (job.id % 3),),
}


@pytest.mark.parametrize("what", ORDERS)
def test_jobs_that_an_order_fails_for_are_served_by_submission(what: str) -> None:
    world = world_of(order=Sorting(ORDERS[what]))
    blocker = world.submit(GIB, gpus=2, collocation=Collocation.EXCLUSIVE)
    jobs = [world.submit(GIB, gpus=2) for _ in range(12)]
    for _ in range(3):
        world.cancel(jobs.pop(4))
        line = list(world.scheduler.state.lines.gpu)
        assert sorted(line) == [job.id for job in jobs], "nobody is lost or there twice"
        failed = [i for i in line if i in world.scheduler.state.queue.order.without]
        assert failed == sorted(failed) and line[-len(failed) :] == failed
    assert world.said[0].startswith("the order sorting failed (")
    world.pass_time(400.0)
    world.restart()
    world.end(blocker)
    lives_on = [job.id for job in jobs if world.state(job) is JobState.RUNNING]
    assert lives_on, "the queue goes on"


def test_keys_that_cannot_be_compared_still_make_one_line() -> None:
    mixed: list[tuple[Any, ...]] = [
        ("b",), (2,), (None,), ("a", 1), (1.5,), ((1, "x"),), (), (True,), (float("inf"),)
    ]  # fmt: skip
    world = world_of(order=Sorting(lambda job: mixed[job.id % len(mixed)]))
    world.submit(GIB, gpus=2, collocation=Collocation.EXCLUSIVE)
    jobs = [world.submit(GIB, gpus=2).id for _ in range(30)]
    line = list(world.scheduler.state.lines.gpu)
    assert sorted(line) == jobs and world.said == []
    assert all(world.scheduler.state.lines.gpu.position(i) == at for at, i in enumerate(line))


def test_an_order_that_works_again_sorts_the_line_again() -> None:
    order = Sorting(lambda job: 1 // 0)
    world = world_of(order=order)
    world.submit(GIB, gpus=2, collocation=Collocation.EXCLUSIVE)
    jobs = [world.submit(GIB, gpus=2).id for _ in range(4)]
    element = world.submit_array(2, GIB, gpus=2, at_once=1)
    order.make = lambda job: (-job.id,)
    world.pass_time(world.settings.retry_s)
    assert list(world.scheduler.state.lines.gpu) == [element[1].id, *reversed(jobs)]
    assert not world.scheduler.state.queue.order.without


# ------------------------------------------------------------------ policies


@dataclass(frozen=True)
class Choosing(Magm):
    """MAGM with another way to refuse, to choose and to name its terms."""

    name: str = "choosing"
    how: dict[str, Any] = field(default_factory=dict)

    def refuse(self, ask: Any, offer: Any) -> Any:
        return self.how["refuse"]() if "refuse" in self.how else super().refuse(ask, offer)

    def choose(self, ask: Any, eligible: Any, state: Any) -> Any:
        return self.how["choose"](eligible) if "choose" in self.how else (eligible[:1], state)


def policy(floor_mib: Any = GIB, **how: Any) -> Choosing:
    return Choosing(how=how, floor_mib=floor_mib)


POLICIES: dict[str, Any] = {
    "refuse raises": policy(refuse=raising(KeyError())),
    "refuse says true": policy(refuse=lambda: True),
    "refuse says nonsense": policy(refuse=lambda: Refusal(1, None)),
    "choose raises": policy(choose=lambda offers: 1 // 0),
    "chooses nothing": policy(choose=lambda offers: None),
    "chooses none": policy(choose=lambda offers: ((), None)),
    "chooses too many": policy(choose=lambda offers: (offers[:1] * 2, None)),
    "chooses what is not there": policy(
        choose=lambda offers: (
            [replace(offers[0], device=replace(offers[0].device, uuid="GPU-7"))],
            None,
        )
    ),
    "chooses a name": policy(choose=lambda offers: (["GPU-0"], None)),
    "keeps what cannot be kept": policy(choose=lambda offers: (offers[:1], object())),
}


@pytest.mark.parametrize("what", POLICIES)
def test_a_policy_that_fails_has_exclusive_in_its_place(what: str) -> None:
    world = world_of(policy=POLICIES[what])
    lives(world)
    kind = "planner strict" if what == "keeps what cannot be kept" else "policy choosing"
    assert world.said and all(f"the {kind} failed (" in line for line in world.said)


def test_a_policy_that_chooses_a_device_twice_for_two_gpus() -> None:
    world = world_of(policy=policy(choose=lambda offers: ([offers[0], offers[0]], None)))
    job = world.submit(GIB, gpus=2)
    assert world.where(job) == ("GPU-0", "GPU-1")
    assert "it chose a device twice" in world.said[0]


def test_while_a_policy_rests_a_waiting_job_is_told_so() -> None:
    world = world_of(policy=policy(refuse=raising(KeyError())))
    world.submit(GIB)
    world.submit(GIB)
    waiting = world.submit(GIB)
    messages = [r.message for r in world.scheduler.why_waiting(waiting.id, world.now)]
    assert any("the policy choosing failed" in message for message in messages)


@pytest.mark.parametrize("floor", [None, "x", -1, 2.5])
def test_a_policys_terms_are_checked(floor: Any) -> None:
    lives(world_of(policy=policy(floor_mib=floor)))


# ------------------------------------------------------------------ recovery


VERDICTS: dict[str, Any] = {
    "raises": raising(KeyError()),
    "nothing": None,
    "yes": True,
    "words": Again(memory_floor_mib="9G", own_device=True),
    "below zero": Again(memory_floor_mib=-1, own_device=True),
    "not known": Again(memory_floor_mib=None, own_device=None),
    "no reason": GiveUp(reason=None),
}


@pytest.mark.parametrize("what", VERDICTS)
def test_where_recovery_fails_the_job_has_a_device_of_its_own_three_times(what: str) -> None:
    world = world_of(recovery=Recovering(VERDICTS[what]))
    job = world.submit(GIB)
    for deaths in range(1, 4):
        again = world.end(job, 1, oom=OutOfMemory("test"))
        assert (again.state, again.own_device, again.oom_count) == (JobState.RUNNING, True, deaths)
        world.pass_time(world.settings.retry_most_s)
    assert world.end(job, 1, oom=OutOfMemory("test")).state is JobState.FAILED
    assert world.said[0].startswith("the recovery recovering failed (")
    lives(world)
