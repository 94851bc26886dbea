"""What the core ends by itself, while a slow planner that has reserved something still thinks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.constraints.fit import refuse_room
from radrm.core.constraints.reserve import check_reserve
from radrm.core.proposals import Reserve
from radrm.core.records import Device, Job, Refusal, Reservation
from radrm.core.rules import Plan
from radrm.core.settings import CoreSettings
from radrm.core.view import View
from radrm.core.words import Collocation, JobState, ReservationKind
from radrm.policies.sharing import Magm
from tests.world import GIB, World, default_planner, gpus

CORE = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, stale_after_s=1e9, think_s=1e6)
START_S, END_S = 2000.0, 3000.0


@dataclass(frozen=True)
class Slow:
    name: str = "slow"
    version: int = 1
    starts_jobs: bool = False
    listens: frozenset[type[ev.Event]] = frozenset({ev.JobSubmitted})

    def think(self, view: View, state: Any) -> Plan:
        raise AssertionError("the test answers")

    def explain(self, view: View, job: Job) -> tuple[Refusal, ...]:
        return ()


class Thinking(World):
    """Two GPUs, of which a job has all; a job waits for both, and has GPU 0 reserved."""

    def __init__(self) -> None:
        planners = (default_planner(Magm(margin_mib=0, min_free_mib=0)), Slow())
        super().__init__(gpus(2), planners=planners, settings=CORE)
        self.running = [self.submit(40 * GIB, time_limit_s=500.0) for _ in range(2)]
        self.waiting = self.submit(40 * GIB, time_limit_s=900.0)
        self.answer(self.wish())
        assert self.planned(), self.decisions[-1].rejections

    def _do(self, action: act.Action) -> None:
        if not isinstance(action, act.Think):
            super()._do(action)

    def wish(self, **changes: Any) -> Reserve:
        usual: dict[str, Any] = {"job_id": self.waiting.id, "devices": (("GPU-0", 40 * GIB),)}
        return Reserve(**{**usual, "start_s": START_S, "end_s": END_S, **changes})

    def answer(self, *proposals: Reserve) -> None:
        """The plan is ready, and the planner thinks again."""
        thought = [a for a in self.actions if isinstance(a, act.Think)][-1]
        version = self.scheduler.state.version
        self.step(
            ev.PlanReady(
                at=self.now,
                planner="slow",
                version=version,
                proposals=proposals,
                number=thought.number,
            )
        )
        self.boot_s += 2.0
        self.step(ev.Tick(at=self.now))

    def think(self) -> None:
        """Have the planner think; it does not answer."""
        self.submit(GIB, gpus=0)
        self.boot_s += 2.0
        self.step(ev.Tick(at=self.now))

    def planned(self) -> list[Reservation]:
        found = [r for r in self.stored.values() if r.kind.planned]
        assert found == list(self.scheduler.state.planned)
        return found


@pytest.fixture
def world() -> Thinking:
    found = Thinking()
    found.think()
    assert found.planned()
    return found


def test_what_it_has_reserved_stays_until_its_plan_is_ready(world: Thinking) -> None:
    before = world.planned()
    world.pass_time(10.0)
    assert world.planned() == before
    world.answer()
    assert not world.planned()


def test_a_plan_replaces_what_it_changes(world: Thinking) -> None:
    world.answer(world.wish(start_s=START_S + 1.0))
    (mine,) = world.planned()
    assert mine.since.boot_s == START_S + 1.0
    world.think()
    world.answer(world.wish(devices=(("GPU-1", None),)))
    (mine,) = world.planned()
    assert (mine.device, mine.mib) == ("GPU-1", None)


def test_a_stale_plan_ends_what_it_cannot_renew(world: Thinking) -> None:
    world.think()
    thought = [a for a in world.actions if isinstance(a, act.Think)][-1]
    version = world.scheduler.state.version
    world.edit(world.waiting, priority=7)
    decision = world.step(
        ev.PlanReady(
            at=world.now,
            planner="slow",
            version=version,
            proposals=(world.wish(),),
            number=thought.number,
        )
    )
    assert [why.rule for _, why in decision.rejections] == ["stale"]
    assert not world.planned()


def expire(world: Thinking) -> None:
    world.obey = False  # the running jobs do not end, so the waiting one does not start
    world.boot_s = END_S
    world.step(ev.Tick(at=world.now))


def vanish(world: Thinking) -> None:
    world.end(world.running[0])
    world.devices = world.devices[1:]
    world.step(ev.DevicesSeen(at=world.now, devices=world.devices))


def vanish_in_use(world: Thinking) -> None:
    world.devices = world.devices[1:]
    world.step(ev.DevicesSeen(at=world.now, devices=world.devices))


def vanish_meanwhile(world: Thinking) -> None:
    world.devices = world.devices[1:]
    world.restart()


def cut_into_instances(world: Thinking) -> None:
    world.end(world.running[0])
    parts = gpus(1, 5 * GIB, uuid="MIG-0", parent="GPU-0")
    world.devices = (*parts, *world.devices[1:])
    world.step(ev.DevicesSeen(at=world.now, devices=world.devices))


def start(world: Thinking) -> None:
    world.end(world.running[0])
    world.read()
    assert world.state(world.waiting) is JobState.RUNNING


def cancel(world: Thinking) -> None:
    world.cancel(world.waiting)


def hold(world: Thinking) -> None:
    world.hold(world.waiting)


def stand_aside(world: Thinking) -> None:
    for uuid in ("GPU-0", "GPU-1"):
        world.step(ev.DrainRequested(at=world.now, device=uuid, reason="test"))
    assert world.why(world.waiting) == ["service"]


def ask_for_more(world: Thinking) -> None:
    world.edit(world.waiting, time_limit_s=1001.0)


def fail(world: Thinking) -> None:
    world.think()
    thought = [a for a in world.actions if isinstance(a, act.Think)][-1]
    world.step(
        ev.PlanReady(at=world.now, planner="slow", version=0, number=thought.number, error="no")
    )


ENDS = [
    *(expire, vanish, vanish_in_use, vanish_meanwhile, cut_into_instances),
    *(start, cancel, hold, stand_aside, ask_for_more, fail),
]


@pytest.mark.parametrize("end", ENDS)
def test_it_ends_with_its_reason(world: Thinking, end: Callable[[Thinking], None]) -> None:
    end(world)
    assert not world.planned()
    assert not any(r.planner for r in world.stored.values())
    world.devices = gpus(2)
    world.step(ev.DevicesSeen(at=world.now, devices=world.devices))
    assert not world.planned(), "it does not come back with its device"
    world.restart()
    assert not world.planned()


def test_jobs_that_waited_for_its_memory_start_soon(world: Thinking) -> None:
    world.cancel(world.waiting)
    pair = world.submit(40 * GIB, gpus=2, time_limit_s=900.0)
    world.end(world.running[0])
    both = (("GPU-0", 40 * GIB), ("GPU-1", 40 * GIB))
    world.answer(world.wish(job_id=pair.id, devices=both))
    late = world.submit(GIB, priority=9)
    assert world.state(late) is JobState.PENDING
    world.answer()
    assert not world.planned()
    assert world.state(late) is JobState.RUNNING, "all planners are called within a second or two"


def test_a_reservation_becomes_the_attempts_before_the_next_job_is_placed(world: Thinking) -> None:
    half = world.submit(20 * GIB, priority=9, smact=0.1)
    world.answer(world.wish(job_id=half.id, devices=(("GPU-0", 20 * GIB),)))
    other = world.submit(20 * GIB, priority=8)
    world.end(world.running[0])
    assert world.where(half) == world.where(other) == ("GPU-0",)
    launches = [[a for a in d.actions if isinstance(a, act.Launch)] for d in world.decisions]
    assert [a.job_id for a in max(launches, key=len)] == [half.id, other.id]


FOR_JOBS: list[tuple[dict[str, Any], Device, tuple[tuple[str, int | None], ...], str | None]] = [
    ({}, gpus(1)[0], (("GPU-0", GIB),), None),
    ({}, gpus(1)[0], (("GPU-0", None),), None),
    ({}, gpus(1)[0], (("GPU-0", GIB - 1),), "reservation"),
    ({}, gpus(1)[0], (("GPU-0", GIB), ("GPU-1", GIB)), "count"),
    ({"collocation": Collocation.EXCLUSIVE}, gpus(1)[0], (("GPU-0", GIB),), "reservation"),
    ({"collocation": Collocation.EXCLUSIVE}, gpus(1)[0], (("GPU-0", None),), None),
    ({"collocation": Collocation.MPS}, gpus(1)[0], (("GPU-0", GIB),), "kind"),
    ({"collocation": Collocation.MPS}, gpus(1, mps=True)[0], (("GPU-0", GIB),), None),
    ({"time_limit_s": 1000.0}, gpus(1)[0], (("GPU-0", GIB),), None),
    ({"time_limit_s": 1001.0}, gpus(1)[0], (("GPU-0", GIB),), "interval"),
]


@pytest.mark.parametrize("spec, device, devices, rule", FOR_JOBS)
def test_what_is_reserved_is_what_the_job_needs(
    spec: dict[str, Any],
    device: Device,
    devices: tuple[tuple[str, int | None], ...],
    rule: str | None,
) -> None:
    world = World((device, gpus(2, mps=True)[1]), planners=(Slow(),), settings=CORE)
    job, state = world.submit(GIB, **spec), world.scheduler.state
    state.begin(world.now)
    wish = Reserve(job_id=job.id, devices=devices, start_s=START_S, end_s=END_S)
    refusal = check_reserve(state, wish)
    assert (refusal.rule if refusal else None) == rule
    world.step(ev.DrainRequested(at=world.now, device="GPU-0", reason="test"))
    refusal = check_reserve(state, wish)
    assert refusal.rule in ("drained", "job", rule)


def test_a_reservation_is_named_only_where_it_is_the_reason() -> None:
    planners = (Slow(),)
    world = World(gpus(1), planners=planners, settings=CORE)
    job, state = world.submit(None), world.scheduler.state

    def reserve(owner: str, kind: ReservationKind, gib: int) -> None:
        until, mib = world.now.at(END_S), gib * GIB
        state.reserve(Reservation(owner, kind, "GPU-0", mib, world.now, until, planner="slow"))

    def why(gib: int) -> str:
        state.begin(world.now)
        refusal = refuse_room(state, job, None, state.ledgers["GPU-0"], gib * GIB)
        return refusal.message if refusal is not None else ""

    reserve("job:7", ReservationKind.BACKFILL, 30)
    assert why(10) == ""
    assert why(11) == "needs 11.0G, 10.0G free: reserved for job:7 for 33m20s more"
    reserve("job:99", ReservationKind.RUNNING, 30)
    assert why(10) == "needs 10.0G, 0M free: reserved for job:7 for 33m20s more"
    assert why(11) == "needs 11.0G, 0M free"


def test_when_a_job_is_expected_to_end() -> None:
    world = Thinking()
    view, job = world.scheduler.view, world.running[0]
    assert view.latest_end_s(job) == 1500.0
    assert view.latest_end_s(world.waiting) is None
    world.unmanaged["GPU-0"] = 100  # a desktop
    world.read()
    assert view.earliest_s("GPU-0", None, 10.0, world.waiting) == 1500.0
    assert view.earliest_s("GPU-0", 40 * GIB - 100, 10.0, world.waiting) == 1500.0
    assert view.earliest_s("GPU-0", None, 501.0) == END_S
    world.obey = False
    world.boot_s = 1400.0
    world.cancel(job)
    assert view.latest_end_s(job) == 1400.0 + CORE.grace_s
    world.boot_s = 1600.0
    world.step(ev.Tick(at=world.now))
    assert view.latest_end_s(job) == 1600.0, "at any moment"
    unlimited = World(gpus(1), settings=CORE)
    assert unlimited.scheduler.view.latest_end_s(unlimited.submit(GIB)) is None
    assert unlimited.scheduler.view.earliest_s("GPU-0", 40 * GIB) is None


@given(
    duration_s=st.one_of(st.none(), st.floats(1, 5000)),
    limit_s=st.one_of(st.none(), st.floats(1, 5000)),
    later_s=st.floats(0, 4000),
)
def test_a_prediction_is_no_promise(
    duration_s: float | None, limit_s: float | None, later_s: float
) -> None:
    world = World(gpus(1), settings=CORE)
    job = world.submit(GIB, duration_s=duration_s, time_limit_s=limit_s)
    begin_s = world.boot_s
    world.boot_s += later_s
    world.scheduler.state.begin(world.now)
    view = world.scheduler.view
    latest_s = view.latest_end_s(job)
    assert latest_s == (None if limit_s is None else max(world.boot_s, begin_s + limit_s))
    found = view.earliest_s("GPU-0", 40 * GIB, 10.0)
    assert found is None or found == latest_s, "nothing is reserved on the promise of a prediction"
