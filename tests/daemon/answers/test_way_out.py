"""The option that a waiting job is advised to change lets the job start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from radrm.core import events as ev
from radrm.core.records import Dependency, Job, Node
from radrm.core.settings import CoreSettings
from radrm.core.state.ledger import OUT_OF_SERVICE_S
from radrm.core.words import Collocation, Condition
from radrm.daemon.views.way_out import way_out
from radrm.policies.exclusive import Exclusive
from radrm.structs import replace
from tests.world import GIB, World, gpus

CORE = CoreSettings(smact_warm_s=0, smact_after_exit_s=0)


def told(world: World, job: Job) -> str | None:
    found = world.jobs[job.id]
    reasons = world.scheduler.why_waiting(job.id, world.now)
    return way_out(found, reasons, world.settings, len(world.devices))


def display(world: World) -> None:
    """A desktop on the only GPU, for long."""
    world.unmanaged["GPU-0"] = 642
    for _ in range(3):
        world.pass_time(OUT_OF_SERVICE_S)


def neighbour(world: World) -> None:
    world.hold(world.submit(30 * GIB, smact=0.1), held=False)


def drained(world: World) -> None:
    world.step(ev.DrainRequested(at=world.now, device="GPU-0", reason="fan"))


@pytest.mark.parametrize(
    ("before", "wish", "option", "edit"),
    [
        (
            display,
            {"collocation": Collocation.EXCLUSIVE},
            "--collocation=timeslice",
            {"collocation": Collocation.TIMESLICE},
        ),
        (display, {"max_slowdown": 1.2}, "--max-slowdown=none", {"max_slowdown": None}),
        (display, {"need": 60 * GIB}, "--gpu-memory=SIZE", None),
        (
            neighbour,
            {"collocation": Collocation.EXCLUSIVE},
            "--collocation=timeslice",
            {"collocation": Collocation.TIMESLICE},
        ),
        (neighbour, {"need": 20 * GIB}, "--gpu-memory=SIZE", None),
        (drained, {}, None, None),
        (drained, {"collocation": Collocation.EXCLUSIVE}, None, None),
    ],
)
def test_the_edit_that_is_told_lets_the_job_start(
    before: Callable[[World], None],
    wish: dict[str, Any],
    option: str | None,
    edit: dict[str, Any] | None,
) -> None:
    world = World(gpus(1), settings=CORE)
    before(world)
    need = wish.pop("need", GIB)
    job = world.submit(need, smact=0.1, **wish)
    assert world.jobs[job.id].state.waiting
    assert told(world, job) == option
    if edit is not None:
        assert world.edit(job, **edit) is None
        assert not world.jobs[job.id].state.waiting


def test_it_must_help_on_as_many_gpus_as_the_job_needs() -> None:
    world = World(gpus(2), settings=CORE)
    alone = world.submit(GIB, collocation=Collocation.EXCLUSIVE)
    world.submit(30 * GIB, smact=0.1)
    assert told(world, world.submit(20 * GIB, smact=0.1)) == "--gpu-memory=SIZE"
    world.cancel(3)
    both = world.submit(20 * GIB, smact=0.1, gpus=2)
    assert told(world, both) is None, f"job {alone.id} has one of them"


def test_host_resources_dates_and_other_jobs() -> None:
    world = World(gpus(1), settings=CORE, node=Node(cpus=8.0, memory_mib=64 * GIB))
    first = world.submit(GIB, smact=0.1, cpus=6.0, host_mib=60 * GIB)
    assert told(world, world.submit(GIB, smact=0.1, cpus=4.0)) == "--cpus=N"
    other = World(gpus(1), settings=CORE, node=Node(cpus=8.0, memory_mib=64 * GIB))
    other.submit(GIB, smact=0.1, host_mib=60 * GIB)
    assert told(other, other.submit(GIB, smact=0.1, host_mib=8 * GIB)) == "--memory=SIZE"
    follows = world.submit(GIB, after=(Dependency(first.id, Condition.OK),))
    assert told(world, follows) == "--after=none"
    later = world.submit(GIB, begin_s=world.now.wall_s + 3600)
    assert told(world, later) == "--begin=none"
    world.hold(later)
    assert told(world, later) is None


def test_a_type_that_is_out_of_service() -> None:
    a100, a6000 = gpus(2)
    world = World((replace(a100, name="NVIDIA A100"), replace(a6000, name="A6000")), settings=CORE)
    world.step(ev.DrainRequested(at=world.now, device="GPU-1", reason="fan"))
    job = world.submit(GIB, gpu_types=("a6000",))
    assert told(world, job) == "--gpu-type=any"
    world.edit(job, gpu_types=())
    assert world.where(job) == ("GPU-0",)


def test_a_site_of_idle_gpus_has_no_way_out() -> None:
    settings = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, whole_devices=True)
    world = World(gpus(1), settings=settings, policy=Exclusive())
    display(world)
    assert told(world, world.submit(GIB)) is None
