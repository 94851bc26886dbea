"""Rules that raise, answer nonsense or never stop: the server goes on without them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.planning.asking import MOST_PROPOSALS
from radrm.core.proposals import (
    Hopeless,
    Preempt,
    Proposal,
    ResizeTo,
    SetShares,
    Start,
    TakeCheckpointNow,
)
from radrm.core.records import (
    Checkpoint,
    Job,
    OutOfMemory,
    Placement,
    Refusal,
    Role,
    Share,
)
from radrm.core.rules import Again, GiveUp, Plan
from radrm.core.scheduler import Rules
from radrm.core.state.isolation import MOST_STATE_CHARACTERS
from radrm.core.state.state import Decision
from radrm.core.view import View
from radrm.core.words import CheckpointKind, Collocation, JobState
from radrm.host.storage.store import _encoded
from radrm.orders.fifo import Fifo
from radrm.planners.order_policy import OrderPolicy
from radrm.policies.exclusive import Exclusive
from radrm.policies.magm import Magm
from tests.world import GIB, World, default_planner, gpus

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
            assert json.loads(_encoded(record)) is not None
        return decision

    @property
    def said(self) -> list[str]:
        return [line for decision in self.decisions for line in decision.said]


def world_of(*planners: Any, alone: bool = False, **rules: Any) -> Watched:
    stand_in = OrderPolicy(Fifo(), Exclusive(), Exclusive(), name="instead")
    instead = None if alone else stand_in
    return Watched(gpus(2), planners=planners or None, instead=instead, **rules)


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


# ------------------------------------------------------------------ planners


@dataclass
class Wishing:
    """A planner that always proposes the same."""

    wish: Any = None
    listens: frozenset[type[ev.Event]] = EVERYTHING
    name: str = "wishing"
    version: int = 1
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


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError


def raising(error: BaseException) -> Callable[[], Any]:
    def make() -> Any:
        raise error

    return make


def failing_half_way() -> Iterator[Proposal]:
    yield Hopeless(job_id=99, reason="x")
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
    "proposes a number": lambda: Plan(5),  # type: ignore[arg-type]
    "fails half way": lambda: Plan(failing_half_way()),
    "proposes nothing known": lambda: Plan([object()]),  # type: ignore[list-item]
    "proposes None": lambda: Plan([None]),  # type: ignore[list-item]
    "proposes for a name": lambda: Plan([Preempt(job_id="1")]),  # type: ignore[arg-type]
    "proposes no placement": lambda: Plan([Start(job_id=1, placement=None)]),  # type: ignore[arg-type]
    "a placement of words": lambda: Plan([Start(job_id=1, placement=Placement("ab", "mps"))]),  # type: ignore[arg-type]
    "a memory that is none": lambda: Plan([start(reserved_mib=float("nan"))]),
    "a device that is a list": lambda: Plan([start(device=["GPU-0"])]),
    "endless CPUs": lambda: Plan([start(cpus=float("inf"))]),
    "shares of words": lambda: Plan([SetShares(job_id=1, shares=("a",))]),  # type: ignore[arg-type]
    "a reason of numbers": lambda: Plan([Hopeless(job_id=1, reason=5)]),  # type: ignore[arg-type]
    "never ends": lambda: Plan(Hopeless(job_id=n, reason="x") for n in count(10**6)),
    "keeps a set": lambda: Plan(state={"a": {1, 2}}),
    "keeps a number as a key": lambda: Plan(state={1: 2}),
    "keeps NaN": lambda: Plan(state=[float("nan")]),
    "keeps a huge number": lambda: Plan(state=2**70),
    "keeps an abyss": lambda: Plan(state=deep(100_000)),
    "keeps a library": lambda: Plan(state="x" * (MOST_STATE_CHARACTERS + 1)),
    "keeps a crowd": lambda: Plan(state=list(range(300_000))),
    "wakes at no time": lambda: Plan(wake_at=float("nan")),
    "wakes at a word": lambda: Plan(wake_at="soon"),  # type: ignore[arg-type]
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
    assert sorted(world.rule_states) == [("planner", "default")], "nothing of it is kept"


@pytest.mark.parametrize("what", PLANS)
def test_the_first_planner_that_fails_has_another_in_its_place(what: str) -> None:
    world = world_of(Broken(make=PLANS[what]))
    lives(world)
    assert "in order of submission, on GPUs of their own" in world.said[0]


def test_what_failed_is_said_once_and_explained_while_it_lasts() -> None:
    world = world_of(Broken(make=raising(ValueError("no such thing"))), alone=True)
    job = world.submit(GIB)
    for _ in range(50):
        world.pass_time(5.0)
    (said,) = world.said
    assert "ValueError: no such thing (test_isolation.py:" in said
    assert "no job starts meanwhile" in said
    (refusal,) = world.scheduler.why_waiting(job.id, world.now)
    assert refusal.rule == "rule" and "no such thing" in refusal.message
    assert "asked again in" in refusal.message
    assert world.scheduler.troubles(world.now) == (refusal.message,)


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
    for proposals in ((5,), (Start(job_id=1, placement=None),)):  # type: ignore[arg-type]
        world.step(
            ev.PlanReady(at=world.now, planner="slow", version=10**9, proposals=proposals)  # type: ignore[arg-type]
        )
    assert len(world.said) == 1
    lives(world)


def test_the_number_of_proposals_in_one_answer_is_bounded() -> None:
    drawn = 0

    def endless() -> Iterator[Proposal]:
        nonlocal drawn
        while True:
            drawn += 1
            yield Hopeless(job_id=10**6, reason="x")

    world = world_of(default_planner(), Broken(make=lambda: Plan(endless())))
    world.submit(GIB)
    assert drawn <= MOST_PROPOSALS + 10


# ------------------------------------------------------------------ orders


@dataclass
class Sorting:
    make: Callable[[Job], Any]
    strict: bool = True
    name: str = "sorting"

    def key(self, job: Job) -> Any:
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
        line = list(world.scheduler.state.waiting.gpu)
        assert sorted(line) == [job.id for job in jobs], "nobody is lost or there twice"
        failed = [i for i in line if i in world.scheduler.state.placing.without]
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
    line = list(world.scheduler.state.waiting.gpu)
    assert sorted(line) == jobs and world.said == []
    assert all(world.scheduler.state.waiting.gpu.position(i) == at for at, i in enumerate(line))


def test_an_order_that_works_again_sorts_the_line_again() -> None:
    order = Sorting(lambda job: 1 // 0)
    world = world_of(order=order)
    world.submit(GIB, gpus=2, collocation=Collocation.EXCLUSIVE)
    jobs = [world.submit(GIB, gpus=2).id for _ in range(4)]
    element = world.submit_array(2, GIB, gpus=2, at_once=1)
    order.make = lambda job: (-job.id,)
    world.pass_time(world.settings.retry_s)
    assert list(world.scheduler.state.waiting.gpu) == [element[1].id, *reversed(jobs)]
    assert not world.scheduler.state.placing.without


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
    "refuse says nonsense": policy(refuse=lambda: Refusal(1, None)),  # type: ignore[arg-type]
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
    kind = "planner default" if what == "keeps what cannot be kept" else "policy choosing"
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


@dataclass
class Recovering:
    answer: Any
    name: str = "recovering"

    def after_oom(self, *_: Any) -> Any:
        return self.answer() if callable(self.answer) else self.answer


VERDICTS: dict[str, Any] = {
    "raises": raising(KeyError()),
    "nothing": None,
    "yes": True,
    "words": Again(memory_floor_mib="9G", own_device=True),  # type: ignore[arg-type]
    "below zero": Again(memory_floor_mib=-1, own_device=True),
    "not known": Again(memory_floor_mib=None, own_device=None),  # type: ignore[arg-type]
    "no reason": GiveUp(reason=None),  # type: ignore[arg-type]
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


# ------------------------------------------------------------------ round and round


def flip(view: View) -> Iterator[Proposal]:
    """Caps of CPUs that are never twice the same."""
    for job, attempt in view.running():
        (share, *others) = attempt.placement.shares
        other = replace(share, cpus=2.0 if share.cpus == 1.0 else 1.0)
        yield SetShares(job_id=job.id, shares=(other, *others))


def move(view: View) -> Iterator[Proposal]:
    for job, attempt in view.running():
        devices = [d.uuid for d in view.devices() if d.uuid not in attempt.placement.devices]
        shares = tuple(replace(s, device=devices[0]) for s in attempt.placement.shares)
        yield ResizeTo(job_id=job.id, placement=replace(attempt.placement, shares=shares))


def save(view: View) -> Iterator[Proposal]:
    for job, _ in view.running():
        yield TakeCheckpointNow(job_id=job.id)


def preempt(view: View) -> Iterator[Proposal]:
    for job, _ in view.running():
        yield Preempt(job_id=job.id)


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


class Refusing(Watched):
    """A host that cannot do what is new in this release's core."""

    def _do(self, action: act.Action) -> None:
        if isinstance(action, (act.ApplyShares, act.TakeCheckpoint, act.Resize)):
            self.step(ev.ActionFailed(at=self.now, action=action, reason="not here"))
        else:
            super()._do(action)


