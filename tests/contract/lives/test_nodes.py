"""No CPU and no memory of a node is booked twice or below zero, in any order of events.

Random jobs, random (also senseless) proposals, a host that answers late, fails or answers twice,
restarts, and a capacity that changes. The bookings are compared with the saved records alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.proposals import Migrate, Proposal, ResizeTo, SetShares, Start
from radrm.core.records import LOCAL_NODE, Needs, Node, Placement, Role, Share
from radrm.core.rules import Order
from radrm.policies.first_fit import FirstFit
from tests.core.placements import SAVES, SLICE, propose
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

    def submit(self, needs: Needs, most: int, second: bool) -> None:
        roles = [Role("a", count_max=most, needs=needs)]
        if second:
            roles.append(Role("b", needs=replace(needs, gpus=1)))
        self.world.submit(GIB, smact=0.05, roles=tuple(roles), checkpoint=SAVES)

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
        new = [replace(share, memory_mib=mib) for share in new]
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
        """What the saved records of live attempts book: each task once, with its largest cap."""
        tasks: dict[tuple[int, str, int], Amounts] = {}
        for attempt in self.world.attempts.values():
            if attempt.ended is not None:
                continue
            shares = [*attempt.placement.shares]
            for placement in (attempt.target, self.world.jobs[attempt.job_id].target):
                shares += placement.shares if placement is not None else ()
            for pending in attempt.pending:
                shares += pending.shares
            for share in shares:
                key = (attempt.job_id, share.role, share.task)
                cpus, mib = tasks.get(key, (0, 0))
                more = max(cpus, round((share.cpus or 0) * 1000)), max(mib, share.memory_mib or 0)
                tasks[key] = more
        return sum(c for c, _ in tasks.values()), sum(m for _, m in tasks.values())

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
    move(Life.cancel, pick=picks),
    move(Life.pass_time, seconds=st.sampled_from([1.0, 45.0, 700.0])),
    move(Life.restart),
    move(Life.change, cpus=st.sampled_from([1.0, 2.0, 4.0, None]), mib=st.sampled_from(MEMORY)),
)


@settings(max_examples=150, derandomize=True, report_multiple_bugs=False)
@given(order=st.sampled_from(ORDERS), moves=st.lists(moves, min_size=10, max_size=30))
def test_nothing_of_a_node_is_booked_twice(
    order: Order, moves: list[Callable[[Life], None]]
) -> None:
    life = Life(order)
    for make in moves:
        make(life)
        life.check()
    life.end_well()
