"""NEARCHUS through `step`: scale up, scale out and reassign (section IV)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.records import Job
from radrm.core.words import JobState
from radrm.published.nearchus import Nearchus
from radrm.published.servers.layout import Layout
from tests.published.servers.cluster import POLICY, Cluster, Work, roles

START = Layout((5.0,), (5.0, 5.0))


def nearchus(**settings: Any) -> Nearchus:
    return Nearchus(POLICY, POLICY, **settings)


def training(
    update: float = 0.1, most: float = 1000.0, network: float = 0.0, all_workers: float = 1000.0
) -> Callable[[Layout], Work]:
    """A CPU of a worker makes a step each second, and `update` CPUs of the servers go with it.

    `most`: the CPUs that one worker can use. `network`: what all steps of a second would take of
    one server's network; beyond it nothing is faster. `all_workers`: what all of them can use.
    """

    def model(layout: Layout) -> Work:
        count = len(layout.servers)
        able = [min(given, most) for given in layout.workers]
        speed = min(sum(able), all_workers)
        if update:
            speed = min(speed, count * min(layout.servers) / update)
        if network:
            speed = min(speed, count / network)
        part = speed / sum(able)
        used = tuple(each * part for each in able)
        servers = (speed * update / count,) * count
        return Work(speed, Layout(servers, used), (speed * network / count,) * count)

    return model


def started(model: Callable[[Layout], Work], *cpus: float, **settings: Any) -> tuple[Cluster, Job]:
    cluster = Cluster(nearchus(**settings), model, *(cpus or (100.0,)))
    return cluster, cluster.train()


def test_it_starts_with_a_part_of_its_budget_in_equal_parts() -> None:
    cluster, job = started(training())
    assert cluster.layout(job) == START
    cluster.run(290)
    assert cluster.layouts(job) == [START], "five samples of a minute"


def test_with_less_than_that_it_starts_with_what_is_free() -> None:
    cluster, job = started(training(), 9.0)
    assert cluster.layout(job) == Layout((3.0,), (3.0, 3.0))


def test_idle_cpus_of_a_server_go_to_the_workers_without_a_restart() -> None:
    cluster, job = started(training(update=0.1))
    cluster.run(400)
    given = cluster.layout(job)
    assert given.total == pytest.approx(15.0, abs=0.01)
    # In proportion to use: 1.0 and a tenth, and 10.
    assert given.servers[0] == pytest.approx(15 * 1.1 / 11.1, abs=0.01)
    assert cluster.asked(act.Resize) == []
    assert len(cluster.asked(act.ApplyShares)) == 1


def test_an_efficient_job_gets_half_more_in_proportion_until_its_budget() -> None:
    cluster, job = started(training(), budget=60.0)
    cluster.run(2400)
    totals = [layout.total for layout in cluster.layouts(job)]
    assert totals == pytest.approx([15, 15, 22.5, 33.75, 50.6, 60], abs=0.1)
    for before, after in pairwise(cluster.layouts(job)[1:5]):
        assert after.servers[0] / before.servers[0] == pytest.approx(1.5, abs=0.01)
    assert cluster.layout(job).counts == (1, 2)


def test_it_adds_at_most_what_is_free() -> None:
    cluster, job = started(training(), 20.0)
    cluster.run(1200)
    assert cluster.layout(job).total == pytest.approx(20.0, abs=0.01)
    assert not [why for each in cluster.decisions for _, why in each.rejections]


def test_it_does_not_grow_while_a_job_waits_for_cpus() -> None:
    cluster, job = started(training(), 30.0)
    waiting = cluster.submit(gpus=0, cpus=20)
    cluster.run(1200)
    assert cluster.layout(job).total == pytest.approx(15.0, abs=0.01)
    cluster.cancel(waiting)
    cluster.run(400)
    assert cluster.layout(job).total > 20


def test_an_efficient_job_that_waits_for_cpus_is_not_settled() -> None:
    # Without this it adds workers that gain nothing, three times, and is small for ever.
    cluster, job = started(training(), 30.0)
    waiting = cluster.submit(gpus=0, cpus=20)
    cluster.run(6000)
    assert cluster.layout(job).counts == (1, 2)
    cluster.cancel(waiting)
    cluster.run(1200)
    assert cluster.layout(job).total == pytest.approx(30.0, abs=0.01)


def test_workers_that_cannot_use_more_are_joined_by_one_with_an_even_part() -> None:
    cluster, job = started(training(most=6.0))
    cluster.run(800)
    before, after = cluster.layouts(job)[-2:]
    assert before.counts == (1, 2) and after.counts == (1, 3)
    assert after.servers == before.servers
    assert len(set(after.workers)) == 1
    assert sum(after.workers) == pytest.approx(sum(before.workers), abs=0.01)


def test_a_saturated_network_gets_another_server() -> None:
    cluster, job = started(training(update=0.5, network=0.11))
    cluster.run(800)
    layouts = cluster.layouts(job)
    before, after = next(pair for pair in pairwise(layouts) if pair[0].counts != pair[1].counts)
    assert before.counts == (1, 2) and after.counts == (2, 2)
    assert after.workers == before.workers
    assert sum(after.servers) == pytest.approx(sum(before.servers), abs=0.01)


def test_after_three_changes_without_gain_the_fastest_layout_stays() -> None:
    # No more than 12 CPUs' worth of steps, however many workers.
    cluster, job = started(training(all_workers=12.0))
    cluster.run(4000)
    layouts = cluster.layouts(job)
    speeds = [cluster.model(layout).speed for layout in layouts]
    assert layouts[-1].counts < layouts[-2].counts, "it went back"
    assert cluster.model(layouts[-1]).speed == pytest.approx(max(speeds))
    cluster.run(4000)
    assert cluster.layouts(job) == layouts
    assert cluster.scheduler.view.remarks(job.id) == ("nearchus: settled",)


def test_a_job_that_cannot_change_further_returns_to_its_fastest_layout() -> None:
    def model(layout: Layout) -> Work:
        # A third worker makes all of them slower, and there can be no fourth.
        found = training(most=6.0)(layout)
        return replace(found, speed=found.speed * (0.5 if len(layout.workers) == 3 else 1.0))

    cluster = Cluster(nearchus(), model, 15.0)
    job = cluster.train(roles=roles(1, 3))
    cluster.run(4000)
    counts = [layout.counts for layout in cluster.layouts(job)]
    assert (1, 3) in counts and counts[-1] == (1, 2)


def test_an_unstable_job_is_left_alone() -> None:
    steady, turn = training(), [0]

    def model(layout: Layout) -> Work:
        turn[0] += 1
        found = steady(layout)
        return replace(found, speed=found.speed * 1.01 ** turn[0])

    cluster, job = started(model)
    cluster.run(1800)
    assert cluster.layouts(job) == [START]


def test_fixed_cpus_grow_by_tasks() -> None:
    cluster = Cluster(nearchus(), training(update=0.9), 100.0)
    job = cluster.train(roles=roles(servers=1, workers=4, least=4.0, most=None))
    assert cluster.layout(job) == Layout((4.0,), (4.0, 4.0))
    cluster.model = training(update=0.2)
    cluster.run(3000)
    assert cluster.layout(job) == Layout((4.0,), (4.0,) * 4)
    assert cluster.asked(act.ApplyShares) == []


def test_a_job_whose_servers_are_fixed_gets_no_other_one() -> None:
    cluster, job = started(training(update=0.5, network=0.11))
    cluster.obey = False
    cluster.run(400)
    (asked,) = cluster.asked(act.Resize, job)
    assert asked.target.tasks()["ps"] == 2
    reason = "role ps has no load hook; call elastic.on_load in its program"
    cluster.step(ev.ActionFailed(at=cluster.now, action=asked, reason=reason))
    cluster.obey = True
    cluster.run(3000)
    assert cluster.layout(job).counts[0] == 1
    assert len(cluster.asked(act.Resize, job)) == 1


def test_a_restart_at_any_time_changes_nothing() -> None:
    model = training(most=6.0)
    through, whole = started(model)
    through.run(2400)
    for each_s in (10.0, 130.0, 310.0):
        cluster, job = started(model)
        cluster.run(2400, restart_each_s=each_s)
        assert cluster.layouts(job) == through.layouts(whole)


def test_a_change_that_is_never_answered_is_given_up_and_tried_again_later() -> None:
    cluster, job = started(training(most=6.0))
    cluster.run(500)
    layout = cluster.layout(job)
    cluster.obey = False
    cluster.run(250)
    (asked,) = cluster.asked(act.Resize, job)
    assert not asked.withdrawn and asked.target.tasks() == {"ps": 1, "worker": 3}
    cluster.run(700)
    withdrawn = cluster.asked(act.Resize, job)[-1]
    assert withdrawn.withdrawn
    cluster.step(ev.ActionFailed(at=cluster.now, action=withdrawn, reason="it was undone"))
    assert cluster.layout(job) == layout
    assert cluster.state(job) is JobState.RUNNING
    cluster.obey = True
    cluster.run(1000)
    assert cluster.layouts(job)[-1].counts > (1, 2)
