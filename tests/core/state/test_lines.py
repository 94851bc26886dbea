"""The waiting queue is always in order, with and without ranks of users."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core import events as ev
from radrm.core.records import JobSpec
from radrm.core.state.queue.line import Line, WaitingQueue
from radrm.core.state.queue.order import Rank
from radrm.core.words import Queue
from radrm.policies.exclusive import Exclusive
from radrm.structs import replace
from tests.core.ledgers import JOB
from tests.world import GIB, World, gpus


@given(
    st.lists(
        st.tuples(st.integers(1, 30), st.booleans(), st.integers(-2, 2), st.booleans()), max_size=60
    )
)
def test_the_queue_is_always_in_order(moves: list[tuple[int, bool, int, bool]]) -> None:
    queue = WaitingQueue()
    model: dict[int, tuple[bool, int, int]] = {}
    for job_id, recovering, priority, leave in moves:
        if leave:
            queue.discard(job_id)
            model.pop(job_id, None)
        else:
            where = Queue.RECOVERY if recovering else Queue.MAIN
            spec = replace(JOB.spec, priority=priority)
            queue.put(replace(JOB, id=job_id, queue=where, spec=spec), (job_id,))
            model[job_id] = (not recovering, -priority, job_id)
        expected = sorted(model, key=lambda i: model[i])
        assert list(queue) == expected
        assert queue.head() == (expected[0] if expected else None)
        assert all(queue.position(i) == place for place, i in enumerate(expected))


ranked_moves = st.lists(
    st.tuples(
        st.integers(1, 20),  # job
        st.integers(0, 3),  # user
        st.booleans(),  # recovering
        st.integers(-1, 1),  # priority
        st.sampled_from(["put", "put", "leave", "rank", "aside"]),
    ),
    max_size=60,
)


@given(ranked_moves)
def test_users_have_their_ranks_within_queue_and_priority(
    moves: list[tuple[int, int, bool, int, str]],
) -> None:
    ranks = dict.fromkeys(range(4), 0)
    queue = Line(lambda spec: Rank((0, ((1, ranks[spec.uid]),))))
    model: dict[int, tuple[int, bool, int]] = {}
    for job_id, uid, recovering, priority, what in moves:
        if what == "put":
            where = Queue.RECOVERY if recovering else Queue.MAIN
            spec = replace(JOB.spec, priority=priority, uid=uid)
            queue.put(replace(JOB, id=job_id, queue=where, spec=spec), (0, ((1, -job_id),)))
            model[job_id] = (uid, recovering, priority)
        elif what == "leave":
            queue.discard(job_id)
            model.pop(job_id, None)
        elif what == "rank":
            ranks[uid] = job_id % 4
        else:
            before = list(queue)
            keys = queue.take(range(job_id))
            assert set(queue) == {i for i in model if i >= job_id}
            queue.add(keys)
            assert list(queue) == before
        expected = sorted(
            model, key=lambda i: (not model[i][1], -model[i][2], ranks[model[i][0]], -i)
        )
        assert list(queue) == expected and len(queue) == len(expected)
        assert queue.head() == (expected[0] if expected else None)
        assert all(queue.position(i) == place for place, i in enumerate(expected))
        keys_in_order = [queue.key_of(i) for i in expected]
        assert keys_in_order == sorted(keys_in_order, key=lambda key: (key or ())[:4])


@given(
    jobs=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 5), st.integers(0, 1)),
        max_size=30,
    ),
    turns=st.lists(st.tuples(st.integers(0, 1), st.integers(1, 4)), min_size=4, max_size=4),
)
def test_the_turns_of_users_merge_their_lines(
    jobs: list[tuple[int, int, int, int]], turns: list[tuple[int, int]]
) -> None:
    queue = Line(lambda spec: Rank((0, ()), *map(float, turns[spec.uid])))
    model: dict[int, tuple[float, ...]] = {}
    old = {(uid, priority) for uid, tier, _, priority in jobs if not tier}
    for job_id, (uid, tier, size, priority) in enumerate(jobs, 1):
        size = size if tier else 3  # all old ones have the same
        job = replace(JOB, id=job_id, spec=replace(JOB.spec, uid=uid, priority=priority))
        queue.put(job, (0, ((1, tier), (1, size), (1, job_id))))
        least, factor = turns[uid]
        counts = max(size, 3) if least and (uid, priority) in old else size
        model[job_id] = (-priority, max(tier, least), counts * factor, tier, size, job_id)
    expected = sorted(model, key=lambda i: model[i])
    assert list(queue) == expected
    assert queue.head() == (expected[0] if expected else None)
    assert [queue.position(i) for i in expected] == list(range(len(expected)))


@pytest.mark.parametrize("order_key", [(1, 0, 5), (0, ()), (0, ((1, 7),)), (0, ((2, "a"), (1, 7)))])
def test_a_key_without_two_numbers_counts_as_it_is(order_key: tuple[Any, ...]) -> None:
    queue = Line(lambda spec: Rank((0, ()), 1.0, 3.0))
    queue.put(replace(JOB, id=1), order_key)
    assert queue.key_of(1)[3] == order_key


def test_the_head_costs_the_users_and_not_their_jobs() -> None:
    asked: list[int] = []

    def rank_of(spec: JobSpec) -> Rank:
        asked.append(spec.uid)
        return Rank((0, ()), 1.0, 2.0)

    for count in (10, 1000):
        queue, counted = Line(rank_of), Counter[int]()
        for job_id in range(count):
            job = replace(JOB, id=job_id, spec=replace(JOB.spec, uid=job_id % 5))
            queue.put(job, (0, ((1, 1), (1, job_id))))
        asked.clear()
        assert queue.head() == 0
        counted.update(asked)
        assert counted == dict.fromkeys(range(5), 1)


def test_jobs_that_stand_aside_come_back_to_the_lines_of_their_users() -> None:
    world = World(gpus(2), policy=Exclusive())
    world.submit(GIB)

    def drain(reason: str | None) -> dict[int, list[int]]:
        world.step(ev.DrainRequested(at=world.now, device="GPU-1", reason=reason))
        return {uid: list(line) for uid, line in world.scheduler.state.lines.gpu.of_user.items()}

    drain("repair")
    first, second, third = (world.submit(GIB, gpus=2, uid=uid).id for uid in (7, 8, 7))
    lines = {7: [first, third], 8: [second]}
    assert drain("repair") == {} and drain(None) == lines
    assert drain("again") == {} and drain(None) == lines
