"""DLRover through `step`: sample, optimize and adjust (sections 4.1 to 4.3 and 5.4)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.records import Job, Needs, Role
from radrm.core.words import JobState, Resizing
from radrm.published.dlrover import DLRover
from radrm.published.servers.layout import Layout
from tests.published.servers.cluster import POLICY, Cluster, Work
from tests.world import GIB


def dlrover(**settings: Any) -> DLRover:
    return DLRover(POLICY, POLICY, **settings)


def training(w: float, s: float, parts: tuple[float, ...] = ()) -> Any:
    """A worker uses w CPUs and makes a step each second; the servers use s CPUs for it.

    `parts`: how the updates are divided among the servers; empty: evenly.
    """

    def model(layout: Layout) -> Work:
        count = len(layout.servers)
        each = parts if len(parts) == count else (1 / count,) * count
        busy = [min(given, w) / w for given in layout.workers]
        wanted = [sum(busy) * s * part for part in each]
        slowed = min(
            1.0, *(given / want for given, want in zip(layout.servers, wanted, strict=True))
        )
        return Work(
            sum(busy) * slowed,
            Layout(tuple(want * slowed for want in wanted), tuple(w * each for each in busy)),
        )

    return model


WIDE_AND_DEEP, XDEEPFM = training(2.5, 5.7), training(19.4, 3.1)
SAMPLE = Layout((32.0,), (32.0,))


@pytest.mark.parametrize(
    ("model", "servers", "workers"),
    [(WIDE_AND_DEEP, (16.0,) * 8, (3.0,) * 24), (XDEEPFM, (16.0,) * 2, (20.0,) * 8)],
)
def test_a_sampled_job_gets_its_servers_then_its_workers(
    model: Any, servers: tuple[float, ...], workers: tuple[float, ...]
) -> None:
    cluster = Cluster(dlrover(worker_limit=1), model, 400.0)
    job = cluster.train()
    assert cluster.layout(job) == SAMPLE
    cluster.run(600)
    assert cluster.layouts(job) == [
        SAMPLE,
        Layout(servers, SAMPLE.workers),
        Layout(servers, workers),
    ]
    for earlier, later in pairwise(at for at, _, _ in cluster.history):
        assert later - earlier >= 60


def test_a_sample_lasts_a_hundred_steps_or_a_minute() -> None:
    fast = training(2.5, 5.7)
    cluster = Cluster(
        dlrover(), lambda layout: replace(fast(layout), speed=20 * fast(layout).speed), 400.0
    )
    job = cluster.train()
    cluster.run(30)
    assert len(cluster.layout(job).servers) == 8, "100 steps came first"
    cluster = Cluster(dlrover(), fast, 400.0)
    job = cluster.train()
    cluster.run(60)
    assert cluster.layout(job) == SAMPLE
    cluster.run(30)
    assert len(cluster.layout(job).servers) == 8


def test_a_job_that_makes_no_step_yet_is_not_sampled() -> None:
    # Building a graph takes a hundred seconds (6.3), in which next to no CPU is used.
    work = training(2.5, 5.7)

    def model(layout: Layout) -> Work:
        found: Work = work(layout)
        if cluster.boot_s > begins_s:
            return found
        return Work(0.0, Layout((0.1,) * len(layout.servers), (0.1,) * len(layout.workers)))

    cluster = Cluster(dlrover(worker_limit=1), model, 400.0)
    begins_s = cluster.boot_s + 200
    job = cluster.train()
    cluster.run(250)
    assert cluster.layout(job) == SAMPLE
    cluster.run(400)
    assert cluster.layout(job) == Layout((16.0,) * 8, (3.0,) * 24)


def test_at_least_a_minute_lies_between_two_changes() -> None:
    def fast(layout: Layout) -> Work:
        found = XDEEPFM(layout)
        return replace(found, speed=20 * found.speed)

    cluster = Cluster(dlrover(), fast, 400.0)
    job = cluster.train()
    cluster.run(600)
    changes = [at for at, _, _ in cluster.history][1:]
    assert len(changes) >= 2 and cluster.layout(job).counts[1] >= 8
    assert all(later - earlier >= 60 for earlier, later in pairwise(changes))


def test_a_sampled_server_above_nine_tenths_gets_more_and_is_sampled_again() -> None:
    cluster = Cluster(dlrover(), training(4.0, 20.0), 40.0)
    blocker = cluster.submit(gpus=0, cpus=26)
    job = cluster.train()
    assert cluster.layout(job) == Layout((7.0,), (7.0,))
    cluster.end(blocker)
    cluster.run(80)
    assert cluster.layout(job) == Layout((14.0,), (7.0,))
    assert cluster.asked(act.Resize) == [], "CPUs change in place"


def test_a_hot_server_gets_its_cpus_in_place() -> None:
    uneven = training(2.5, 5.7, parts=(0.09,) * 6 + (0.23,) * 2)
    cluster = Cluster(dlrover(worker_limit=1), uneven, 400.0)
    job = cluster.train()
    cluster.run(180)
    resizes = len(cluster.asked(act.Resize))
    before = cluster.model(cluster.layout(job)).speed
    cluster.run(120)
    # 24 workers need 5.7 * 24 * 0.23 CPUs of it.
    assert cluster.layout(job).servers == (16.0,) * 6 + (32.0,) * 2
    assert len(cluster.asked(act.Resize)) == resizes
    assert cluster.model(cluster.layout(job)).speed > 1.3 * before


def test_servers_that_are_all_busy_are_not_hot() -> None:
    cluster = Cluster(dlrover(), training(2.5, 5.7), 2000.0)
    job = cluster.train()
    cluster.run(1200)
    assert set(cluster.layout(job).servers) == {16.0}


def beyond_quota(*cpus: float) -> tuple[Cluster, Job]:
    """A job that was planned for 60 CPUs, and whose servers had idle ones for more workers."""

    def model(layout: Layout) -> Work:
        # One worker alone needs more of the servers than each of several does.
        return training(4.0, 2.0 if len(layout.workers) == 1 else 1.2)(layout)

    cluster = Cluster(dlrover(quota=60.0), model, *cpus)
    job = cluster.train()
    cluster.run(400)
    return cluster, job


def test_idle_servers_get_workers_beyond_the_quota_with_a_low_weight() -> None:
    cluster, job = beyond_quota(200.0)
    planned, last = cluster.layouts(job)[2], cluster.layout(job)
    assert planned == Layout((16.0,), (4.0,) * 10)
    # 16 CPUs serve 13.3 workers that need 1.2 each.
    assert last == Layout((16.0,), (4.0,) * 14)
    attempt = cluster.live(job)
    weights = {s.task: s.cpu_weight for s in attempt.placement.shares if s.role == "worker"}
    assert weights == {at: None if at < 11 else 0.1 for at in range(14)}


def test_workers_beyond_the_quota_go_first_when_a_job_waits_for_cpus() -> None:
    cluster, job = beyond_quota(72.0)
    assert cluster.layout(job) == Layout((16.0,), (4.0,) * 14)
    waiting = cluster.submit(gpus=0, cpus=6)
    assert cluster.layout(job).workers == (4.0,) * 12, "two of them have what it lacks"
    assert cluster.state(waiting) is JobState.RUNNING
    other = cluster.submit(gpus=0, cpus=12)
    cluster.run(300)
    assert cluster.layout(job).workers == (4.0,) * 12, "no more than would help, and no growth"
    cluster.cancel(other)
    large = cluster.submit(gpus=0, cpus=6)
    assert cluster.layout(job).workers == (4.0,) * 11
    assert cluster.state(large) is JobState.RUNNING


def test_no_job_grows_while_another_waits_for_cpus() -> None:
    cluster = Cluster(dlrover(), WIDE_AND_DEEP, 128.0)
    job = cluster.train()
    waiting = cluster.submit(gpus=0, cpus=100)
    assert cluster.state(waiting) is JobState.PENDING
    cluster.run(600)
    assert cluster.layout(job).total <= SAMPLE.total
    cluster.cancel(waiting)
    cluster.run(600)
    assert cluster.layout(job).total > 110


def test_a_known_program_starts_with_the_last_plan() -> None:
    cluster = Cluster(dlrover(worker_limit=1), WIDE_AND_DEEP, 400.0)
    first = cluster.train(fingerprint="abc")
    cluster.run(400)
    planned = cluster.layout(first)
    cluster.end(first)
    again = cluster.train(fingerprint="abc")
    assert cluster.layout(again) == planned
    other = cluster.train(fingerprint="def")
    assert cluster.layout(other) == SAMPLE


def test_a_job_planned_for_less_than_its_quota_is_planned_anew_when_cpus_are_free() -> None:
    cluster = Cluster(dlrover(worker_limit=1), WIDE_AND_DEEP, 300.0)
    blocker = cluster.submit(gpus=0, cpus=200)
    job = cluster.train()
    cluster.run(600)
    assert cluster.layout(job).total <= 100
    cluster.end(blocker)
    cluster.run(600)
    assert cluster.layout(job) == Layout((16.0,) * 8, (3.0,) * 24)


def test_a_program_that_cannot_divide_its_parameters_keeps_its_servers() -> None:
    cluster = Cluster(dlrover(), WIDE_AND_DEEP, 400.0)
    job = cluster.train()
    cluster.obey = False
    cluster.run(90)
    (asked,) = cluster.asked(act.Resize, job)
    reason = "role ps has no load hook; call elastic.on_load in its program"
    cluster.step(ev.ActionFailed(at=cluster.now, action=asked, reason=reason))
    cluster.obey = True
    cluster.run(900)
    later = cluster.asked(act.Resize, job)[1:]
    assert later and all(len(each.target.tasks()) == 2 for each in later)
    assert {each.target.tasks()["ps"] for each in later} == {1}
    assert cluster.layout(job) == Layout((32.0,), (3.0,) * 6), "32 CPUs serve 5.6 workers"


def test_a_resize_that_fails_is_repeated_ever_more_rarely() -> None:
    cluster = Cluster(dlrover(), WIDE_AND_DEEP, 400.0)
    job = cluster.train()
    cluster.obey = False
    answered = 0
    for _ in range(360):
        cluster.run(10)
        for asked in cluster.asked(act.Resize, job)[answered:]:
            answered += 1
            failed = ev.ActionFailed(at=cluster.now, action=asked, reason="a worker hangs")
            cluster.step(failed)
    assert 3 <= answered <= 12, "in an hour"
    assert cluster.layout(job) == SAMPLE


def test_a_slow_server_moves_to_another_node() -> None:
    slow: set[str] = set()
    cluster = Cluster(dlrover(worker_limit=1), WIDE_AND_DEEP, 300.0, 60.0)

    def model(layout: Layout) -> Work:
        found = WIDE_AND_DEEP(layout)
        attempt = cluster.live(1)
        where = {(s.role, s.task): s.node for s in attempt.placement.shares}
        if len(layout.servers) < 8 or where["ps", 3] not in slow:
            return found
        # There server 3 needs twice the CPU time for a step, and all others wait for it.
        used = tuple(each * (0.8 if at == 3 else 0.4) for at, each in enumerate(found.used.servers))
        return replace(found, speed=0.4 * found.speed, used=Layout(used, found.used.workers))

    cluster.model = model
    job = cluster.train()
    cluster.run(500)
    layout = cluster.layout(job)
    attempt = cluster.live(job)
    here = next(s.node for s in attempt.placement.shares if (s.role, s.task) == ("ps", 3))
    slow.add(here)
    cluster.run(300)
    attempt = cluster.live(job)
    moved = {s.task: s.node for s in attempt.placement.shares if s.role == "ps"}
    assert moved[3] != here
    assert cluster.layout(job) == layout


def test_a_restart_at_any_time_changes_nothing() -> None:
    uneven = training(2.5, 5.7, parts=(0.09,) * 6 + (0.23,) * 2)
    through = Cluster(dlrover(), uneven, 400.0)
    whole = through.train()
    through.run(900)
    for each_s in (10.0, 70.0, 130.0):
        cluster = Cluster(dlrover(), uneven, 400.0)
        job = cluster.train()
        cluster.run(900, restart_each_s=each_s)
        assert cluster.layouts(job) == through.layouts(whole)


def test_other_jobs_start_as_by_default_and_keep_their_size() -> None:
    cluster = Cluster(dlrover(), WIDE_AND_DEEP, 64.0)
    plain = cluster.submit(30 * GIB)
    ranged = Role(count_min=1, count_max=2, needs=Needs(gpus=1, cpus=2, cpus_max=8))
    wide = cluster.submit(30 * GIB, roles=(ranged,), resizing=Resizing.LIVE)
    fixed = cluster.train(resizing=Resizing.NONE)
    cluster.run(900)
    assert cluster.where(plain) == ("GPU-0",)
    assert cluster.where(wide) == ("GPU-1",)
    assert cluster.layout(fixed) == Layout((1.0,), (1.0,))
    assert not cluster.asked(act.Resize) and not cluster.asked(act.ApplyShares)


def test_a_server_without_room_for_a_sample_starts_the_job_smaller() -> None:
    cluster = Cluster(dlrover(), WIDE_AND_DEEP, 8.0)
    job = cluster.train()
    assert cluster.layout(job) == Layout((4.0,), (4.0,))
    cluster.run(900)
    assert cluster.layout(job).total <= 8.0
    assert len(cluster.asked(act.Resize, job)) <= 2, "it does not go to and fro"
