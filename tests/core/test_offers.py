"""A kept offer is the fresh one, field by field, at every call of a random life."""

from __future__ import annotations

import ast
import gc
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.core import events as ev
from radrm.core.constraints.fit import choose_turns, turns
from radrm.core.constraints.searches import Answers, Searches
from radrm.core.events import Event
from radrm.core.planning.placing import Checked, Placer, fails_again, find_with_fallback
from radrm.core.proposals import Migrate, Proposal, Reserve
from radrm.core.records import Checkpoint, Device, Job, Refusal, Role, UserReservation
from radrm.core.rules import Plan, Policy
from radrm.core.settings import CoreSettings
from radrm.core.view import Offer, Offers, View
from radrm.core.words import CheckpointKind, Collocation
from radrm.orders import Fifo
from radrm.policies.exclusive import Exclusive
from radrm.policies.packing import Packing
from radrm.policies.sharing import Magm
from radrm.structs import replace
from tests.contract.lives.test_properties import Move, others, play, submits
from tests.examples import some
from tests.paths import REPOSITORY
from tests.world import GIB, World, default_planner, gpus

SETTINGS = CoreSettings(
    smact_warm_s=20,
    smact_after_exit_s=5,
    stale_after_s=60,
    mps_cohort_s=100,
    settle_s=30,
    trial_floor_mib=5 * GIB,
)


class Compared(Offers):
    """Notes every offer that is not what a fresh one would be."""

    wrong: list[tuple[Offer, Offer]]

    def _of(self, *asked: Any) -> Offer:
        job, role, uuid, mode, _ = asked
        found, fresh = super()._of(*asked), self.fresh(job, role, self._state.ledgers[uuid], mode)
        if found != fresh:
            self.wrong.append((found, fresh))
        assert turns(self._state) == choose_turns(self._state)
        return found


@dataclass
class Mover:
    """A planner that does what the test wishes: reserves for the head, or migrates a job."""

    name: str = "mover"
    version: int = 1
    starts_jobs: bool = False
    listens: frozenset[type[Event]] = frozenset({ev.Tick, ev.ReadingsTaken, ev.JobSubmitted})
    wish: str | None = None
    reserved_mib: int | None = None

    def plan(self, view: View, event: Event, state: Any) -> Plan:
        return Plan(proposals=list(self._wanted(view)))

    def _wanted(self, view: View) -> list[Proposal]:
        head, now_s = view.head(), view.now.boot_s
        device = view.devices()[0].uuid if view.devices() else None
        if self.wish == "reserve" and head is not None and device is not None:
            mib = self.reserved_mib
            taken = ((device, mib),)
            start_s, end_s = now_s + 50, now_s + 500
            return [Reserve(job_id=head.id, devices=taken, start_s=start_s, end_s=end_s)]
        if self.wish == "migrate":
            for job, _ in view.running():
                found = Placer(view, Magm(), job, None).find()
                if found.placement is not None:
                    return [Migrate(job_id=job.id, placement=found.placement)]
        return []

    def explain(self, view: View, job: Job) -> tuple[Refusal, ...]:
        return ()


def compared(world: World) -> Compared:
    """Compare the offers of this world's scheduler from now on."""
    state, view = world.scheduler.state, world.scheduler.view
    found = view.kept_offers = Compared(state)
    view.searches = Searches(state, found)
    found.wrong = []
    return found


SEARCHED = (Magm(timeslice_max_smact=0.3), Packing(), Exclusive())

KINDS = (
    *("smact", "unmanaged", "broken", "vanish", "report", "grow", "read", "later", "saving"),
    *("reserve", "migrate", "nothing", "multiuser", "until"),
    *("users", "users", "users", "timed", "second", "second", "third"),
)
more = st.builds(
    Move,
    kind=st.sampled_from(KINDS),
    pick=st.integers(0, 50),
    smact=st.sampled_from([None, 0.0, 0.2, 0.9]),
    memory_mib=st.one_of(st.none(), st.integers(0, 20 * GIB)),
    seconds=st.floats(0.1, 120.0),
)


