"""`--sm-share`: the part of a GPU's SMs that a job may use as an MPS client, and books."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.constraints.proposal import check
from radrm.core.lifecycle.launching import start as launch
from radrm.core.proposals import SetShares, Start
from radrm.core.records import Share
from radrm.core.words import Collocation
from radrm.policies.packing import Packing
from radrm.structs import replace
from tests.core.placements import MPS, SLICE, WHOLE, on, refused, server, start
from tests.world import GIB, World, gpus

ON_MPS = on("GPU-0", mode=MPS)


def clients(**spec: Any) -> World:
    """A server whose first GPU has a client with this spec."""
    world = server(*gpus(2, mps=True))
    start(world, world.submit(GIB, **spec), ON_MPS)
    world.read()
    return world


BOOKED = [  # the share of the client that is there, that of the new job, and the rule against it
    (0.6, 0.4, None),
    (0.6, 0.41, "sm-share"),
    (1.0, 0.01, "sm-share"),
    (1.0, None, None),
    (None, 1.0, None),
]


@pytest.mark.parametrize("there, wanted, rule", BOOKED)
def test_clients_book_at_most_a_whole_gpu(
    there: float | None, wanted: float | None, rule: str | None
) -> None:
    world = clients(sm_share=there)
    assert refused(world, world.submit(GIB, sm_share=wanted), ON_MPS) == rule


def test_the_parts_add_up_over_all_clients_of_the_gpu() -> None:
    world = clients(sm_share=0.3)
    for _ in range(2):
        start(world, world.submit(GIB, sm_share=0.3), ON_MPS)
    job = world.submit(GIB, sm_share=0.2)
    world.read()
    assert refused(world, job, ON_MPS) == "sm-share"
    refusal = check(world.scheduler.state, Start(job_id=job.id, placement=ON_MPS))
    assert refusal.message == "needs 20% of its SMs, 10% are not booked"
    assert refused(world, job, on("GPU-1", mode=MPS)) is None


def test_a_share_that_leaves_may_be_booked_again() -> None:
    world = clients(sm_share=0.6)
    waiting = world.submit(GIB, sm_share=0.5)
    assert refused(world, waiting, ON_MPS) == "sm-share"
    world.end(1)
    world.read()
    assert refused(world, waiting, ON_MPS) is None


def test_nothing_is_booked_where_no_share_binds() -> None:
    """A time-sliced job is no client, whatever it declares."""
    world = server(*gpus(1))
    for _ in range(2):
        start(world, world.submit(GIB, sm_share=0.9), on("GPU-0", mode=SLICE))
        world.read()


GIVEN = [  # the share, the mode, the planner's fraction; the fraction of the attempt
    (0.3, MPS, None, 0.3),
    (0.3, MPS, 0.2, 0.2),
    (0.3, MPS, 0.5, 0.3),  # of an earlier attempt, before an edit
    (0.3, SLICE, None, None),
    (0.3, WHOLE, None, None),
    (None, MPS, 0.5, 0.5),
    (None, MPS, None, None),
]


@pytest.mark.parametrize("share, mode, given, expected", GIVEN)
def test_a_client_gets_its_share_and_a_planner_may_give_less(
    share: float | None, mode: Collocation, given: float | None, expected: float | None
) -> None:
    world = server(*gpus(1, mps=mode is MPS))
    job = world.submit(GIB, sm_share=share)
    state = world.scheduler.state
    state.begin(world.now)
    launch(state, replace(state.jobs[job.id], sm_fraction=given), on("GPU-0", mode=mode))
    assert state.attempts[job.id].placement.sm_fraction == expected


def test_no_planner_gives_more_than_the_share() -> None:
    world = clients(sm_share=0.3)
    world.scheduler.state.begin(world.now)
    for fraction, rule in ((0.2, None), (0.3, None), (0.31, "shares")):
        wish = SetShares(job_id=1, shares=(Share("GPU-0", GIB, sm_fraction=fraction),))
        assert world.live(1).placement.sm_fraction == 0.3
        found = check(world.scheduler.state, wish)
        assert (found.rule if found else None) == rule
    job = world.submit(GIB, sm_share=0.3)
    more = replace(ON_MPS, shares=(Share("GPU-0", GIB, sm_fraction=0.4),))
    assert refused(world, job, more) == "shares"


def test_the_launch_has_the_share() -> None:
    world = clients(sm_share=0.3)
    launched = [each for each in world.actions if isinstance(each, act.Launch)]
    assert [each.placement.sm_fraction for each in launched] == [0.3]


def test_only_a_waiting_job_gets_another_share() -> None:
    world = clients(sm_share=0.3)
    job = world.jobs[1]
    more = replace(job.spec, sm_share=0.9)
    wish = ev.EditRequested(at=world.now, job_id=1, spec=more, estimates=None, after=())
    assert "only while it waits" in (world.scheduler.refuse_edit(wish) or "")


def test_a_share_bounds_the_predicted_sm_activity_of_a_client_alone() -> None:
    world = server(*gpus(1, mps=True))
    told = world.submit(GIB, smact=0.8, sm_share=0.3)
    unknown = world.submit(GIB, sm_share=0.3)
    small = world.submit(GIB, smact=0.1, sm_share=0.3)
    assert [job.smact_in(MPS) for job in (told, unknown, small)] == [0.3, 0.3, 0.1]
    assert [job.smact_in(SLICE) for job in (told, unknown, small)] == [0.8, None, 0.1]


@pytest.mark.parametrize("mps, together", [(True, 2), (False, 1)])
def test_packing_counts_the_share_where_it_binds(mps: bool, together: int) -> None:
    """Two jobs of 80 % exceed a GPU, two with a share of 40 % of it do not."""
    world = World(gpus(1, mps=mps), policy=Packing())
    world.smact["GPU-0"] = 0.4 if mps else 0.8
    for _ in range(2):
        world.submit(GIB, smact=0.8, sm_share=0.4)
        world.read()
    assert sum(1 for job in world.jobs.values() if world.live(job) is not None) == together


def test_jobs_that_differ_in_their_share_alone_are_not_alike() -> None:
    """What a device offers to one job is kept for all jobs of the same need."""
    world = World(gpus(1, mps=True), policy=Packing())
    for share in (0.6, 0.5, 0.4):
        world.submit(GIB, smact=0.1, sm_share=share)
        world.read()
    live = [job.spec.sm_share for job in world.jobs.values() if world.live(job) is not None]
    assert live == [0.6]
    world.cancel(2)
    world.read()
    live = [job.spec.sm_share for job in world.jobs.values() if world.live(job) is not None]
    assert live == [0.6, 0.4]
