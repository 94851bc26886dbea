"""The ranking of due jobs is what the published rule says, whatever happens in whatever order."""

from __future__ import annotations

from math import exp, isclose

from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.core.records import Instant, Job, JobSpec
from radrm.deadlines import OLD, Ranking
from tests.examples import some

MAX_WAIT_S = 5000.0
START_S = 1_700_000_000.0


def job_of(job_id: int, due_s: float, weight: float, priority: int) -> Job:
    spec = JobSpec("job", "ann", 1000, due_s=START_S + due_s, weight=weight, priority=priority)
    return Job(job_id, f"T{job_id}", spec, Instant(0.0, START_S))


def rule(job: Job, left_s: float, scale_s: float, now_s: float) -> tuple[object, ...]:
    """The place of a job by the rule, written down plainly."""
    due_s = job.spec.due_s
    old_s = max(due_s, START_S) + MAX_WAIT_S
    if old_s <= now_s:
        return (-job.spec.priority, 0, old_s)
    slack_s = max(0.0, due_s - now_s - left_s)
    index = job.spec.weight / left_s * exp(-slack_s / (2 * scale_s))
    return (-job.spec.priority, 1, -index)


jobs = st.tuples(
    st.integers(1, 12),
    st.one_of(st.none(), st.integers(-3000, 20_000)),
    st.integers(1, 8),
    st.sampled_from([0, 0, 0, 1]),
    st.integers(10, 4000),
)
moves = st.lists(st.one_of(jobs, st.integers(-2000, 9000)), min_size=1, max_size=30)


@settings(max_examples=some(150))
@given(moves)
def test_it_sorts_by_apparent_tardiness_cost(life: list[object]) -> None:
    ranking, now_s = Ranking(None, MAX_WAIT_S, 0.0), START_S
    there: dict[int, tuple[Job, float]] = {}
    for move in life:
        changed: dict[int, Job | None] = {}
        if isinstance(move, int):
            now_s += move
        elif isinstance(move, tuple):
            job_id, due_s, weight, priority, left_s = move
            there.pop(job_id, None)
            changed[job_id] = None
            if due_s is not None:
                job = job_of(job_id, due_s + 0.37 * job_id, weight + 0.01 * job_id, priority)
                there[job_id] = job, float(left_s)
                changed[job_id] = job
        ranking.update(changed, lambda job: there[job.id][1], now_s)
        keys = list(ranking.first(now_s))
        expected = [
            (*rule(job, left_s, ranking.scale_s, now_s), job_id)
            for job_id, (job, left_s) in there.items()
        ]
        assert [key[3] for key in keys] == [each[3] for each in sorted(expected)]
        assert [key[1] == OLD for key in keys] == [each[1] == 0 for each in sorted(expected)]
        if there:
            mean_s = sum(left_s for _, left_s in there.values()) / len(there)
            assert mean_s / 1.51 <= ranking.scale_s <= mean_s * 1.51
        late = [
            job.spec.weight
            for job, left_s in there.values()
            if (job.spec.due_s or 0.0) - left_s <= now_s
            and rule(job, left_s, ranking.scale_s, now_s)[1] == 1
        ]
        assert abs(ranking.late_weight - sum(late)) < 1e-6


def test_the_rank_of_a_job_without_slack_is_weight_over_remaining_time() -> None:
    ranking = Ranking(None, MAX_WAIT_S, 100.0)
    jobs = {1: job_of(1, 50.0, 3.0, 0), 2: job_of(2, 300.0, 3.0, 0)}
    ranking.update(jobs, lambda job: 100.0, START_S)
    assert isclose(ranking.cost_rate(1, START_S) or 0.0, 3.0 / 100.0)
    expected = 3.0 / 100.0 * exp(-200.0 / (2 * 100.0))
    assert isclose(ranking.cost_rate(2, START_S) or 0.0, expected)
    assert ranking.cost_rate(3, START_S) is None
