"""The waiting queue is always in order, with and without ranks of users."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from radrm.core.state.queue.line import WaitingQueue
from radrm.core.state.queue.ranked import RankedQueue
from radrm.core.state.queue.safe_order import Rank
from radrm.core.words import Queue
from tests.core.ledgers import JOB


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
    queue = RankedQueue(lambda spec: Rank((0, ((1, ranks[spec.uid]),))))
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
            before = list(queue.copy())
            keys = queue.take(range(job_id))
            assert set(queue) == {i for i in model if i >= job_id}
            queue.add(keys)
            assert list(queue) == before
        expected = sorted(
            model, key=lambda i: (not model[i][1], -model[i][2], ranks[model[i][0]], -i)
        )
        copied = queue.copy()
        assert list(queue) == list(copied) == expected and len(queue) == len(expected)
        assert queue.head() == (expected[0] if expected else None)
        assert all(queue.position(i) == place for place, i in enumerate(expected))
        keys_in_order = [queue.key_of(i) for i in expected]
        assert keys_in_order == sorted(keys_in_order, key=lambda key: (key or ())[:4])
        ranks_then = dict(ranks)
        ranks.update((uid, 9 - rank) for uid, rank in ranks_then.items())
        assert list(copied) == expected, "a copy keeps its ranks"
        ranks.update(ranks_then)
