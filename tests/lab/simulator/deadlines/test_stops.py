"""Jobs that are stopped, save their work and go on from it: the cost, worked out by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.core.proposals import Migrate, Preempt, Proposal
from radrm.core.records import Profiled
from radrm.core.view import View
from radrm.core.words import JobState, Outcome
from radrm.lab.simulator.bounds import drawn
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.metrics import metrics
from radrm.lab.simulator.run import JobRun
from radrm.lab.simulator.scenario import Life, Scenario
from radrm.lab.simulator.traces.job import TraceJob
from radrm.simulated.spec import parse_servers
from radrm.structs import replace
from tests.examples import some
from tests.lab.simulator.engine.puppets import AT_ONCE, Puppet, played
from tests.lab.simulator.traces import job, scenario

QUICK = {"smact_warm_s": 0.0, "smact_after_exit_s": 0.0}


@dataclass(frozen=True)
class Stopper(Puppet):
    """Stops running jobs at some times (whole seconds); they wait behind the others."""

    times: tuple[int, ...] = ()

    def act(self, view: View) -> Iterator[Proposal]:
        for each, attempt in view.running():
            now_s = view.now.boot_s
            due = any(0 <= now_s - at < 1.0 for at in self.times)
            ran_s = now_s - attempt.launched.boot_s
            if due and ran_s >= 1.0 and each.state is JobState.RUNNING and not attempt.pending:
                yield Preempt(job_id=each.id, behind=True)


def one_gpu(life: Life) -> Scenario:
    return scenario("exclusive", "sim:1xA100-40GB", life=life, core=QUICK)


def saving(submit_s: float, duration_s: float, **more: object) -> TraceJob:
    return job(submit_s, duration_s, saves=True, **more)


def test_a_stopped_job_pays_for_its_save_and_its_restart_and_loses_nothing_else() -> None:
    life = replace(AT_ONCE, checkpoint_s=7.0, restart_s=20.0)
    run = played([saving(0, 100), saving(1, 50)], one_gpu(life), Stopper(times=(40,)))
    first, second = run.jobs
    one, two = first.attempts
    assert (one.outcome, one.ended_s, one.solo_s) == (Outcome.PREEMPTED, 47.0, pytest.approx(40))
    assert second.attempts[0].started_s == pytest.approx(47)
    assert (two.begun_s, two.solo_s) == (pytest.approx(40), pytest.approx(60))
    assert first.ended_s == pytest.approx(47 + 50 + 20 + 60)
    assert metrics(run).preemptions == 1


def test_the_cost_of_a_save_in_the_trace_comes_before_the_usual_one() -> None:
    life = replace(AT_ONCE, checkpoint_s=7.0)
    jobs = [job(0, 100, checkpoint_s=3.0), saving(1, 50)]
    run = played(jobs, one_gpu(life), Stopper(times=(40,)))
    assert run.jobs[0].attempts[0].ended_s == pytest.approx(43)


def test_a_job_that_had_nothing_to_save_starts_as_at_first() -> None:
    life = replace(AT_ONCE, start_up_s=30.0, checkpoint_s=0.0, restart_s=5.0)
    jobs = [saving(0, 130), saving(1, 50)]
    run = played(jobs, one_gpu(life), Stopper(times=(10,)))
    again = run.jobs[0].attempts[1]
    assert (again.begun_s, again.ended_s - again.started_s) == (0.0, pytest.approx(130))


def test_a_job_that_cannot_save_is_never_stopped() -> None:
    run = played([job(0, 100), job(1, 50)], one_gpu(AT_ONCE), Stopper(times=(20, 40)))
    assert [len(each.attempts) for each in run.jobs] == [1, 1]


def test_nothing_stops_without_a_planner_that_asks() -> None:
    jobs = [saving(0, 100), saving(1, 50)]
    plain = [replace(each, saves=False) for each in jobs]
    here = one_gpu(AT_ONCE)
    assert simulate(jobs, here).decisions == simulate(plain, here).decisions


times = st.lists(st.integers(1, 400), max_size=8, unique=True)
costs = st.sampled_from((0.0, 3.0, 25.0))


@settings(max_examples=some(40), deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(5, 200), st.booleans()), min_size=1, max_size=4
    ),
    times,
    costs,
    costs,
)
def test_work_is_done_once_whatever_is_stopped(
    jobs: list[tuple[int, int, bool]], stops: list[int], save_s: float, restart_s: float
) -> None:
    life = replace(AT_ONCE, checkpoint_s=save_s, restart_s=restart_s)
    trace = [job(at, seconds, saves=can) for at, seconds, can in sorted(jobs)]
    run = played(trace, one_gpu(life), Stopper(times=tuple(stops)))
    if len(stops) % 4 == 0:
        assert run == played(trace, one_gpu(life), Stopper(times=tuple(stops)))
    for each in run.jobs:
        assert each.ended_s is not None
        _check_work(each, save_s, restart_s)


def _check_work(each: JobRun, save_s: float, restart_s: float) -> None:
    """Each attempt goes on from the work of the one before: all of it was saved."""
    saved_s = 0.0
    for attempt in each.attempts:
        assert attempt.begun_s == pytest.approx(saved_s)
        took_s = attempt.ended_s - attempt.started_s
        restart = restart_s if attempt.begun_s else 0.0
        save = save_s if attempt.outcome is Outcome.PREEMPTED else 0.0
        assert attempt.solo_s <= took_s + 1e-6
        if attempt.solo_s > 0:
            assert took_s == pytest.approx(restart + attempt.solo_s + save, abs=1e-6)
        saved_s += attempt.solo_s
    assert saved_s == pytest.approx(each.job.duration_s)


@dataclass(frozen=True)
class Mover(Puppet):
    """Moves the first job to all GPUs of the second server when 100 s have passed."""

    def act(self, view: View) -> Iterator[Proposal]:
        there = [device for device in view.devices() if device.node == "server2"]
        for each, attempt in view.running():
            here = attempt.placement
            if view.now.boot_s >= 100 and each.target is None and len(here.shares) == 1:
                shares = tuple(
                    replace(here.shares[0], device=device.uuid, node=device.node, task=task)
                    for task, device in enumerate(there)
                )
                yield Migrate(job_id=each.id, placement=replace(here, shares=shares))


def test_a_job_moves_to_more_and_faster_gpus_with_its_work() -> None:
    profile = (Profiled("T4", 1, 250.0), Profiled("V100", 1, 100.0), Profiled("V100", 2, 50.0))
    life = replace(AT_ONCE, checkpoint_s=10.0, restart_s=20.0)
    here = Scenario(
        parse_servers("sim:1xT4-16GB/2xV100-32GB"), config=one_gpu(life).config, life=life
    )
    run = played([saving(0, 100, profile=profile)], here, Mover())
    first, second = run.jobs[0].attempts
    # 100 s at 0.4 of the pace of a V100, then 10 s to save; two V100s do the rest twice as fast.
    assert (first.ended_s, first.solo_s) == (pytest.approx(110), pytest.approx(40))
    assert (second.devices, second.begun_s) == ((1, 2), pytest.approx(40))
    assert second.ended_s == pytest.approx(110 + 20 + 60 / 2)
    # The bounds know the whole job, not only its last attempt.
    _, (solo,) = drawn(run, 0.0)
    assert (solo.loading_s, solo.least_s) == (pytest.approx(100), pytest.approx(50))
