"""The types of GPU that a job accepts, and the GPUs that it or the site has it use first."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core import events as ev
from radrm.core.constraints.kinds import Rank, is_named, rank
from radrm.core.planning.placing import Placer
from radrm.core.records import Device
from radrm.core.settings import CoreSettings
from radrm.core.state.ledger import OUT_OF_SERVICE_S
from radrm.core.words import Collocation, JobState
from radrm.policies.exclusive import Exclusive
from radrm.policies.sharing import Magm
from radrm.structs import replace
from tests.world import GIB, World, gpus

A100, A6000, A10 = "NVIDIA A100-SXM4-40GB", "NVIDIA RTX A6000", "NVIDIA A10"


def named(*names: str) -> tuple[Device, ...]:
    return tuple(replace(d, name=name) for d, name in zip(gpus(len(names)), names, strict=True))


def world_of(*names: str, order: tuple[str, ...] = (), **parts: Any) -> World:
    settings = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, gpu_order=order)
    return World(named(*names), settings=settings, **parts)


def uses(*where: int) -> tuple[str, ...]:
    return tuple(f"GPU-{index}" for index in where)


@pytest.mark.parametrize(
    ("name", "means"),
    [
        ("3", True),
        ("03", False),
        ("1", False),
        ("GPU-1a2b", True),
        ("gpu-1A2b", True),
        ("GPU-1a2b-9", True),
        ("GPU-2", False),
        ("1a2b", False),
        ("a100", True),
        ("a6000", False),
    ],
)
def test_a_name_is_a_type_an_index_or_the_beginning_of_a_uuid(name: str, means: bool) -> None:
    device = Device("GPU-1a2b-99", 3, A100, 40 * GIB)
    assert is_named(device, name) is means


# ------------------------------------------------------------------ types


def test_a_job_runs_on_the_types_that_it_accepts_only() -> None:
    world = world_of(A100, A6000, A10)
    assert world.where(world.submit(GIB, smact=0.1, gpu_types=("a6000", "a10"))) == uses(1)
    waits = world.submit(35 * GIB, smact=0.1, gpu_types=("a100",))
    assert world.where(waits) == uses(0)
    again = world.submit(35 * GIB, smact=0.1, gpu_types=("a100",))
    assert "kind" in world.why(again) and world.state(again) is JobState.PENDING


def test_an_unknown_type_is_refused_with_those_that_are_here() -> None:
    world = world_of(A100, A6000)
    world.step(ev.DrainRequested(at=world.now, device="GPU-1", reason="fan"))
    job = world.submit(GIB, gpu_types=("h100", "h200"))
    assert (job.state, job.reason) == (
        JobState.FAILED,
        f"no device here can run it ({A100}, {A6000}): it is not of GPU type h100 or h200",
    )


def test_a_misspelt_type_is_refused_with_the_nearest_name_here() -> None:
    job = world_of(A100, A6000).submit(GIB, gpu_types=("rtx_a600",))
    assert (job.reason or "").endswith(f"; the nearest here is {A6000}")


def test_a_type_that_is_drained_makes_nobody_else_wait() -> None:
    world = world_of(A100, A6000)
    world.step(ev.DrainRequested(at=world.now, device="GPU-1", reason="fan"))
    job = world.submit(GIB, smact=0.1, gpu_types=("a6000",))
    (why,) = world.scheduler.why_waiting(job.id, world.now)
    assert why.message == "needs 1 GPU of type a6000, 0 are in service (GPU 1: drained: fan)"
    assert world.state(world.submit(GIB, smact=0.1)) is JobState.RUNNING
    world.step(ev.DrainRequested(at=world.now, device="GPU-1", reason=None))
    assert world.where(job) == uses(1)


def test_more_gpus_of_a_type_than_there_are_can_never_run() -> None:
    world = world_of(A100, A6000, A6000)
    assert world.where(world.submit(GIB, gpus=2, gpu_types=("a6000",))) == uses(1, 2)
    job = world.submit(GIB, gpus=2, gpu_types=("a100",))
    assert (job.state, job.reason) == (
        JobState.FAILED,
        "it needs 2 GPUs, at most 1 here can run it",
    )


def test_an_estimate_is_compared_with_the_types_that_the_job_accepts() -> None:
    large, small = named(A100, A10)
    world = World((large, replace(small, total_mib=24 * GIB)))
    job = world.submit(30 * GIB, gpu_types=("a10",))
    attempt = world.live(job)
    assert attempt.placement.devices == uses(1)
    assert attempt.placement.collocation is Collocation.EXCLUSIVE


def test_a_limit_of_the_slowdown_makes_another_need() -> None:
    """Unmanaged processes keep such a job from ever being alone, and only that one waits."""
    settings = CoreSettings(smact_warm_s=0)
    world = World(gpus(1), settings=settings)
    world.hold(world.submit(30 * GIB))
    world.unmanaged["GPU-0"] = 15 * GIB
    for _ in range(3):
        world.pass_time(OUT_OF_SERVICE_S)
    blocked = [world.submit(38 * GIB, max_slowdown=limit) for limit in (None, 1.5)]
    assert [world.why(job)[0] for job in blocked] == ["memory", "service"]


def test_an_edit_to_an_unknown_type_is_refused() -> None:
    world = world_of(A100)
    job = world.submit(GIB)
    waits = world.submit(39 * GIB)
    assert "no device here can run it" in (world.edit(waits, gpu_types=("h100",)) or "")
    assert world.edit(waits, gpu_types=("a100",)) is None
    assert "only while it waits" in (world.edit(job, prefer_gpus=("0",)) or "")


# ------------------------------------------------------------------ preferences


@pytest.mark.parametrize(
    ("wish", "order", "where"),
    [
        ({}, (), uses(0)),
        ({}, ("a6000",), uses(1)),
        ({}, ("h100", "a6000", "a100"), uses(1)),
        ({}, ("2", "a6000"), uses(2)),
        ({"prefer_gpus": ("GPU-3",)}, ("a6000",), uses(3)),
        ({"prefer_gpus": ("a6000",)}, ("2",), uses(2)),
        ({"prefer_gpus": ("h100",)}, (), uses(0)),
        ({"avoid_gpus": ("a100",)}, (), uses(1)),
        ({"avoid_gpus": ("a6000",)}, ("a6000",), uses(0)),
        ({"avoid_gpus": ("nvidia",)}, ("3",), uses(3)),
        ({"gpu_types": ("a100",)}, ("a6000",), uses(0)),
        ({"gpus": 2}, ("a6000",), uses(1, 2)),
        ({"gpus": 2}, ("1",), uses(0, 2)),
        ({"gpus": 2, "prefer_gpus": ("3",), "avoid_gpus": ("a6000",)}, (), uses(3, 0)),
        ({"gpus": 3, "avoid_gpus": ("a6000",)}, (), uses(0, 3, 1)),
        ({"gpus": 4}, ("3", "2", "1"), uses(3, 2, 1, 0)),
        ({"gpus": 2, "prefer_gpus": ("3", "1")}, (), uses(3, 1)),
        ({"gpus": 2}, ("3", "1"), uses(3, 1)),
    ],
)
def test_a_job_uses_the_gpus_that_it_and_the_site_prefer(
    wish: dict[str, Any], order: tuple[str, ...], where: tuple[str, ...]
) -> None:
    """Several GPUs are equals where enough are; the job's own list comes before the site's."""
    world = world_of(A100, A6000, A6000, A100, order=order, policy=Exclusive())
    assert world.where(world.submit(GIB, **wish)) == where


def test_the_policy_chooses_among_equals_only() -> None:
    world = world_of(A100, A6000, A6000, order=("a6000",))
    where = [world.where(world.submit(4 * GIB, smact=0.1)) for _ in range(4)]
    assert where == [uses(1), uses(2), uses(1), uses(2)], "the A100 has the most free memory"


def test_a_preference_never_makes_a_job_wait() -> None:
    world = world_of(A100, A6000, order=("a6000",))
    wishes: dict[str, Any] = {"prefer_gpus": ("a6000",), "avoid_gpus": ("a100",)}
    assert world.where(world.submit(35 * GIB, smact=0.1, **wishes)) == uses(1)
    assert world.where(world.submit(35 * GIB, smact=0.1, **wishes)) == uses(0)


NAMES = st.lists(st.sampled_from(["0", "1", "2", "3", "a100", "a6000", "GPU-2"]), max_size=3)


@given(
    kinds=st.lists(st.sampled_from([A100, A6000]), min_size=2, max_size=5),
    wanted=st.integers(1, 5),
    prefer=NAMES,
    avoid=NAMES,
    last=st.sets(st.integers(0, 4)),
    order=NAMES,
)
def test_the_best_ranks_are_used_first(
    kinds: list[str],
    wanted: int,
    prefer: list[str],
    avoid: list[str],
    last: set[int],
    order: list[str],
) -> None:
    world = world_of(*kinds, order=tuple(order))
    wanted = min(wanted, len(kinds))
    job = world.submit(GIB, gpus=wanted, prefer_gpus=tuple(prefer), avoid_gpus=tuple(avoid))
    world.end(job)
    job = replace(job, use_last=uses(*sorted(last)))
    view = world.scheduler.view
    found = Placer(view, Magm(), job, None).find().placement
    assert len(found.devices) == wanted
    ranks = sorted(view.rank(job, device) for device in world.devices)
    used = sorted(view.rank(job, d) for d in world.devices if d.uuid in found.devices)
    assert [r.avoided for r in used] == [r.avoided for r in ranks[:wanted]]
    best = [r for r in ranks if r.avoided == ranks[0].avoided]
    named = [r for r in best if (r.own < len(prefer) if prefer else r.site < len(order))]
    if len(named) >= wanted:
        best = named
    equals = [r for r in best if ranks.count(r) >= wanted]
    assert used == ([equals[0]] * wanted if equals else ranks[:wanted])


# ------------------------------------------------------------------ a limit of the slowdown


@pytest.mark.parametrize("honours", [False, True])
def test_a_job_that_limits_its_slowdown_is_alone_unless_the_policy_keeps_to_it(
    honours: bool,
) -> None:
    settings = CoreSettings(smact_warm_s=0, honours_slowdown=honours)
    world = World(gpus(2), settings=settings)
    job = world.submit(GIB, smact=0.1, max_slowdown=1.3)
    other = world.submit(GIB, smact=0.1)
    world.submit(GIB, smact=0.1)
    alone = world.live(job).placement.collocation is Collocation.EXCLUSIVE
    assert alone is not honours
    assert world.where(other) == uses(1), "the other GPU has more memory"
    late = world.submit(GIB, smact=0.1, max_slowdown=1.3)
    assert (world.live(late) is None) is not honours
    if not honours:
        assert "not idle" in world.why(late)
        assert world.edit(late, max_slowdown=None) is None
        assert world.where(late) == uses(1)


def test_what_recovery_avoids_is_worse_than_what_the_submitter_avoids() -> None:
    first, second, third = gpus(3)
    job = World().submit(GIB, avoid_gpus=("0", "1"), prefer_gpus=("2", "1"))
    job = replace(job, use_last=("GPU-1",))
    found = [rank(device, job, ("1",)) for device in (first, second, third)]
    assert found == [Rank(1, 2, 1), Rank(2, 1, 0), Rank(0, 0, 1)]
