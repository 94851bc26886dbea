"""Jobs on GPUs that get another size in virtual time, worked out by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from radrm.core.planning.requests import find_size, with_cpus
from radrm.core.proposals import Proposal, ResizeTo, SetShares
from radrm.core.records import Placement, Refusal
from radrm.core.view import View
from radrm.core.words import Outcome
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.run import Run
from radrm.lab.simulator.scenario import Scenario
from radrm.lab.simulator.traces.job import TraceJob
from radrm.policies.exclusive import Exclusive
from radrm.simulated.spec import parse_servers
from radrm.structs import replace
from tests.lab.simulator.engine.puppets import AT_ONCE, Puppet, played
from tests.lab.simulator.traces import drawn, job, scenario

FREE = replace(AT_ONCE, standby_s=0.0, resize_s=0.0)
CORE = {"smact_warm_s": 0.0, "smact_after_exit_s": 0.0}


def elastic(submit_s: float = 0.0, duration_s: float = 400.0, **more: Any) -> TraceJob:
    return job(submit_s, duration_s, **{"gpus_max": 4, **more})


def four(**changes: Any) -> Scenario:
    return scenario("exclusive", "sim:4xA100-40GB", core=CORE, **{"life": FREE, **changes})


def ends(run: Run) -> list[float]:
    return [each.ended_s or -1.0 for each in run.jobs]


@dataclass(frozen=True)
class Sizer(Puppet):
    """Gives the first job so many workers from each time on, and notes what is reported."""

    sizes: tuple[tuple[float, int], ...] = ()

    def act(self, view: View) -> Iterator[Proposal]:
        for each, attempt in view.running():
            self.seen.append((view.now.boot_s, each.id, each.progress, attempt.host_use))
            wanted = [n for at_s, n in self.sizes if at_s <= view.now.boot_s]
            if each.id != 1 or not wanted or len(attempt.tasks) == wanted[-1]:
                continue
            counts = {"main": wanted[-1]}
            found = find_size(view, Exclusive(), Exclusive(), each, attempt, counts)
            if isinstance(found, Placement):
                yield ResizeTo(job_id=each.id, placement=found)


def test_a_job_that_only_computes_is_as_many_times_as_fast() -> None:
    run = played([elastic()], four(), Sizer(sizes=((100.0, 4),)))
    # 100 s of its 400 s of work at size one; the other 300 s by four.
    assert ends(run) == [pytest.approx(175)]
    (attempt,) = run.jobs[0].attempts
    assert [(at, len(devices)) for at, devices in attempt.sizes] == [(0, 1), (100, 4)]
    assert attempt.outcome is Outcome.COMPLETED and attempt.solo_s == pytest.approx(400)


def test_synchronisation_and_data_limit_what_more_workers_bring() -> None:
    parts = {"io_s": 1.0, "compute_s": 8.0, "sync_s": 0.5}
    run = played([elastic(duration_s=900, **parts)], four(), Sizer(sizes=((0.0, 2),)))
    # A step takes 9 s alone, and 1 + 4 + 0.5 s by two.
    assert ends(run) == [pytest.approx(900 * 5.5 / 9)]


def test_a_resize_lets_the_job_stand_still_when_its_new_workers_are_ready() -> None:
    life = replace(FREE, standby_s=20.0, resize_s=10.0)
    run = played([elastic()], four(life=life), Sizer(sizes=((100.0, 2), (200.0, 1))))
    # Until 120 at size one; from 130 at two until 220; from 230 at one.
    assert ends(run) == [pytest.approx(230 + 400 - 120 - 2 * 90)]
    (attempt,) = run.jobs[0].attempts
    assert [at for at, _ in attempt.sizes] == [0, 130, 230]
    assert attempt.sizes[0][1] == attempt.devices


def test_gpus_that_are_given_back_serve_others_when_the_resize_is_done() -> None:
    life = replace(FREE, standby_s=5.0, resize_s=10.0)
    jobs = [elastic(gpus_max=4), job(50, 100, gpus=1)]
    planner = Sizer(sizes=((10.0, 4), (100.0, 3)))
    run = played(jobs, four(life=life), planner)
    other = run.jobs[1].attempts[0]
    assert other.started_s == pytest.approx(115)
    assert not set(other.devices) & set(run.jobs[0].attempts[0].devices)


def test_memory_follows_the_workers() -> None:
    run = played([elastic(steady_mib=8000.0)], four(), Sizer(sizes=((100.0, 2), (150.0, 1))))
    used = [{step.at_s: step.memory_mib for step in device.steps} for device in run.devices]
    new = run.jobs[0].attempts[0].sizes[1][1][1]
    assert used[new][100.0] == pytest.approx(8000)
    assert used[new][150.0] == 0


def test_each_gpu_of_more_workers_is_less_active() -> None:
    parts = {"compute_s": 3.0, "sync_s": 1.0}
    run = played([elastic(smact=0.8, **parts)], four(), Sizer(sizes=((100.0, 3),)))
    at = run.jobs[0].attempts[0].devices[0]
    shown = {step.at_s: step.smact for step in run.devices[at].steps}
    # Alone a step of 3 s computes all the time; by three it takes 1 + 2 s, of which 1 s computes.
    assert shown[100.0] == pytest.approx(0.8 / 3)


def test_reports_tell_steps_data_wait_and_the_cpu_time_of_each_worker() -> None:
    found = elastic(duration_s=400, cpus=4.0, io_s=1.0, compute_s=3.0, report_s=10.0)
    planner = Sizer(sizes=((100.0, 3),))
    played([found], four(), planner)
    seen = {at: (progress, use) for at, _, progress, use in planner.seen}
    progress, use = seen[91.0]
    assert (progress.step, progress.total) == (pytest.approx(90 / 4), pytest.approx(100))
    assert progress.data_wait == pytest.approx(0.25)
    assert [each.cpu_s for each in use.tasks] == [pytest.approx(90)]
    progress, use = seen[111.0]
    assert progress.data_wait == pytest.approx(0.5)
    # New workers count anew: five steps of 2 s in 10 s, 4 CPU seconds each.
    assert [each.cpu_s for each in use.tasks] == [pytest.approx(20)] * 3
    assert use.cpu_s == pytest.approx(100 + 60)


@dataclass(frozen=True)
class Feeder(Puppet):
    """Gives every worker twelve CPUs at once: by shares, or by a resize to two workers."""

    grows: bool = False

    def act(self, view: View) -> Iterator[Proposal]:
        for each, attempt in view.running():
            shares = attempt.placement.shares
            if shares[0].cpus == 12:
                continue
            if not self.grows:
                shares = tuple(replace(share, cpus=12.0) for share in shares)
                yield SetShares(job_id=each.id, shares=shares)
                continue
            found = find_size(view, Exclusive(), Exclusive(), each, attempt, {"main": 2})
            if isinstance(found, Placement):
                cpus = {("main", 0): 12.0, ("main", 1): 12.0}
                yield ResizeTo(job_id=each.id, placement=with_cpus(found, cpus))


def test_more_cpus_shorten_the_wait_for_data_up_to_the_most() -> None:
    found = elastic(cpus=4.0, cpus_max=8.0, io_s=2.0, compute_s=2.0)
    assert ends(played([found], four(), Feeder())) == [pytest.approx(400 * 3 / 4)]


def test_the_scenario_s_cpus_are_booked_by_elastic_jobs() -> None:
    jobs = [elastic(cpus=4.0, cpus_max=8.0), elastic(cpus=4.0, cpus_max=8.0)]
    run = simulate(jobs, four(cpus=6.0))
    assert [each.attempts[0].started_s for each in run.jobs] == [0, pytest.approx(400)]


def test_with_the_usual_planner_a_job_keeps_its_smallest_size() -> None:
    jobs = drawn(3, 12)
    plain = simulate(jobs, scenario())
    sized = [replace(each, gpus_max=each.gpus + 2, compute_s=1.0, sync_s=0.1) for each in jobs]
    run = simulate(sized, scenario())
    assert ends(run) == [pytest.approx(end) for end in ends(plain)]
    assert all(not attempt.sizes for each in run.jobs for attempt in each.attempts)


# ------------------------------------------------------------------ what may come between


def test_a_resize_that_takes_too_long_is_withdrawn_and_the_job_works_on() -> None:
    core = {**CORE, "resize_limit_s": 50.0}
    found = scenario("exclusive", "sim:4xA100-40GB", core=core, life=replace(FREE, standby_s=60.0))
    planner = Sizer(sizes=((100.0, 4),))
    run = played([elastic(), job(120, 100, gpus=3)], found, planner)
    assert ends(run)[0] == pytest.approx(400)
    assert not run.jobs[0].attempts[0].sizes
    # The three GPUs are reserved for the growth until it is undone.
    assert run.jobs[1].attempts[0].started_s == pytest.approx(150)


def test_a_withdrawal_that_comes_while_the_job_stands_still_is_too_late() -> None:
    core = {**CORE, "resize_limit_s": 50.0}
    life = replace(FREE, standby_s=30.0, resize_s=40.0)
    found = scenario("exclusive", "sim:4xA100-40GB", core=core, life=life)
    run = played([elastic()], found, Sizer(sizes=((100.0, 2),)))
    (attempt,) = run.jobs[0].attempts
    assert [at for at, _ in attempt.sizes] == [0, 170]
    assert ends(run) == [pytest.approx(170 + (400 - 130) / 2)]


def test_a_job_that_ends_while_its_new_workers_begin_needs_none() -> None:
    life = replace(FREE, standby_s=60.0)
    run = played([elastic(duration_s=130)], four(life=life), Sizer(sizes=((100.0, 4),)))
    (attempt,) = run.jobs[0].attempts
    assert (attempt.ended_s, attempt.outcome) == (pytest.approx(130), Outcome.COMPLETED)


def test_a_restart_saves_stops_and_goes_on_at_the_new_size() -> None:
    life = replace(FREE, restarts=True, restart_s=20.0)
    run = played(
        [elastic(checkpoint_s=5.0)], four(life=life), Sizer(sizes=((100.0, 4), (150.0, 1)))
    )
    first, second, third = run.jobs[0].attempts
    assert [len(each.devices) for each in (first, second, third)] == [1, 4, 1]
    # Asked at 100 s, saved at 105 s; it works from 125 s to 150 s by four, and from 175 s alone.
    assert (first.outcome, first.solo_s) == (Outcome.PREEMPTED, pytest.approx(100))
    assert second.solo_s == pytest.approx(4 * 25)
    assert third.ended_s == pytest.approx(175 + 200)


class Asker(Puppet):
    """Notes what a second worker of the first job would get."""

    def act(self, view: View) -> Iterator[Proposal]:
        for each, attempt in view.running():
            if each.id == 1:
                found = find_size(view, Exclusive(), Exclusive(), each, attempt, {"main": 2})
                self.seen.append((view.now.boot_s, found))
        yield from ()


def test_workers_are_added_on_the_job_s_own_server() -> None:
    devices = parse_servers("sim:2*2xA100-40GB")
    planner = Asker()
    played([elastic(), job(0, 50)], replace(four(), devices=devices), planner)
    found = dict(planner.seen)
    beside, alone = found[20.0], found[60.0]
    assert isinstance(beside, Refusal), "the other GPU of its server has a job"
    assert isinstance(alone, Placement) and len({share.node for share in alone.shares}) == 1
