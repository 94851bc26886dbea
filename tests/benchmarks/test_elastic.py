"""The published figures of elastic jobs: the models fit them, and the rows say what is missed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.elastic import limits, rows, stepped
from benchmarks.elastic import recommenders as dl
from benchmarks.elastic.__main__ import HOURS, PAGE, VARIED
from benchmarks.elastic.cluster import IN_PLACE, TrainingJob, play
from benchmarks.elastic.gpus import SIZINGS, Served, at_least, at_most, drawn, served
from benchmarks.elastic.models import (
    NETWORKS,
    RESNET,
    WIDE_DEEP,
    X_DEEP_FM,
    A,
    B,
    Recommender,
    even,
)
from benchmarks.elastic.page import gpus, page, table
from benchmarks.elastic.search import Nearchus, Seen, best_fixed, blind, rates
from benchmarks.elastic.shared import BUDGETS, WAYS, alone, forty, steps, trace
from radrm.planners.servers.layout import Layout
from radrm.simulator.traces.job import step_times


def test_the_plans_are_those_of_table_1() -> None:
    wide, deep = dl.plan(WIDE_DEEP), dl.plan(X_DEEP_FM)
    assert (wide.workers, wide.worker_cpus, wide.servers, wide.server_cpus) == (24, 3, 8, 16)
    assert (deep.workers, deep.worker_cpus, deep.servers, deep.server_cpus) == (8, 20, 2, 16)


def test_every_row_of_dlrover_is_reached() -> None:
    found = rows.dlrover()
    assert rows.missed(found) == []
    assert sum(row.holds is True for row in found) == 5


def test_the_cluster_model_passes_its_check() -> None:
    assert rows.missed(rows.cluster_model()) == []
    assert limits.knee(1) == 8
    assert limits.knee(10) is None


def test_a_job_that_is_sampled_has_the_speed_of_table_1() -> None:
    one = Layout((32.0,), (32.0,))
    for job, speed in ((WIDE_DEEP, 12.0), (X_DEEP_FM, 6.2)):
        found = dl.rates(job.model, one)
        assert found.steps_s == pytest.approx(speed)
        assert found.cpus == pytest.approx((job.servers_used, job.worker_used))


def test_data_by_need_saves_nothing_without_a_straggler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dl, "SLOW", 1.0)
    assert dl.worker_straggler(WIDE_DEEP) == pytest.approx(0.0, abs=1e-6)


def test_auto_scaling_stops_where_a_worker_adds_too_little() -> None:
    last = [each.layout for each in dl.by_auto_scaling(WIDE_DEEP, 4, 1, 4)][-1]
    assert last.counts[0] == 4
    assert last.counts[1] < 24
    assert last.total <= 200


def test_optimus_of_dlrover_ends_within_the_quota_and_each_step_gains() -> None:
    layouts = [each.layout for each in dl.by_optimus(WIDE_DEEP, 4, 1, (2, 4))]
    speeds = [dl.rates(WIDE_DEEP.model, each).steps_s for each in layouts]
    assert speeds == sorted(speeds)
    assert layouts[-1].total <= 200


def test_the_exhaustive_search_is_the_fastest_of_all() -> None:
    model = A.model(RESNET)
    best = best_fixed(A, model, 100.0)
    assert best.total == 100
    speeds = [rates(A, model, even(ps, 20 - ps)).steps_s for ps in range(1, 20)]
    assert rates(A, model, best).steps_s == max(speeds)


def seen(layout: Layout, used: Layout, network: float = 0.0, free: float = 100.0) -> Seen:
    return Seen(600.0, 0.0, layout, 100.0, free, used, [1.0] * 5, [9.0] * 5, [[network] * 30] * 9)


def test_nearchus_grows_where_all_is_used_and_by_no_more_than_is_free() -> None:
    layout = Layout((1.0,), (7.0, 7.0))
    assert Nearchus().change(seen(layout, layout)) == Layout((1.5,), (10.5, 10.5))
    more = Nearchus().change(seen(layout, layout, free=1.5))
    assert more is not None and more.total == pytest.approx(16.5)
    assert Nearchus().change(seen(layout, layout, free=0.0)) is None


def test_nearchus_adds_what_is_short() -> None:
    layout, used = Layout((1.0,), (7.0, 7.0)), Layout((0.9,), (6.3, 6.3))
    network = Nearchus().change(seen(layout, used, network=0.95))
    assert network is not None and network.counts == (2, 2)
    worker = Nearchus().change(seen(layout, used))
    assert worker is not None and worker.counts == (1, 3)


def test_nearchus_goes_back_after_three_changes_without_gain() -> None:
    way = Nearchus()
    layout, used = Layout((1.0,), (7.0, 7.0)), Layout((0.9,), (6.3, 6.3))
    found = []
    at: Layout | None = layout
    for changed_s in range(4):
        assert at is not None
        busy = Layout(
            tuple(0.9 * each for each in at.servers), tuple(0.9 * each for each in at.workers)
        )
        at = way.change(replace(seen(at, busy), changed_s=float(changed_s)))
        found.append(at)
    assert [each.counts for each in found if each] == [(1, 3), (1, 4), (1, 5), (1, 2)]
    assert way.change(seen(layout, used)) is None


def test_nobody_passes_the_head_and_cpus_are_never_given_twice() -> None:
    jobs = trace(A, seed=1, count=12)
    for way in WAYS.values():
        played = play(A, jobs, way, seed=1)
        begun = [each.begun_s for each in played]
        assert begun == sorted(begun)
        assert all(each.job.at_s <= each.begun_s < each.ended_s for each in played)
        assert all(layout.total <= 100.001 for each in played for layout in each.layouts)


def test_the_same_seed_gives_the_same_run() -> None:
    assert forty(A, "nearchus", 3, count=6) == forty(A, "nearchus", 3, count=6)
    assert trace(A, 3) == trace(A, 3) != trace(A, 4)


def test_a_change_in_place_costs_no_time() -> None:
    job = TrainingJob(0.0, RESNET, steps(B, RESNET, 1.0), B.cpus)
    stop, live = (
        play(B, [job], WAYS["nearchus"], 0, *costs)[0].ended_s for costs in ((), (IN_PLACE,))
    )
    assert live < stop


def test_optimus_without_a_network_misses_it() -> None:
    model = A.model(RESNET)
    assert blind(A, model).believed.exchange_s == 0
    found = next(each for each in alone(A, 0.5) if each.network is RESNET)
    assert found.speeds["nearchus"] > found.speeds["optimus with network"] > found.speeds["optimus"]


def test_the_page_marks_what_is_missed() -> None:
    good, bad = rows.Row("one", "1", "2", holds=True), rows.Row("two", "1", "3", "9", holds=False)
    assert "| two | 1 | **3** | 9 |  |" in table([good, bad])
    text = page([good], [bad], [], {"A": [1.0] * len(HOURS)}, HOURS)
    assert "- two: 3 (reach: 9)" in text
    assert "| one job | 1 h | 2 h | 4 h | 8 h |" in text
    assert "Nothing." in page([good], [], [], {}, HOURS)


def test_the_trace_has_thirty_kinds() -> None:
    jobs = trace(A, 0, count=600)
    assert len({(job.network, job.budget, job.steps) for job in jobs}) == 30
    assert {job.budget for job in jobs} == {part * 100 for part in BUDGETS}
    assert {job.network for job in jobs} == set(NETWORKS)


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


def test_a_fixed_size_is_as_fast_as_the_trace_says() -> None:
    job = next(each for each in drawn(0.5, 0) if each.gpus_max == 4)
    steps = step_times(job)
    assert steps is not None
    least, most = at_least(job), at_most(job)
    assert (least.gpus, least.elastic, least.duration_s) == (1, False, job.duration_s)
    assert (most.gpus, most.elastic) == (4, False)
    assert job.duration_s / most.duration_s == pytest.approx(steps.pace(4))


def test_twice_the_load_comes_in_half_the_time() -> None:
    slow, fast = (drawn(load, 0)[-1].submit_s for load in (0.2, 0.4))
    assert slow == pytest.approx(2 * fast)


def test_growing_jobs_end_sooner_than_small_ones() -> None:
    small, _, grows, _ = (served(sizing, 0.3, 1, count=8) for sizing in SIZINGS)
    assert grows.completion_h < 0.9 * small.completion_h
    assert grows.resizes > 0 == small.resizes


def test_the_section_on_gpus_has_every_way_and_load() -> None:
    names = [sizing.name for sizing in SIZINGS]
    found = {
        (name, 0.5): [Served(0.1, 2.0 if at == 0 else 1.5, 1.0)] for at, name in enumerate(names)
    }
    text = gpus(found, names, [0.5], 8)
    assert "| `elastic` | 0.10, 1.50 (1.50 to 1.50) |" in text
    assert "completion time by 25 % at" in text


def test_the_written_page_has_every_row() -> None:
    text = PAGE.read_text()
    for row in (*rows.dlrover(), *rows.cluster_model()):
        assert f"| {row.name} | {row.published} |" in text
        assert row.reached in text
    assert all(f"| {name} |" in text for name, *_ in VARIED)