def also_play(world: World, mover: Mover, server: tuple[Device, ...], move: Move) -> None:
    """The moves that change what an offer shows."""
    at = server[move.pick % len(server)]
    live = [a for a in world.attempts.values() if a.ended is None]
    if move.kind == "smact":
        world.smact[at.uuid] = move.smact
        world.pass_time(1.0)
    elif move.kind == "unmanaged":
        world.unmanaged[at.uuid] = move.memory_mib or 0
        world.read([at.uuid])
    elif move.kind == "broken":
        if move.pick % 2:
            world.broken[at.uuid] = "no answer"
        else:
            world.broken.clear()
        world.read()
    elif move.kind in ("vanish", "multiuser", "until"):
        changes: dict[str, Any] = {"mps_multiuser": bool(move.pick % 3), "numa_node": move.pick % 2}
        if move.kind == "until":
            changes = {"available_until": world.now.wall_s + 300 if move.pick % 3 else None}
        found = [replace(d, **changes) if d is at else d for d in server]
        if move.kind == "vanish":
            found = [d for d in server if d is not at or move.pick % 3 == 0]
        world.devices = tuple(found) or server
        world.step(ev.DevicesSeen(at=world.now, devices=world.devices))
    elif move.kind == "report" and live:
        world.report(live[move.pick % len(live)].job_id, step=float(move.pick))
    elif move.kind == "grow" and live:
        world.used[live[move.pick % len(live)].job_id] = move.memory_mib or 0
        world.read()
    elif move.kind == "read":
        world.boot_s += 1.0
        world.read([d.uuid for d in world.devices[: 1 + move.pick % 2]])
    elif move.kind == "later":
        world.pass_time(move.seconds, read=False)
    elif move.kind == "saving":
        saves = Checkpoint(CheckpointKind.SIGNAL)
        world.submit(move.memory_mib, smact=move.smact, checkpoint=saves)
    elif move.kind == "users" and world.scheduler.state.for_users.every and move.pick % 4 == 0:
        first = min(world.scheduler.state.for_users.every)
        world.step(ev.UnreserveRequested(at=world.now, reservation_id=first, by="root"))
    elif move.kind == "users":
        start_s = world.now.wall_s + move.seconds
        uids = ((), (1000,), (1001,))[move.pick % 3]
        asks = UserReservation(0, (at.uuid,), start_s, start_s + 100.0, uids=uids)
        world.step(ev.ReserveRequested(at=world.now, reservation=asks))
    elif move.kind in ("second", "third"):  # users, who take turns on an MPS server
        uid = 1001 + (move.kind == "third")
        world.submit(move.memory_mib or GIB, smact=move.smact, uid=uid)
        world.pass_time(move.seconds)
    elif move.kind == "timed":
        world.submit(move.memory_mib, smact=move.smact, time_limit_s=move.seconds)
    elif move.kind in ("reserve", "migrate", "nothing"):
        mover.wish, mover.reserved_mib = move.kind, move.memory_mib or None
        world.pass_time(1.0)


def ask_all(world: World) -> None:
    """Ask about every job, role, device and mode, and about jobs as they could be."""
    view = world.scheduler.view
    for job in list(world.scheduler.state.jobs.values()):
        roles: list[Role] = list(job.spec.roles)
        for role in roles:
            view.offers(job, role)
            for device in view.devices():
                view.offer(job, role, device.uuid, Collocation.TIMESLICE)
            view.offers(replace(job, own_device=not job.own_device), role)


def search_all(world: World, policy: Policy, quick: bool) -> None:
    """Search devices for every waiting job: also by what is known of a search that failed.

    `quick`: only ask whether it is known that a search fails.
    """
    view = world.scheduler.view
    for job in [job for job in world.scheduler.state.jobs.values() if job.state.waiting]:
        fresh = Placer(view, Checked(policy, Answers({})), job, None).find()
        if fails_again(view, policy, job):
            assert fresh.placement is None
        if not quick:
            known = find_with_fallback(view, policy, job, None, SEARCHED[-1])
            assert (known.placement, known.refusals) == (fresh.placement, fresh.refusals)


servers = st.sampled_from(
    [
        gpus(2),
        gpus(2, mps=True),
        gpus(3, mps=True),
        (*gpus(1, mps=True), Device(uuid="GPU-9", index=9, name="H100", total_mib=80 * GIB)),
    ]
)
lives = st.lists(st.one_of(submits, submits, others, more, more), min_size=6, max_size=40)


