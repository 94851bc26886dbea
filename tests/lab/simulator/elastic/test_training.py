"""Jobs with parameter servers and workers in virtual time, worked out by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from radrm.config import Config
from radrm.core.planning.requests import find_size, with_cpus
from radrm.core.proposals import Preempt, Proposal, ResizeTo, SetShares
from radrm.core.records import Needs, Node, Placement, Role
from radrm.core.view import View
from radrm.lab.simulator.elastic.training import (
    TrainingJob,
    TrainingRun,
    TrainingScenario,
    simulate_training,
)
from radrm.policies.exclusive import Exclusive
from radrm.simulated.training import Rates, TaskAt
from radrm.structs import replace
from radrm.wiring import make_rules
from tests.lab.simulator.engine.puppets import Puppet

ROLES = (
    Role("ps", 1, 4, needs=Needs(gpus=0, cpus=2.0, cpus_max=16.0)),
    Role("worker", 1, 8, needs=Needs(gpus=0, cpus=4.0, cpus_max=32.0)),
)


@dataclass(frozen=True)
class Linear:
    """A step per second for each CPU of a worker; a parameter server uses half of its CPUs."""

    def rates(self, tasks: Sequence[TaskAt]) -> Rates:
        workers = sum(task.cpus for task in tasks if task.role == "worker")
        used = tuple(t.cpus if t.role == "worker" else t.cpus / 2 for t in tasks)
        return Rates(workers, used, tuple(0.5 if t.role == "ps" else 0.1 for t in tasks))


def training_job(submit_s: float = 0.0, steps: float = 400.0, **more: Any) -> TrainingJob:
    return TrainingJob(submit_s, more.pop("name", "job"), Linear(), steps, ROLES, **more)


def scenario(cpus: float = 100.0, **changes: Any) -> TrainingScenario:
    usual = {"nodes": (Node(cpus=cpus),), "resize_s": 0.0, "report_s": 5.0}
    return TrainingScenario(**{**usual, **changes})


def run(
    jobs: Sequence[TrainingJob], found: TrainingScenario, planner: Puppet | None = None
) -> TrainingRun:
    planners = make_rules(Config()).planners
    return simulate_training(jobs, found, (*planners, *([planner] if planner else ())))


def ends(found: TrainingRun) -> list[float]:
    return [each.ended_s or -1.0 for each in found.jobs]


@dataclass(frozen=True)
class Script(Puppet):
    """Does with the first job what stands beside the time, once."""

    deeds: Sequence[tuple[float, Any]] = ()
    done: list[int] = field(default_factory=list)

    def act(self, view: View) -> Iterator[Proposal]:
        for job, attempt in view.running():
            self.seen.append((view.now.boot_s, job.id, job.progress, attempt.host_use))
            for number, (at_s, deed) in enumerate(self.deeds):
                if job.id == 1 and at_s <= view.now.boot_s and number not in self.done:
                    self.done.append(number)
                    yield deed(view, job, attempt)


def size(**counts: int) -> Any:
    def deed(view: View, job: Any, attempt: Any) -> Proposal:
        found = find_size(view, Exclusive(), Exclusive(), job, attempt, counts)
        assert isinstance(found, Placement), found
        return ResizeTo(job_id=job.id, placement=found)

    return deed


def cpus(each: float) -> Any:
    def deed(view: View, job: Any, attempt: Any) -> Proposal:
        wanted = {("worker", share.task): each for share in attempt.placement.shares}
        shares = with_cpus(attempt.placement, wanted).shares
        return SetShares(job_id=job.id, shares=shares)

    return deed


def preempt(view: View, job: Any, attempt: Any) -> Proposal:
    return Preempt(job_id=job.id)


def test_a_job_starts_at_its_smallest_size_and_ends_after_its_steps() -> None:
    found = run([training_job()], scenario())
    assert ends(found) == [pytest.approx(100)]
    (each,) = found.jobs
    assert [(s.count("ps"), s.count("worker")) for s in each.spans] == [(1, 1)]
    assert (each.queue_s, each.jct_s, each.attempts) == (0, pytest.approx(100), 1)
    assert each.spans[0].cpus == pytest.approx(5) and each.spans[0].allocated == 6


def test_a_job_waits_until_its_cpus_are_free() -> None:
    found = run([training_job(), training_job(10)], scenario(cpus=10))
    assert [each.queue_s for each in found.jobs] == [0, pytest.approx(90)]
    assert ends(found) == [pytest.approx(100), pytest.approx(200)]


def test_more_workers_take_the_time_of_a_resize() -> None:
    planner = Script(deeds=((20.0, size(worker=3)),))
    found = run([training_job()], scenario(standby_s=4.0, resize_s=6.0), planner)
    # 24 s at 4 steps a second, 6 s without, then 12 steps a second.
    assert ends(found) == [pytest.approx(30 + (400 - 96) / 12)]
    (each,) = found.jobs
    assert each.resizes == 1
    assert [span.steps_s for span in each.spans] == [4, 0, 12]
    assert all(a.until_s == b.from_s for a, b in pairwise(each.spans))


def test_tasks_run_on_all_servers_with_free_cpus() -> None:
    nodes = tuple(Node(f"n{number}", cpus=8.0) for number in range(3))
    planner = Script(deeds=((20.0, size(worker=5)),))
    found = run([training_job()], scenario(nodes=nodes), planner)
    (each,) = found.jobs
    tasks = each.spans[-1].tasks
    assert {task.node for task in tasks} == {"n0", "n1", "n2"}
    for node in ("n0", "n1", "n2"):
        assert sum(task.cpus for task in tasks if task.node == node) <= 8
    assert each.ended_s == pytest.approx(20 + (400 - 80) / 20)


def test_a_resize_that_nobody_waits_for_any_more_is_withdrawn() -> None:
    planner = Script(deeds=((20.0, size(worker=5)),))
    slow = scenario(standby_s=90.0, config=Config(core={"resize_limit_s": 30.0}))
    found = run([training_job()], slow, planner)
    assert (ends(found), found.jobs[0].resizes) == ([pytest.approx(100)], 0)


def test_new_cpus_apply_at_once() -> None:
    found = run([training_job()], scenario(), Script(deeds=((50.0, cpus(8.0)),)))
    assert ends(found) == [pytest.approx(75)]
    assert (found.jobs[0].shares, found.jobs[0].resizes) == (1, 0)


def test_reports_tell_steps_cpu_time_and_network_of_each_task() -> None:
    planner = Script(deeds=((20.0, size(worker=2)),))
    run([training_job()], scenario(), planner)
    seen = {at: (progress, use) for at, _, progress, use in planner.seen}
    progress, use = seen[16.0]
    assert (progress.step, progress.total) == (pytest.approx(60), 400)
    named = [(t.role, t.number, t.cpu_s, t.network) for t in use.tasks]
    assert named == [("ps", 0, pytest.approx(15), 0.5), ("worker", 0, pytest.approx(60), 0.1)]
    _, use = seen[31.0]
    assert [t.cpu_s for t in use.tasks] == [pytest.approx(c) for c in (10, 40, 40)]
    assert use.cpu_s == pytest.approx(20 * 5 + 90)


def test_a_preempted_job_goes_on_from_its_saved_steps() -> None:
    planner = Script(deeds=((20.0, preempt),))
    found = run([training_job()], scenario(save_s=5.0, start_s=3.0), planner)
    (each,) = found.jobs
    # It works from 3 s on, is asked at 20 s, has saved at 25 s, and works again from 28 s on.
    assert each.attempts == 2
    assert each.ended_s == pytest.approx(28 + (400 - 17 * 4) / 4)


def test_noise_changes_the_speed_from_report_to_report_and_repeats_with_its_seed() -> None:
    quiet = run([training_job(steps=4000)], scenario())
    noisy = scenario(noise=0.05, seed=3)
    one, again = (run([training_job(steps=4000)], noisy) for _ in range(2))
    other = run([training_job(steps=4000)], replace(noisy, seed=4))
    assert ends(one) == ends(again) != ends(other)
    assert ends(one) == [pytest.approx(ends(quiet)[0], rel=0.05)]


def test_a_job_that_nothing_can_start_ends_the_run_with_its_reason() -> None:
    found = run([training_job()], scenario(cpus=3))
    assert found.unfinished == 1
    assert "CPUs" in (found.jobs[0].reason or "")


def test_the_run_ends_at_its_limit() -> None:
    found = run([training_job()], scenario(until_s=60.0))
    assert (found.unfinished, found.jobs[0].ended_s) == (1, None)
