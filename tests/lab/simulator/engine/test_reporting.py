"""Shared CPUs, reports, shares, checkpoints and saved work in virtual time, worked out by hand."""

from __future__ import annotations

from collections.abc import Iterator
from math import exp
from typing import Any

import pytest

from radrm.core.proposals import Migrate, Proposal, SetShares
from radrm.core.view import View
from radrm.core.words import Outcome
from radrm.errors import BadFile, UsageError
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.run import Run
from radrm.lab.simulator.scenario import Scenario
from radrm.lab.simulator.traces.job import TraceJob
from radrm.lab.simulator.traces.trace import read_trace, trace_lines
from radrm.structs import replace
from tests.lab.simulator.engine.puppets import AT_ONCE, Puppet, played
from tests.lab.simulator.traces import drawn, job, scenario


def cpu_job(submit_s: float, duration_s: float, cpus: float = 1.0, **more: Any) -> TraceJob:
    return job(submit_s, duration_s, 100.0, 0.0, gpus=0, cpus=cpus, **more)


def one_cpu(**changes: Any) -> Scenario:
    return scenario(life=AT_ONCE, cpus=1.0, **changes)


def ends(run: Run) -> list[float]:
    return [each.ended_s or -1.0 for each in run.jobs]


def test_jobs_share_the_cpus_equally_and_none_idles() -> None:
    run = simulate([cpu_job(0, 100), cpu_job(0, 50)], one_cpu())
    assert ends(run) == [pytest.approx(150), pytest.approx(100)]


def test_what_a_job_cannot_use_goes_to_the_others() -> None:
    run = simulate([cpu_job(0, 100, 0.2), cpu_job(0, 80)], one_cpu())
    assert ends(run) == [pytest.approx(100), pytest.approx(100)]


def test_without_cpus_in_the_scenario_nobody_waits_for_them() -> None:
    run = simulate([cpu_job(0, 100), cpu_job(0, 50)], replace(one_cpu(), cpus=None))
    assert ends(run) == [pytest.approx(100), pytest.approx(50)]


def test_each_device_can_stand_for_a_server() -> None:
    jobs = [job(0, 100, smact=0.0, cpus=4.0) for _ in range(3)]
    found = scenario("rr", life=AT_ONCE, cpus=4.0, cpus_per_device=True)
    assert ends(simulate(jobs, found)) == [pytest.approx(t) for t in (200, 100, 200)]


def test_columns_of_zeros_change_nothing() -> None:
    jobs = drawn(1, 20)
    zeros = [replace(j, cpus=0.0, loss_k=0.0, report_s=0.0, checkpoint_s=0.0) for j in jobs]
    before, after = simulate(jobs, scenario()), simulate(zeros, scenario())
    assert ends(before) == ends(after) and before.devices == after.devices


def test_a_loop_that_reports_decides_the_same_without_contention() -> None:
    jobs = drawn(2, 20)
    reporting = [replace(j, cpus=2.0, loss_k=4.0, report_s=10.0, checkpoint_s=5.0) for j in jobs]
    before, after = simulate(jobs, scenario()), simulate(reporting, scenario())
    assert before.decisions == after.decisions
    assert ends(before) == [pytest.approx(end) for end in ends(after)]


# ------------------------------------------------------------------ planners


class Weigher(Puppet):
    """Gives the first job three times the weight of the others."""

    def act(self, view: View) -> Iterator[Proposal]:
        for each, attempt in view.running():
            self.seen.append((each.id, each.progress, attempt.host_use))
            weight = 3.0 if each.id == 1 else 1.0
            shares = tuple(replace(s, cpu_weight=weight) for s in attempt.placement.shares)
            if shares != attempt.placement.shares:
                yield SetShares(job_id=each.id, shares=shares)


class Capper(Puppet):
    """Caps every job at a quarter of a CPU."""

    def act(self, view: View) -> Iterator[Proposal]:
        for each, attempt in view.running():
            shares = tuple(replace(s, cpus=0.25) for s in attempt.placement.shares)
            if shares != attempt.placement.shares:
                yield SetShares(job_id=each.id, shares=shares)


class Mover(Puppet):
    """Moves the first job to the second device when 40 s have passed."""

    def act(self, view: View) -> Iterator[Proposal]:
        for each, attempt in view.running():
            here = attempt.placement
            away = view.devices()[1].uuid
            if view.now.boot_s >= 40 and each.target is None and here.devices != (away,):
                shares = tuple(replace(s, device=away) for s in here.shares)
                yield Migrate(job_id=each.id, placement=replace(here, shares=shares))


def test_weights_divide_the_cpus_and_reports_tell_what_was_used() -> None:
    planner = Weigher()
    jobs = [cpu_job(0, 75, loss_k=2.0, report_s=5.0), cpu_job(0, 75, loss_k=2.0, report_s=5.0)]
    run = played(jobs, one_cpu(), planner)
    assert ends(run) == [pytest.approx(100), pytest.approx(150)]
    told = [(p, use) for job_id, p, use in planner.seen if job_id == 1 and p is not None]
    progress, use = told[-1]
    assert progress.loss == pytest.approx(exp(-2.0 * progress.work_done))
    assert use.cpu_s == pytest.approx(progress.work_done * 75)


def test_caps_let_cpus_idle() -> None:
    run = played([cpu_job(0, 10), cpu_job(0, 10)], one_cpu(), Capper())
    assert ends(run) == [pytest.approx(40)] * 2


def test_a_moved_job_goes_on_from_what_it_had_saved() -> None:
    core = {"smact_warm_s": 0.0, "smact_after_exit_s": 0.0}
    here = scenario(life=replace(AT_ONCE, start_up_s=10.0, restart_s=20.0), core=core)
    run = played([job(0, 110, checkpoint_s=5.0)], here, Mover())
    (found,) = run.jobs
    first, second = found.attempts
    # It computes from 10 s on, is asked at 40 s and has saved 30 s of work at 45 s.
    assert (first.outcome, second.outcome) == (Outcome.PREEMPTED, Outcome.COMPLETED)
    assert (first.solo_s, second.solo_s) == (pytest.approx(30), pytest.approx(70))
    assert (first.ended_s, second.devices) == (pytest.approx(45), (1,))
    assert found.ended_s == pytest.approx(45 + 20 + 70)


def test_a_job_that_cannot_save_is_not_moved() -> None:
    run = played([job(0, 110)], scenario(life=AT_ONCE), Mover())
    assert ends(run) == [pytest.approx(110)]
    assert len(run.jobs[0].attempts) == 1


# ------------------------------------------------------------------ traces


def test_a_trace_keeps_the_columns() -> None:
    jobs = [replace(job(), cpus=2.5, loss_k=4.0, report_s=10.0, checkpoint_s=3.0, line=2)]
    (found,) = read_trace(trace_lines(jobs), "t").jobs
    assert found == jobs[0]
    assert "cpus" not in next(iter(trace_lines([job()])))


@pytest.mark.parametrize("column", ["cpus", "loss_k", "report_s", "checkpoint_s"])
@pytest.mark.parametrize("cell", ["-1", "nan", "inf", "many"])
def test_a_wrong_cell_is_named(column: str, cell: str) -> None:
    rows = [f"submit_s,name,gpus,duration_s,memory_mib,smact,{column}", f"0,a,1,9,9,0.1,{cell}"]
    with pytest.raises(BadFile, match=rf"line 2: {column}"):
        read_trace(rows, "t")


def test_the_published_loop_refuses_what_it_does_not_have() -> None:
    with pytest.raises(UsageError, match="no checkpoints"):
        simulate([cpu_job(0, 10)], scenario(fidelity="published"))
