"""What both rules for parameter servers do: settings, gaps in numbers, several nodes, reasons."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from radrm.config import Config, parse_config
from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.records import Attempt, HostUse, Instant, Placement, Progress, Share, TaskUse
from radrm.core.words import Collocation, Resizing
from radrm.errors import BadConfig
from radrm.published.dlrover import DLRover
from radrm.published.nearchus import Nearchus
from radrm.published.servers.layout import Layout, Wish, laid_out, layout_of
from radrm.published.servers.notes import Meter, cpu_sums, networks
from radrm.structs import replace
from radrm.wiring import make_rules
from tests.published.servers.cluster import POLICY, Cluster, Work, roles
from tests.world import World


def steady(layout: Layout) -> Work:
    """Everybody uses what there is."""
    return Work(layout.total, layout)


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("[planners.dlrover]\nquota = 0", "quota = 0 is not from 1 to 1e+06"),
        ("[planners.dlrover]\ninterval_s = 0", "interval_s = 0 is not from 1 to 86400"),
        ("[planners.nearchus]\ngrowth = 11", "growth = 11 is not from 0.01 to 10"),
    ],
)
def test_a_setting_outside_its_range_is_refused_with_it(table: str, why: str) -> None:
    name = table.split("]")[0].rpartition(".")[2]
    config = parse_config(f'planner = "{name}"\n{table}', "radrm.toml")
    with pytest.raises(BadConfig, match=re.escape(why)):
        make_rules(config)


@pytest.mark.parametrize("name", ["dlrover", "nearchus"])
def test_each_starts_jobs_in_place_of_default(name: str) -> None:
    with pytest.raises(BadConfig, match="both start waiting jobs"):
        make_rules(dataclasses.replace(Config(), planner=("strict", name)))
    assert make_rules(dataclasses.replace(Config(), planner=(name,))).planners[0].starts_jobs


def shares(*tasks: tuple[str, int]) -> tuple[Share, ...]:
    return tuple(Share(None, role=role, task=task, cpus=1.0 + task) for role, task in tasks)


def test_tasks_are_known_by_number_also_with_gaps() -> None:
    placement = Placement(shares(("ps", 1), ("worker", 0), ("worker", 4)), Collocation.EXCLUSIVE)
    assert layout_of(placement) == Layout((2.0,), (1.0, 5.0))
    uses = (
        TaskUse("worker", 4, 40.0),
        TaskUse("ps", 1, 10.0, None, 0.5),
        TaskUse("worker", 0, 4.0),
    )
    now = World().now
    attempt = Attempt(1, 1, 1, placement, now, host_use=HostUse(now, tasks=uses))
    assert cpu_sums(attempt) == [[10.0], [4.0, 40.0]]
    assert networks(attempt) == [0.5]
    wish = Wish(Layout((3.0,), (6.0, 7.0)), {("worker", 1): 0.1}, {("ps", 0): "other"})
    found = {(s.role, s.task): s for s in laid_out(placement, wish).shares}
    assert [found["ps", 1].cpus, found["worker", 0].cpus, found["worker", 4].cpus] == [3, 6, 7]
    assert found["ps", 1].node == "other" and found["worker", 4].cpu_weight == 0.1


def test_a_task_whose_use_is_unknown_stops_the_count() -> None:
    placement = Placement(shares(("ps", 0), ("worker", 0)), Collocation.EXCLUSIVE)
    now = World().now
    some = HostUse(now, tasks=(TaskUse("ps", 0, 1.0),))
    assert cpu_sums(Attempt(1, 1, 1, placement, now, host_use=some)) is None
    assert cpu_sums(Attempt(1, 1, 1, placement, now)) is None


def test_a_count_begins_with_reports_that_came_after_the_change() -> None:
    world = World()
    job = world.submit()
    at = world.now
    placement = Placement(shares(("ps", 0), ("worker", 0)), Collocation.EXCLUSIVE)
    uses = (TaskUse("ps", 0, 1.0), TaskUse("worker", 0, 2.0))
    attempt = Attempt(1, 1, 1, placement, at, host_use=HostUse(at, tasks=uses))
    job = replace(job, progress=Progress(at, step=5.0))
    meter = Meter()
    assert not meter.begin(job, attempt, at.boot_s), "they may be of the processes before"
    assert meter.begin(job, attempt, at.boot_s - 1)
    later = Instant(at.boot_s + 10, at.wall_s + 10)
    uses = (TaskUse("ps", 0, 11.0), TaskUse("worker", 0, 42.0))
    attempt = replace(attempt, host_use=HostUse(later, tasks=uses))
    assert meter.rates(job, attempt) is None, "no report of steps since"
    job = replace(job, progress=Progress(later, step=25.0))
    found = meter.rates(job, attempt)
    assert (found.used, found.speed) == (Layout((1.0,), (4.0,)), 2.0)
    told_late = HostUse(Instant(later.boot_s + 9, later.wall_s + 9), tasks=uses, tasks_at=later)
    assert meter.rates(job, replace(attempt, host_use=told_late)) == found, "as old as it is"
    again = replace(attempt, host_use=HostUse(later, tasks=(TaskUse("ps", 0, 0.5), uses[1])))
    assert meter.rates(job, again) is None, "a task was started again"


def test_on_several_nodes_a_task_goes_where_there_is_room() -> None:
    cluster = Cluster(Nearchus(POLICY, POLICY), steady, 12.0, 14.0, 20.0)
    job = cluster.train()
    attempt = cluster.live(job)
    where = [share.node for share in attempt.placement.shares]
    assert where == ["node-2", "node-2", "node-1"], "the most free CPUs, after each of them"
    cluster.run(4000)
    for use in cluster.scheduler.snapshot.nodes:
        assert use.cpus_booked <= (use.node.cpus or 0.0)
    attempt = cluster.live(job)
    assert len({share.node for share in attempt.placement.shares}) == 3
    assert cluster.layout(job).total > 40, "of 46"
    assert not [why for each in cluster.decisions for _, why in each.rejections]


def why(cluster: Cluster, job: Any) -> list[str]:
    return [refusal.message for refusal in cluster.scheduler.why_size(job.id, cluster.now)]


def test_users_are_told_why_a_job_has_its_size() -> None:
    slow = Work(1.0, Layout((2.0,), (8.0,)))
    cluster = Cluster(DLRover(POLICY, POLICY, worker_limit=1), lambda has: slow, 100.0)
    job = cluster.train()
    unseen = "it has not reported its steps and the CPUs of its tasks with this size yet"
    assert why(cluster, job) == [unseen]
    cluster.run(40)
    assert why(cluster, job) == ["dlrover is sampling"]
    waiting = cluster.submit(gpus=0, cpus=90)
    assert why(cluster, job) == ["another job waits for CPUs"]
    cluster.cancel(waiting)
    fixed = cluster.train(resizing=Resizing.NONE)
    assert why(cluster, fixed) == []


def test_a_failed_change_is_told_with_when_the_next_one_may_come() -> None:
    cluster = Cluster(
        DLRover(POLICY, POLICY), lambda layout: Work(10.0, Layout((2.0,), (8.0,))), 200
    )
    job = cluster.train()
    cluster.obey = False
    cluster.run(60)
    assert why(cluster, job) == ["a resize of it is under way"]
    (asked,) = cluster.asked(act.Resize, job)
    cluster.step(ev.ActionFailed(at=cluster.now, action=asked, reason="it hangs"))
    assert why(cluster, job) == ["its last change has failed; the next one may come in 1m00s"]


def test_cpus_that_cannot_be_set_are_not_asked_for_again_and_again() -> None:
    cluster = Cluster(
        Nearchus(POLICY, POLICY), lambda has: Work(9.0, Layout((1.0,), (5.0, 5.0))), 100
    )
    job = cluster.train(roles=roles())
    cluster.obey = False
    cluster.run(400)
    (asked,) = cluster.asked(act.ApplyShares, job)
    cluster.step(ev.ActionFailed(at=cluster.now, action=asked, reason="no control groups"))
    cluster.run(4000)
    assert len(cluster.asked(act.ApplyShares, job)) == 1
    assert why(cluster, job) == ["the CPUs of a running job cannot be set on this server"]