@settings(max_examples=some(100))
@given(
    *(servers, st.sampled_from([Magm(), Magm(max_smact=1.0), Exclusive()])),
    *(st.sampled_from(SEARCHED), lives),
)
def test_a_kept_offer_is_a_fresh_one(
    server: tuple[Device, ...], policy: Policy, searched: Policy, life: list[Move]
) -> None:
    mover, order = Mover(), Fifo()
    world = World(
        server,
        planners=(default_planner(policy), mover),
        order=order,
        settings=SETTINGS,
    )
    asked = compared(world)
    for move in life:
        play(world, move)
        also_play(world, mover, server, move)
        if move.kind == "restart":
            asked = compared(world)
        ask_all(world)
        ask_all(world)
        search_all(world, searched, quick=move.pick % 3 > 0)
        assert not asked.wrong


def test_an_offer_is_kept_until_something_changes() -> None:
    world = World(gpus(2, mps=True), settings=SETTINGS)
    for _ in range(8):
        world.submit(15 * GIB, smact=0.2)
    view, jobs = world.scheduler.view, world.scheduler.state.jobs
    waiting = [job for job in jobs.values() if job.state.waiting]
    assert len(waiting) > 2
    first = view.offers(waiting[0], waiting[0].spec.roles[0])
    alike = view.offers(waiting[1], waiting[1].spec.roles[0])
    assert all(one is other for one, other in zip(first, alike, strict=True))
    world.read([world.devices[0].uuid])
    later = view.offers(waiting[0], waiting[0].spec.roles[0])
    assert later[0] is not first[0]
    assert later[1] is first[1]


def offers_to(world: World, job: Job) -> tuple[Offer, ...]:
    return world.scheduler.view.offers(world.jobs[job.id], job.spec.roles[0])


def test_a_refusal_names_the_need_of_its_own_job() -> None:
    big = Device(uuid="GPU-9", index=9, name="H100", total_mib=80 * GIB)
    world = World((*gpus(1), big), policy=Exclusive())
    world.submit(60 * GIB)
    waiting = [world.submit(need * GIB) for need in (50, 60)]
    needs = [offers_to(world, job)[0].refusal for job in waiting]
    assert [refusal and refusal.needed for refusal in needs] == [50 * GIB, 60 * GIB]


def test_a_turn_ends_when_another_user_comes() -> None:
    world = World(gpus(1, mps=True), settings=SETTINGS)
    world.submit(10 * GIB, smact=0.9)
    waiting = world.submit(10 * GIB, smact=0.9)
    world.smact["GPU-0"] = 0.95
    world.pass_time(SETTINGS.mps_cohort_s + 1)
    assert world.where(waiting) == ()
    assert offers_to(world, waiting)[0].refusal is None
    world.submit(10 * GIB, smact=0.9, uid=1001)
    assert offers_to(world, waiting)[0].refusal.rule == "turn"


def test_what_is_kept_of_jobs_that_ended_is_dropped() -> None:
    world = World(gpus(2), settings=SETTINGS)
    before = _offers_in_memory()
    for _ in range(150):
        job = world.submit(30 * GIB, smact=0.9)
        waiting = world.submit(30 * GIB, smact=0.9), world.submit(30 * GIB, smact=0.9)
        world.pass_time(1)
        for each in (job, *waiting):
            world.cancel(each)
        for each in (job, *waiting):
            if world.live(each) is not None:
                world.end(each)
    assert not [job for job in world.scheduler.state.jobs.values() if not job.state.final]
    assert _offers_in_memory() - before < 150


def test_a_version_is_counted_by_the_object_that_has_it() -> None:
    """What is kept here is right only if each change is counted, so nobody may count for others."""
    counted = [
        (file.name, ast.unparse(node.target))
        for file in (REPOSITORY / "radrm/core").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.AugAssign) and ast.unparse(node.target).endswith("version")
    ]
    assert ("ledger.py", "self.version") in counted
    assert [each for each in counted if not each[1].startswith("self.")] == []


def _offers_in_memory() -> int:
    gc.collect()
    return sum(type(each) is Offer for each in gc.get_objects())
