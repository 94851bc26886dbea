"""Each command that `explain` suggests for a waiting job lets it start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.core import events as ev
from radrm.core.records import DECLARED, Dependency, Estimate, Job, Node, UserReservation
from radrm.core.settings import CoreSettings
from radrm.core.state.ledger import OUT_OF_SERVICE_S
from radrm.core.units import parse_mib, parse_seconds
from radrm.core.words import Collocation, Condition, Quantity, Resizing
from radrm.daemon.views.way_out import way_out
from radrm.policies.exclusive import Exclusive
from radrm.policies.packing import Packing
from radrm.structs import replace
from tests.world import GIB, World, gpus

CORE = CoreSettings(smact_warm_s=0, smact_after_exit_s=0)


def told(world: World, job: Job) -> list[str]:
    """The commands, without `radrm` and the job that is edited."""
    found = world.jobs[job.id]
    reasons = world.scheduler.why_waiting(job.id, world.now)
    commands = way_out(world.scheduler, found, reasons, world.now)
    return [each.removeprefix(f"radrm edit {job.id} ") for each in commands]


def follow(world: World, job: Job, told: str) -> None:
    """Do what a command says."""
    if told.startswith("radrm "):
        _, command, label = told.split()
        if command == "cancel":
            world.cancel(int(label))
            world.pass_time(30)
        else:
            world.hold(world.jobs[int(label)], held=False)
        return
    name, _, text = told.removeprefix("--").partition("=")
    job = world.jobs[job.id]
    changes, estimates = EDITS[name](job, text), job.estimates
    quantity, value = changes.pop("declared", (None, 0.0))
    if quantity is not None:
        others = (each for each in estimates if each.quantity is not quantity)
        estimates = (Estimate(quantity, value, value, DECLARED), *others)
    assert world.edit(job, estimates=estimates, **changes) is None


def needing(job: Job, **needs: Any) -> dict[str, Any]:
    role = job.spec.roles[0]
    return {"roles": (replace(role, needs=replace(role.needs, **needs)),)}


def memory(job: Job, text: str) -> dict[str, Any]:
    mib = parse_mib(text)
    return {**needing(job, gpu_memory_mib=mib), "declared": (Quantity.MEMORY, mib)}


EDITS: dict[str, Callable[[Job, str], dict[str, Any]]] = {
    "gpu-memory": memory,
    "smact": lambda job, text: {"declared": (Quantity.SMACT, float(text))},
    "sm-share": lambda job, text: {"sm_share": int(text) / 100},
    "collocation": lambda job, text: {"collocation": Collocation(text)},
    "max-slowdown": lambda job, text: {"max_slowdown": None},
    "gpu-type": lambda job, text: {"gpu_types": ()},
    "cpus": lambda job, text: needing(job, cpus=float(text)),
    "memory": lambda job, text: needing(job, memory_mib=parse_mib(text)),
    "gpus": lambda job, text: needing(job, gpus=int(text)),
    "time": lambda job, text: {"time_limit_s": parse_seconds(text)},
    "after": lambda job, text: {"after": ()},
    "begin": lambda job, text: {"begin_s": None},
}


def display(world: World) -> None:
    """A desktop on the only GPU, for long."""
    world.unmanaged["GPU-0"] = 642
    for _ in range(3):
        world.pass_time(OUT_OF_SERVICE_S)


def neighbour(world: World) -> None:
    world.submit(30 * GIB, smact=0.1)


def colleague(world: World) -> None:
    world.submit(30 * GIB, smact=0.1, uid=1001, user="bob")


def own_lower(world: World) -> None:
    world.submit(30 * GIB, smact=0.1, priority=-5)


def busy_cpus(world: World) -> None:
    world.submit(GIB, smact=0.1, cpus=6.0, host_mib=60 * GIB)


def drained(world: World) -> None:
    world.step(ev.DrainRequested(at=world.now, device="GPU-0", reason="fan"))


def maintenance(world: World) -> None:
    """All GPUs are reserved in an hour."""
    start_s = world.now.wall_s + 3600
    found = UserReservation(0, ("GPU-0",), start_s, start_s + 3600)
    world.step(ev.ReserveRequested(at=world.now, reservation=found))


ALONE = {"collocation": Collocation.EXCLUSIVE}


@pytest.mark.parametrize(
    ("before", "wish", "commands"),
    [
        (display, ALONE, ["--collocation=timeslice"]),
        (display, {"max_slowdown": 1.2}, ["--max-slowdown=none"]),
        (display, {"need": 60 * GIB}, ["--gpu-memory=34.2G"]),
        (neighbour, ALONE, ["--collocation=timeslice"]),
        (neighbour, {"need": 20 * GIB}, ["--gpu-memory=8.0G"]),
        (neighbour, {"need": 60 * GIB}, []),  # a part that is too small to be of use
        (colleague, {"need": 20 * GIB, "priority": 1}, ["--gpu-memory=8.0G"]),
        (own_lower, {"need": 20 * GIB}, ["--gpu-memory=8.0G", "radrm cancel 1"]),
        (busy_cpus, {"cpus": 4.0}, ["--cpus=2"]),
        (busy_cpus, {"host_mib": 8 * GIB}, ["--memory=4.0G"]),
        (busy_cpus, {"cpus": 4.0, "host_mib": 8 * GIB}, []),
        (neighbour, {"gpus": 2}, []),  # the server has one: no job of two is taken
        (drained, {}, []),
        (drained, ALONE, []),
    ],
)
def test_each_command_that_is_told_lets_the_job_start(
    before: Callable[[World], None], wish: dict[str, Any], commands: list[str]
) -> None:
    def server() -> tuple[World, Job]:
        world = World(gpus(1), settings=CORE, node=Node(cpus=8.0, memory_mib=64 * GIB))
        before(world)
        asked = {"need": GIB, "smact": 0.1, "resizing": Resizing.NONE, **wish}
        return world, world.submit(asked.pop("need"), **asked)

    world, job = server()
    assert told(world, job) == commands
    for command in commands:
        world, job = server()
        assert world.jobs[job.id].state.waiting
        follow(world, job, command)
        assert not world.jobs[job.id].state.waiting, command


@pytest.mark.parametrize(
    ("held", "mps", "smact", "asked", "command"),
    [([8, 8], True, 0.6, GIB, "--smact=0.4"), ([35], False, 0.1, None, "--gpu-memory=3.0G")],
)
def test_less_than_is_assumed_of_it(
    held: list[int], mps: bool, smact: float, asked: int | None, command: str
) -> None:
    world = World(gpus(1, mps=mps), settings=CORE, policy=Packing())
    for gib in held:
        world.submit(gib * GIB, smact=smact)
    world.smact["GPU-0"] = smact * len(held)
    world.pass_time(90)
    job = world.submit(asked, source="declared", resizing=Resizing.NONE)
    assert told(world, job) == [command]
    follow(world, job, command)
    assert not world.jobs[job.id].state.waiting


def test_what_only_takes_a_job_out_of_its_wait() -> None:
    world = World(gpus(1), settings=CORE)
    first = world.submit(GIB, smact=0.1)
    follows = world.submit(GIB, after=(Dependency(first.id, Condition.OK),))
    assert told(world, follows) == ["--after=none"]
    later = world.submit(GIB, begin_s=world.now.wall_s + 3600)
    assert told(world, later) == ["--begin=none"]
    world.hold(later)
    assert told(world, later) == []


def test_it_must_help_on_as_many_gpus_as_the_job_needs() -> None:
    world = World(gpus(2), settings=CORE)
    world.submit(GIB, collocation=Collocation.EXCLUSIVE)
    world.submit(30 * GIB, smact=0.1)
    both = world.submit(20 * GIB, smact=0.1, gpus=2, resizing=Resizing.NONE)
    assert told(world, both) == []
    world.end(2)
    world.pass_time(30)
    assert told(world, both) == ["--gpus=1"], "job 1 has the other one"


def test_a_job_behind_another_starts_at_most_if_its_user_holds_that() -> None:
    world = World(gpus(1), settings=CORE)
    for _ in range(3):
        job = world.submit(30 * GIB, smact=0.1, resizing=Resizing.NONE)
    assert told(world, world.jobs[2]) == ["--gpu-memory=8.0G"]
    assert told(world, job) == []
    world.cancel(job)
    small, last = world.submit(GIB, smact=0.1), world.submit(GIB, smact=0.1)
    assert (told(world, small), told(world, last)) == (["radrm hold 2"], [])
    world.hold(2)
    assert not world.jobs[small.id].state.waiting
    others = world.submit(30 * GIB, smact=0.1, uid=1001, priority=1)
    behind = world.submit(GIB, smact=0.1)
    assert (others.state.waiting, told(world, behind)) == (True, [])


def test_a_type_that_is_out_of_service() -> None:
    a100, a6000 = gpus(2)
    world = World((replace(a100, name="NVIDIA A100"), replace(a6000, name="A6000")), settings=CORE)
    world.step(ev.DrainRequested(at=world.now, device="GPU-1", reason="fan"))
    job = world.submit(GIB, gpu_types=("a6000",))
    assert told(world, job) == ["--gpu-type=any"]
    world.edit(job, gpu_types=())
    assert world.where(job) == ("GPU-0",)


def test_a_site_of_idle_gpus_has_no_way_out() -> None:
    core = CoreSettings(smact_warm_s=0, smact_after_exit_s=0, whole_devices=True)
    world = World(gpus(1), settings=core, policy=Exclusive())
    display(world)
    assert told(world, world.submit(GIB)) == []


def test_a_shorter_time_where_a_reservation_comes() -> None:
    world = World(gpus(1), settings=CORE)
    maintenance(world)
    job = world.submit(GIB, smact=0.1)
    assert told(world, job) == ["--time=59m"]
    follow(world, job, "--time=59m")
    assert not world.jobs[job.id].state.waiting
    long = world.submit(GIB, smact=0.1, duration_s=7200.0)
    assert told(world, long) == [], "it needs two hours"


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 38), max_size=4),
    st.integers(1, 40),
    st.sampled_from([None, 0.3, 0.7, 1.0]),
    st.integers(1, 2),
    st.booleans(),
)
def test_no_command_is_told_in_vain(
    held: list[int], need: int, smact: float | None, count: int, packs: bool
) -> None:
    policy = Packing() if packs else None

    def server() -> tuple[World, Job]:
        world = World(gpus(2), settings=CORE, policy=policy)
        for number, gib in enumerate(held):
            world.submit(gib * GIB, smact=0.4, priority=100 - number)
        world.pass_time(60)
        asked = world.submit(
            need * GIB, smact=smact, gpus=count, priority=99, resizing=Resizing.NONE
        )
        return world, asked

    world, job = server()
    if not world.jobs[job.id].state.waiting:
        return
    for command in told(world, job):
        world, job = server()
        follow(world, job, command)
        assert not world.jobs[job.id].state.waiting, command