@pytest.mark.parametrize("host", [Watched, Refusing])
@pytest.mark.parametrize("wish", [flip, move, save, preempt])
def test_a_planner_that_never_has_enough_is_paced(host: type[Watched], wish: Any) -> None:
    world = host(gpus(2), planners=(default_planner(), Stubborn(wish)))
    roles = (Role(count_min=1, count_max=2),)
    job = world.submit(GIB, checkpoint=CAN_SAVE, roles=roles, requeue=True)
    world.read()
    first = len(world.actions)
    for _ in range(30):
        world.pass_time(60.0)
    assert len(world.actions) < first + 30 * 30, "and not only in its first moment"
    assert not world.jobs[job.id].state.final


def test_a_failed_proposals_pause_grows_and_the_timer_has_the_planner_asked() -> None:
    world = Refusing(gpus(1), planners=(default_planner(), Stubborn(flip)))
    world.rules.planners[1].listens = frozenset({ev.AttemptStarted, ev.ActionFailed})  # type: ignore[misc]
    world.submit(GIB)
    times = []
    for _ in range(40):
        before = len(world.actions)
        world.pass_time(1.0)
        times += [world.boot_s - 1000.0] * (len(world.actions) - before)
    assert times == [1, 3, 7, 15, 31]
    refused = [r for d in world.decisions for _, r in d.rejections if r.rule == "pause"]
    assert "since it failed: not here" in refused[0].message


