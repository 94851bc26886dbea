"""Several kinds of GPU on several servers: run times by kind and number, worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from radrm.core.records import Profiled
from radrm.errors import BadFile, RadrmError, UsageError
from radrm.lab.simulator.bounds import bounds, drawn
from radrm.lab.simulator.courses import pace_on
from radrm.lab.simulator.engine import simulate, tasks_of
from radrm.lab.simulator.scenario import Known, Scenario
from radrm.lab.simulator.traces.job import TraceJob, seconds_on
from radrm.lab.simulator.traces.trace import fitting, read_trace, trace_lines
from radrm.simulated.spec import parse, parse_servers
from radrm.structs import replace
from tests.lab.simulator.engine.puppets import AT_ONCE
from tests.lab.simulator.traces import PLAIN, job, scenario

ROW = "submit_s,name,gpus,duration_s,memory_mib,smact"
PROFILE = (Profiled("V100", 1, 100.0), Profiled("V100", 2, 60.0), Profiled("T4", 1, 250.0))
MIXED = parse_servers("sim:2xV100-32GB/2*1xT4-16GB")


def timed(duration_s: float = 100.0, submit_s: float = 0.0) -> TraceJob:
    return job(submit_s, duration_s, profile=PROFILE, line=2)


def on(devices: Sequence[int]) -> float:
    """The pace of `timed()` on these devices of `MIXED`, without any start-up."""
    (task,) = tasks_of([timed()], Scenario(MIXED, life=AT_ONCE))
    return pace_on(task, [MIXED[at].device for at in devices])


def test_each_kind_and_number_of_gpus_has_its_run_time() -> None:
    assert [on([0]), on([0, 1]), on([2])] == [1.0, pytest.approx(100 / 60), 0.4]


def test_no_job_is_on_two_servers() -> None:
    with pytest.raises(RadrmError, match="several servers"):
        on([0, 2])


def test_a_number_without_a_figure_is_as_fast_as_the_next_smaller_one() -> None:
    assert seconds_on(timed(), "V100-32GB", 4) == 60.0
    assert seconds_on(timed(), "A100-40GB", 1) == 100.0  # duration_s holds for other kinds
    assert seconds_on(replace(timed(), profile=(Profiled("T4", 2, 9.0),)), "T4-16GB", 1) == 100.0


def test_the_start_up_takes_the_same_time_on_every_kind() -> None:
    found = Scenario(MIXED, life=PLAIN, config=scenario("exclusive").config)
    run = simulate([timed() for _ in range(4)], found)
    assert sorted(each.ended_s or 0.0 for each in run.jobs) == [100, 100, 250, 250]
    assert all(each.attempts[0].solo_s == pytest.approx(70) for each in run.jobs)


def test_a_job_may_grow_to_the_most_gpus_of_a_server_that_it_has_figures_for() -> None:
    def role_on(spec: str) -> tuple[int, int, int]:
        (task,) = tasks_of([timed()], Scenario(parse_servers(spec)))
        return task.role.count_min, task.role.count_max, task.role.needs.gpus

    assert role_on("sim:2xV100-32GB/1xT4-16GB") == (1, 2, 1)
    assert role_on("sim:2*1xV100-32GB/1xT4-16GB") == (1, 1, 1)
    assert role_on("sim:2xV100-32GB/1xV100-32GB") == (1, 2, 1)
    assert role_on("sim:4xA100-40GB") == (1, 1, 1)


def test_planners_know_the_run_times_only_where_durations_are_known() -> None:
    def told(known: Known) -> list[tuple[str, int, float]]:
        (task,) = tasks_of([timed()], Scenario(MIXED, known=known, seed=3))
        return [(each.kind, each.gpus, each.duration_s) for each in task.profile]

    exact = [("V100-32GB", 1, 100.0), ("V100-32GB", 2, 60.0), ("T4-16GB", 1, 250.0)]
    assert told(Known()) == []
    assert told(Known(duration=0.0)) == exact
    off = told(Known(duration=0.5))
    ratios = [mine / true for (_, _, mine), (_, _, true) in zip(off, exact, strict=True)]
    assert ratios == [pytest.approx(ratios[0])] * 3 and ratios[0] != 1.0


def test_no_run_beats_the_bounds_of_its_fastest_kind() -> None:
    found = Scenario(MIXED, life=PLAIN, config=scenario("exclusive").config)
    run = simulate([timed(submit_s=at * 10.0) for at in range(9)], found)
    limits = bounds(*drawn(run, 30.0, 30.0), [1.0] * len(MIXED))
    assert limits.makespan_s <= run.ended_s
    # 30 s of start-up, and 70 s of work by `duration_s`, of which two V100s need 30 s.
    assert limits.mean_jct_s >= 25 + 30


def test_the_bounds_take_the_least_load_and_the_least_time_of_any_configuration() -> None:
    found = Scenario(MIXED, life=AT_ONCE, config=scenario("exclusive").config)
    _, (solo,) = drawn(simulate([timed()], found), 0.0)
    # Two V100s are the fastest with 60 s; one has the least load: 100 s of 2 x 60 s.
    assert (solo.loading_s, solo.least_s) == (pytest.approx(100), pytest.approx(60))


def test_a_restart_moves_all_stages_by_the_same_time() -> None:
    (task,) = tasks_of([timed()], Scenario(MIXED, life=PLAIN))
    before, after = task.course, task.course.continued(100.0)
    assert (before.computes_s, after.computes_s) == (30.0, 100.0)
    assert after.peak_s - before.peak_s == after.steady_s - before.steady_s == 70.0


# ------------------------------------------------------------------ columns


def test_a_trace_keeps_the_run_times() -> None:
    jobs = [timed(), replace(job(line=3), saves=True)]
    assert list(read_trace(trace_lines(jobs), "t").jobs) == jobs


def test_an_empty_cell_is_no_figure() -> None:
    rows = [f"{ROW},duration_s@V100,duration_s@2xV100,saves", "0,a,1,9,9,0.1,5,,yes"]
    (found,) = read_trace(rows, "t").jobs
    assert (found.profile, found.can_save) == ((Profiled("V100", 1, 5.0),), True)


@pytest.mark.parametrize(
    ("column", "cell", "why"),
    [
        ("duration_s@", "1", "names no kind of GPU"),
        ("duration_s@0xV100", "1", "names no kind of GPU"),
        ("duration_s@2x", "1", "names no kind of GPU"),
        ("duration_s@V100,duration_s@1xv100", "1,1", "two columns"),
        ("duration_s@V100", "0", "line 2: duration_s@V100 '0'"),
        ("duration_s@V100", "nan", "line 2: duration_s@V100 'nan'"),
        ("saves", "maybe", "line 2: saves 'maybe' is neither"),
    ],
)
def test_wrong_columns_are_named(column: str, cell: str, why: str) -> None:
    with pytest.raises(BadFile, match=why):
        read_trace([f"{ROW},{column}", f"0,a,1,9,9,0.1,{cell}"], "t")


# ------------------------------------------------------------------ servers


def test_servers_have_their_own_devices_in_one_count() -> None:
    devices = [each.device for each in parse_servers("sim:2*2xA100-40GB,nvlink=2/1xT4-16GB")]
    assert [d.node for d in devices] == ["server1"] * 2 + ["server2"] * 2 + ["server3"]
    assert [d.index for d in devices] == [0, 1, 2, 3, 4]
    assert [d.nvlink_group for d in devices] == [0, 0, 2, 2, None]
    assert len({d.uuid for d in devices}) == 5


def test_one_server_is_as_before() -> None:
    assert parse_servers("sim:2xA100-40GB") == parse("sim:2xA100-40GB")


def test_a_hundred_servers_of_eight_gpus() -> None:
    devices = parse_servers("sim:100*8xV100-32GB")
    assert len({each.device.uuid for each in devices}) == 800


@pytest.mark.parametrize(
    "spec",
    [
        *("sim:0*1xT4-16GB", "sim:1001*1xT4-16GB", "sim:1xT4-16GB/", "sim:*1xT4-16GB", "sim:2*"),
        *("sim:99999*1xT4-16GB", "sim:30*200xT4-16GB", "2*1xT4-16GB", "sim:1xT4-16GB/1001*T4-1GB"),
    ],
)
def test_wrong_servers_are_refused_in_one_line(spec: str) -> None:
    with pytest.raises(UsageError, match=r"^.+ names no simulated GPUs: .+$"):
        parse_servers(spec)


def test_a_daemon_has_one_server() -> None:
    with pytest.raises(UsageError, match="exist only in simulate and compare"):
        parse("sim:2*1xT4-16GB")


def test_with_several_servers_only_jobs_that_can_begin_on_one_gpu_fit() -> None:
    jobs = [job(line=2), job(gpus=2, line=3)]
    kept = fitting(jobs, [40000, 40000], several=True)
    assert kept.jobs == (jobs[0],) and "duration_s@2xKIND" in kept.notes[0]


def test_the_published_loop_has_one_server_and_one_run_time() -> None:
    one = Scenario(parse("sim:1xV100-32GB"), fidelity="published", estimator="declared")
    for jobs, found in (([timed()], one), ([job()], replace(one, devices=MIXED))):
        with pytest.raises(UsageError, match="one server and one run time"):
            simulate(jobs, found)
