"""The published figures of elastic jobs: the models fit them, and the rows say what is missed."""

from __future__ import annotations

import pytest

from benchmarks.elastic import limits, rows, stepped
from benchmarks.elastic import recommenders as dl
from benchmarks.elastic.cluster import IN_PLACE, TrainingJob, play
from benchmarks.elastic.gpus import SIZINGS, served
from benchmarks.elastic.models import (
    RESNET,
    WIDE_DEEP,
    X_DEEP_FM,
    A,
    B,
    Recommender,
)
from benchmarks.elastic.shared import WAYS, steps, trace


def test_the_plans_are_those_of_table_1() -> None:
    wide, deep = dl.plan(WIDE_DEEP), dl.plan(X_DEEP_FM)
    assert (wide.workers, wide.worker_cpus, wide.servers, wide.server_cpus) == (24, 3, 8, 16)
    assert (deep.workers, deep.worker_cpus, deep.servers, deep.server_cpus) == (8, 20, 2, 16)


def test_the_rows_of_dlrover_are_reached_but_for_slow_servers() -> None:
    found = rows.dlrover()
    assert [row.published for row in rows.missed(found)] == ["42 %, 25 %"]
    assert sum(row.holds is True for row in found) == 4


def test_the_cluster_model_passes_its_check() -> None:
    assert rows.missed(rows.cluster_model()) == []
    assert limits.knee(1) == 8
    assert limits.knee(10) is None


def test_nobody_passes_the_head_and_cpus_are_never_given_twice() -> None:
    jobs = trace(A, seed=1, count=12)
    for way in WAYS.values():
        played = play(A, jobs, way, seed=1)
        begun = [each.begun_s for each in played]
        assert begun == sorted(begun)
        assert all(each.job.at_s <= each.begun_s < each.ended_s for each in played)
        assert all(layout.total <= 100.001 for each in played for layout in each.layouts)


def test_a_change_in_place_costs_no_time() -> None:
    job = TrainingJob(0.0, RESNET, steps(B, RESNET, 1.0), B.cpus)
    stop, live = (
        play(B, [job], WAYS["nearchus"], 0, *costs)[0].ended_s for costs in ((), (IN_PLACE,))
    )
    assert live < stop


@pytest.mark.parametrize("job", [WIDE_DEEP, X_DEEP_FM])
def test_the_planner_dlrover_passes_through_the_layout_of_table_2(job: Recommender) -> None:
    run = stepped.dlrover(job)
    speeds = [speed for _, speed in stepped.layouts(run)]
    assert job.tuned in [layout for layout, _ in stepped.layouts(run)]
    assert run.jct_s is not None
    assert speeds[-1] == max(speeds)


def test_the_planner_nearchus_takes_the_whole_cluster_where_it_helps() -> None:
    run = stepped.alone(A, 0.8, networks=(RESNET,))["ResNet-50"]
    assert run.jct_s is not None
    last, _ = stepped.layouts(run)[-1]
    assert last.total == pytest.approx(100, abs=1)
    assert last.counts[0] > 2, "one parameter server is too few for a slow network"


def test_the_planner_nearchus_runs_a_trace_to_its_end_within_the_budgets() -> None:
    queue_h, time_h = stepped.forty(A, 2, count=2)
    assert 0 <= queue_h < time_h


def test_growing_jobs_end_sooner_than_small_ones() -> None:
    small, _, grows, _ = (served(sizing, 0.3, 1, count=8) for sizing in SIZINGS)
    assert grows.completion_h < 0.9 * small.completion_h
    assert grows.resizes > 0 == small.resizes