def test_an_edit_lets_what_failed_be_tried_at_once() -> None:
    world = Refusing(gpus(1), planners=(default_planner(), Stubborn(flip)))
    job = world.submit(GIB)
    world.pass_time(20.0)
    before = len(world.actions)
    world.read()
    assert len(world.actions) == before
    world.edit(job, comment="another")
    world.read()
    assert len(world.actions) > before


def test_what_is_remembered_of_failures_ends_with_the_job() -> None:
    world = Refusing(gpus(1), planners=(default_planner(), Stubborn(flip)))
    job = world.submit(GIB)
    world.end(job)
    proposals = world.scheduler.state.proposals
    assert not list(proposals._pauses.all()) and not proposals._done and not proposals._kinds


def test_a_planner_that_always_wants_to_be_called_now_is_called_ten_times_a_second() -> None:
    """And its earlier wishes do not add up."""
    eager = Broken(make=lambda: Plan(wake_at=0.0), listens=EVERYTHING)
    world = world_of(default_planner(), eager)
    for _ in range(9):
        world.boot_s += 0.01
        world.read()
    before, until = eager.asked, world.boot_s + 1.0
    while world.boot_s < until:
        wake_at = world.decisions[-1].wake_at
        assert wake_at is not None and wake_at > world.boot_s
        world.boot_s = wake_at
        world.step(ev.Tick(at=world.now))
    assert eager.asked - before <= 11


def test_one_that_is_preempted_at_each_start_waits() -> None:
    wishing = Wishing(Preempt(job_id=1), listens=frozenset({ev.AttemptStarted}))
    world = Watched(gpus(1), planners=(default_planner(), wishing))
    world.submit(GIB, checkpoint=CAN_SAVE)
    assert wishing.asked <= 3
    assert world.why(1) == ["pause"]


def test_the_rules_of_a_world_without_a_stand_in_still_work() -> None:
    assert Rules(order=Fifo(), planners=(), recovery=Recovering(None)).instead is None
