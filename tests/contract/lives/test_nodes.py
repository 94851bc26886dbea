"""No CPU and no memory of a node is booked twice or below zero, in any order of events.

Random jobs, random (also senseless) proposals, a host that answers late, fails or answers twice,
restarts, and a capacity that changes. The bookings are compared with the saved records alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.proposals import Migrate, Proposal, ResizeTo, SetShares, Start
from radrm.core.records import LOCAL_NODE, Exit, HostUse, Needs, Node, Placement, Role, Share
from radrm.core.rules import Order
from radrm.core.words import Resizing
from radrm.policies.sharing import FirstFit
from radrm.structs import replace
from tests.core.placements import SAVES, SLICE, propose
from tests.examples import lives
from tests.world import GIB, ORDERS, World, gpus

CPUS = [None, 0.1, 0.3, 1.0, 2.5, 4.0]
MEMORY = [None, 1, GIB, 3 * GIB]
KINDS: list[type[Proposal]] = [Start, ResizeTo, Migrate, SetShares]
Amounts = tuple[int, int]
"""Thousandths of CPUs, and MiB."""


class Life:
    def __init__(self, order: Order) -> None:
        policy = FirstFit(margin_mib=0)
        self.node = Node(LOCAL_NODE, 4.0, 4 * GIB)
        self.world = World(gpus(3), policy=policy, order=order, node=self.node)
        self.asked: list[act.Action] = []
        self.before: Amounts = (0, 0)

    def pick(self, number: int) -> int | None:
        unfinished = [job.id for job in self.world.jobs.values() if not job.state.final]
        return unfinished[number % len(unfinished)] if unfinished else None

    # ------------------------------------------------------------- moves

    def submit(
        self, needs: Needs, most: int, second: bool, span: Amounts | None, how: Resizing
    ) -> None:
        needs = needs if span is None else replace(needs, memory_mib=None)
        roles = [Role("a", count_max=most, needs=needs)]
        if second:
            roles.append(Role("b", needs=replace(needs, gpus=1)))
        about = {"memory_range_mib": span, "resizing": how, "checkpoint": SAVES}
        self.world.submit(GIB, smact=0.05, roles=tuple(roles), **about)

    def propose(
        self, pick: int, kind: type[Any], tasks: int, on: int, cpus: float | None, mib: int | None
    ) -> None:
        job = self.world.jobs.get(self.pick(pick) or 0)
        if job is None:
            return
        attempt = self.world.live(job)
        first = job.spec.roles[0]
        own = attempt.placement.shares if attempt is not None else ()
        new = [
            Share(f"GPU-{(on + task) % 3}", GIB, role=first.name, task=task, cpus=cpus)
            for task in range(tasks)
        ]
        whole = job.spec.memory_range_mib is not None
        new = [replace(s, memory_mib=None if whole and s.task else mib) for s in new]
        if kind is ResizeTo:
            there = {(share.role, share.task) for share in own}
            new = [*own, *(share for share in new if (share.role, share.task) not in there)]
        if kind is SetShares:
            shares = tuple(replace(share, cpus=cpus) for share in own)
            propose(self.world, SetShares(job_id=job.id, shares=shares))
        else:
            propose(self.world, kind(job_id=job.id, placement=Placement(tuple(new), SLICE)))

    def answer(self, pick: int, works: bool) -> None:
        """An answer to any action so far: late, or again."""
        asked = [a for a in self.world.actions if isinstance(a, act.AttemptAction | act.Launch)]
        if not asked:
            return
        action = asked[-1 - pick % min(6, len(asked))]
        if works and not isinstance(action, (act.Terminate, act.Kill)):
            self.world._do(action)
        elif not works:
            self.world.step(ev.ActionFailed(at=self.world.now, action=action, reason="no"))

    def obey(self, obeys: bool) -> None:
        self.world.obey = obeys

    def end(self, pick: int, code: int) -> None:
        job_id = self.pick(pick)
        if job_id is not None and self.world.live(job_id) is not None:
            self.world.end(job_id, code)

    def use(self, pick: int, mib: int) -> None:
        """A job's use of host memory is measured: it may get more."""
        attempt = self.world.live(self.pick(pick) or 0)
        if attempt is not None:
            use = HostUse(self.world.now, memory_mib=mib)
            uses = ((attempt.job_id, attempt.serial, use),)
            self.world.step(ev.HostUsed(at=self.world.now, uses=uses))

    def starve(self, pick: int, role: str) -> None:
        """A task runs out of host memory: the next attempt is larger, or there is none."""
        attempt = self.world.live(self.pick(pick) or 0)
        if attempt is None:
            return
        exits = tuple(Exit(signal=9) for _ in attempt.tasks)
        about = {"at": self.world.now, "job_id": attempt.job_id, "serial": attempt.serial}
        before = self.world.jobs[attempt.job_id]
        self.world.step(ev.AttemptEnded(**about, exits=exits, host_oom=role))
        job = self.world.jobs[attempt.job_id]
        if job.state.waiting and attempt.stop is None:
            grown = (job.memory_mib or 0) > (before.memory_mib or 0) or job.counts != before.counts
            assert grown, "it would die again"

    def cancel(self, pick: int) -> None:
        if (job_id := self.pick(pick)) is not None:
            self.world.cancel(job_id)

    def pass_time(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    def restart(self) -> None:
        before = self.booked()
        self.world.restart()
        if self.world.obey:
            return
        assert self.booked() == before, "a restart alone has changed the bookings"

    def change(self, cpus: float | None, mib: int | None) -> None:
        self.node = Node(LOCAL_NODE, cpus, mib)
        self.world.see_nodes(self.node)

    # ------------------------------------------------------------- checks

    def booked(self) -> Amounts:
        (use,) = self.world.scheduler.snapshot.nodes
        return round(use.cpus_booked * 1000), use.memory_booked_mib

    def saved(self) -> Amounts:
        """What the saved records of live attempts book.

        Of CPUs the most that any of an attempt's placements has, where its role asked for some;
        of memory the most that each task has in any of them.
        """
        cpus, memory = 0, 0
        for attempt in self.world.attempts.values():
            if attempt.ended is not None:
                continue
            job = self.world.jobs[attempt.job_id]
            asked = {role.name: role.needs.cpus for role in job.spec.roles}
            found = [attempt.placement, attempt.target, job.target]
            placements = [[*p.shares] for p in found if p is not None]
            placements += [[*pending.shares] for pending in attempt.pending]
            sums, mib = [0], dict[tuple[str, int], int]()
            for shares in placements:
                caps = {(s.role, s.task): (asked[s.role], s.cpus) for s in shares if s.cpus}
                booked = [max(least, cap or 0) for least, cap in caps.values() if least is not None]
                sums.append(round(sum(booked) * 1000))
                for share in shares:
                    task = share.role, share.task
                    mib[task] = max(mib.get(task, 0), share.memory_mib or 0)
            cpus, memory = cpus + max(sums), memory + sum(mib.values())
        return cpus, memory

    def check(self) -> None:
        booked = self.booked()
        assert booked == self.saved()
        there = self.node.cpus, self.node.memory_mib
        limits = [
            None if n is None else round(n * by) for n, by in zip(there, (1000, 1), strict=True)
        ]
        for now, before, limit in zip(booked, self.before, limits, strict=True):
            assert limit is None or now <= max(limit, before), "more is booked than there is"
        self.before = booked
        (use,) = self.world.scheduler.snapshot.nodes
        assert use.cpus_free is None or use.cpus_free >= 0
        assert use.memory_free_mib is None or use.memory_free_mib >= 0
        for job in self.world.jobs.values():
            assert not job.state.waiting or self.world.why(job), "a waiting job cannot say why"

    def end_well(self) -> None:
        self.world.obey = True
        for job in list(self.world.jobs.values()):
            if not job.state.final:
                self.world.cancel(job)
        for attempt in list(self.world.attempts.values()):
            if attempt.ended is None:
                self.world.end(attempt.job_id)
        assert self.booked() == (0, 0)


def move(does: Callable[..., None], **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(partial, st.just(does), **arguments)


picks = st.integers(0, 30)
moves = st.one_of(
    move(
        Life.submit,
        needs=st.builds(
            Needs,
            gpus=st.sampled_from([0, 1, 1, 2]),
            cpus=st.sampled_from(CPUS),
            memory_mib=st.sampled_from(MEMORY),
        ),
        most=st.sampled_from([1, 1, 3]),
        second=st.sampled_from([False, False, True]),
        span=st.sampled_from([None, None, (GIB, 3 * GIB), (1, 64 * GIB)]),
        how=st.sampled_from([Resizing.LIVE, Resizing.LIVE, Resizing.RESTART]),
    ),
    move(
        Life.propose,
        pick=picks,
        kind=st.sampled_from(KINDS),
        tasks=st.integers(1, 3),
        on=st.integers(0, 2),
        cpus=st.sampled_from(CPUS),
        mib=st.sampled_from(MEMORY),
    ),
    move(Life.answer, pick=picks, works=st.booleans()),
    move(Life.obey, obeys=st.sampled_from([True, True, False])),
    move(Life.end, pick=picks, code=st.integers(0, 1)),
    move(Life.use, pick=picks, mib=st.sampled_from([1, GIB, 2 * GIB, 9 * GIB])),
    move(Life.starve, pick=picks, role=st.sampled_from(["a", "b"])),
    move(Life.cancel, pick=picks),
    move(Life.pass_time, seconds=st.sampled_from([1.0, 45.0, 700.0])),
    move(Life.restart),
    move(Life.change, cpus=st.sampled_from([1.0, 2.0, 4.0, None]), mib=st.sampled_from(MEMORY)),
)


@lives(70)
@given(order=st.sampled_from(ORDERS), moves=st.lists(moves, min_size=10, max_size=30))
def test_nothing_of_a_node_is_booked_twice(
    order: Order, moves: list[Callable[[Life], None]]
) -> None:
    life = Life(order)
    for make in moves:
        make(life)
        life.check()
    life.end_well()
