"""Hostile lives of reservations: whatever a planner reserves, and whatever happens to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from radrm.core import events as ev
from radrm.core.constraints.reserve import MOST_AHEAD_S
from radrm.core.proposals import Proposal, Reserve
from radrm.core.records import Device, Job, Refusal
from radrm.core.rules import Order, Plan
from radrm.core.state.reserved import FOREVER, Claim, peak_mib
from radrm.core.view import View
from radrm.core.words import Collocation
from radrm.policies.sharing import Magm
from tests.contract.lives.life import Life
from tests.contract.lives.test_fuzz import SERVERS, move, moves, picks
from tests.examples import lives
from tests.world import GIB, ORDERS

GONE = Device(uuid="GPU-99", index=99, name="gone", total_mib=40 * GIB)


@dataclass
class Wishful:
    """Reserves what the test wishes, and raises if the test says so."""

    wished: tuple[Reserve, ...] = ()
    fails: bool = False
    name: str = "wishful"
    version: int = 1
    starts_jobs: bool = False
    listens: frozenset[type[ev.Event]] = field(
        default_factory=lambda: frozenset({ev.ReadingsTaken, ev.JobSubmitted, ev.AttemptEnded})
    )

    def plan(self, view: View, event: ev.Event, state: Any) -> Plan:
        return Plan(self._proposals())

    def _proposals(self) -> Sequence[Proposal]:
        if self.fails:
            raise RuntimeError("as the test wishes")
        return self.wished

    def explain(self, view: View, job: Job) -> tuple[Refusal, ...]:
        return ()


class ReservingLife(Life):
    """A life with a planner that reserves, and with checks of what it has reserved."""

    def __init__(self, server: tuple[Device, ...], order: Order) -> None:
        self.wishful = Wishful()
        super().__init__(server, Magm(margin_mib=0, min_free_mib=0), order, self.wishful)

    def wish_well(self, pick: int, first: int, start_s: float, spare_s: float, keeps: bool) -> None:
        """For a job that waits in the queue."""
        queue = self.world.scheduler.state.lines
        job = self.pick(pick, lambda j: j.id in queue and 0 < j.spec.gpus <= len(self.server))
        if job is None:
            return
        mib = None if job.spec.collocation is Collocation.EXCLUSIVE else job.need_mib
        devices = [((first + i) % len(self.server), mib) for i in range(job.spec.gpus)]
        length_s = spare_s + (job.spec.time_limit_s or 0.0)
        self.wish(pick, devices, start_s, length_s, keeps, job)

    def wish(
        self,
        pick: int,
        devices: list[tuple[int, int | None]],
        start_s: float,
        length_s: float,
        keeps: bool,
        job: Job | None = None,
    ) -> None:
        if job is None:
            job = self.pick(pick, lambda j: j.state.waiting)
        known = (*self.server, GONE)
        wish = Reserve(
            job_id=0 if job is None else job.id,
            devices=tuple((known[i % len(known)].uuid, mib) for i, mib in devices),
            start_s=self.world.boot_s + start_s,
            end_s=self.world.boot_s + start_s + length_s,
        )
        self.wishful.wished = (*self.wishful.wished * keeps, wish)
        self.world.read()

    def fail_or_work(self, fails: bool) -> None:
        self.wishful.fails = fails
        self.world.read()

    def check(self) -> None:
        super().check()
        world, state = self.world, self.world.scheduler.state
        planned = {k: r for k, r in world.stored.items() if r.kind.planned}
        assert {r.key: r for r in state.planned} == planned
        now_s, wake_at = world.boot_s, world.decisions[-1].wake_at
        for mine in planned.values():
            assert mine.planner == "wishful"
            assert not state.isolation.rests("planner", "wishful")
            assert now_s < mine.until.boot_s <= now_s + MOST_AHEAD_S
            assert wake_at <= mine.until.boot_s
            assert mine.device in {d.uuid for d in world.devices}
            assert mine.job_id in state.lines, "its job does not wait"
        for device in world.devices:
            claims = [
                Claim(
                    r.owner,
                    device.capacity_mib if r.mib is None else r.mib,
                    r.since.boot_s,
                    r.until.boot_s if r.until is not None else FOREVER,
                )
                for r in planned.values()
                if r.device == device.uuid
            ]
            assert peak_mib(claims, now_s, FOREVER) <= device.capacity_mib

    def end_well(self) -> None:
        self.wishful.wished, self.wishful.fails = (), False
        super().end_well()


wishes = move(
    ReservingLife.wish,
    pick=picks,
    devices=st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from([None, GIB, 20 * GIB, 39 * GIB, 0, 99 * GIB])),
        max_size=2,
    ),
    start_s=st.sampled_from([-10.0, 0.0, 5.0, 60.0, 1e4, -1e300]),
    length_s=st.sampled_from([-1.0, 0.0, 5.0, 100.0, 1e4, 1e7, 1e300]),
    keeps=st.booleans(),
)
good_wishes = move(
    ReservingLife.wish_well,
    pick=picks,
    first=st.integers(0, 1),
    start_s=st.sampled_from([0.0, 5.0, 101.0, 1e3]),
    spare_s=st.sampled_from([1.0, 100.0, 1e4]),
    keeps=st.booleans(),
)
with_limit = move(
    Life.submit,
    memory=st.sampled_from([20 * GIB, 30 * GIB]),
    count=st.just(1),
    wanted=st.just([]),
    elements=st.just(0),
    at_once=st.none(),
    retries=st.just(0),
    priority=st.sampled_from([0, 5]),
    limit=st.sampled_from([50.0, 100.0, 500.0]),
    exclusive=st.booleans(),
)
others = st.one_of(wishes, move(ReservingLife.fail_or_work, fails=st.booleans()))
# `one_of` draws evenly from all that its parts are made of, and `moves` is made of many.
PARTS = (moves, with_limit, with_limit, good_wishes, good_wishes, others)
more_moves = st.sampled_from(range(len(PARTS))).flatmap(lambda part: PARTS[part])


@lives(70)
@given(
    server=st.sampled_from(SERVERS),
    order=st.sampled_from(ORDERS),
    moves=st.lists(more_moves, min_size=15, max_size=35),
)
def test_no_reservation_outlives_its_reason(
    server: tuple[Device, ...], order: Order, moves: list[Callable[[Life], None]]
) -> None:
    life = ReservingLife(server, order)
    for make in moves:
        make(life)
        life.check()
    life.end_well()
