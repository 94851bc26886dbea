"""The waiting queue is always in order."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from radrm.core.state.queue.waiting import WaitingQueue
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
