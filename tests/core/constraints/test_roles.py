"""All roles of a job together: compared with a search through all placements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, combinations, permutations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.constraints.feasibility import hopeless
from radrm.core.constraints.kinds import shortage_of
from radrm.core.constraints.placement import check_placement
from radrm.core.planning.placing import Placer
from radrm.core.proposals import ResizeTo
from radrm.core.records import Device, Estimate, Job, Needs, Placement, Role, Share
from radrm.core.words import Collocation, DeviceKind, JobState, Quantity
from radrm.policies.sharing import FirstFit, Magm
from radrm.structs import replace
from tests.core.placements import MPS, SLICE, WHOLE, on, propose, refused, server, start
from tests.examples import some
from tests.world import GIB, World, gpus

PROFILE = "1g.10gb"


def mixed(*sizes_gib: int) -> tuple[Device, ...]:
    return tuple(replace(d, total_mib=s * GIB) for d, s in zip(gpus(9), sizes_gib, strict=False))


def roles(*wanted: tuple[int, int, int]) -> tuple[Role, ...]:
    """Roles by their number of tasks, GPUs per task, and declared GiB per GPU."""
    return tuple(
        Role(f"r{i}", count, count, needs=Needs(gpus=each, gpu_memory_mib=gib * GIB or None))
        for i, (count, each, gib) in enumerate(wanted)
    )


# ------------------------------------------------------------------ examples


def test_the_role_that_can_choose_leaves_the_other_its_only_device() -> None:
    """The policy would give the first role the largest device."""
    world = World(mixed(40, 80))
    job = world.submit(roles=roles((1, 1, 10), (1, 1, 60)))
    assert world.where(job) == ("GPU-0", "GPU-1")


def test_the_policys_choice_stands_where_the_others_can_do_without_it() -> None:
    world = World(mixed(40, 60, 80, 80))
    job = world.submit(roles=roles((1, 1, 10), (1, 1, 70)))
    assert world.where(job) == ("GPU-3", "GPU-2")
    job = world.submit(roles=roles((1, 1, 10), (1, 1, 55)))
    assert world.where(job) == ("GPU-0", "GPU-1"), "GPU-3 is not warm"


def test_a_role_that_must_yield_keeps_the_devices_it_likes_best() -> None:
    world = World(mixed(40, 70, 80))
    job = world.submit(roles=roles((2, 1, 10), (1, 1, 60)))
    assert world.where(job) == ("GPU-2", "GPU-0", "GPU-1")


def test_three_roles_that_fit_in_pairs_may_not_fit_together() -> None:
    """Two roles want the two large devices, and a third one, too; a fourth device is no help."""
    world = World(mixed(80, 80, 40, 40))
    job = world.submit(roles=roles((1, 1, 60), (1, 1, 60), (1, 1, 60)))
    assert world.state(job) is JobState.FAILED
    assert job.reason == "it needs 3 GPUs, at most 2 here can run it"
    fits = world.submit(roles=roles((1, 1, 60), (1, 1, 60), (2, 1, 40)))
    assert world.state(fits) is JobState.RUNNING


def test_why_the_roles_do_not_find_devices_now() -> None:
    world = World(mixed(80, 80, 40))
    world.submit(60 * GIB, smact=0.1)
    job = world.submit(roles=roles((1, 1, 60), (1, 1, 60)))
    (last,) = [r for r in world.scheduler.why_waiting(job.id, world.now) if r.rule == "count"]
    assert (last.needed, last.available) == (2, 1)


@pytest.mark.parametrize(
    "gib, mode, rule",
    [
        (20, SLICE, None),
        (21, SLICE, "capacity"),
        (20, WHOLE, None),
        (21, WHOLE, "capacity"),
    ],
)
def test_two_tasks_on_a_device_need_the_sum(gib: int, mode: Collocation, rule: str | None) -> None:
    world = server(*gpus(1))
    pair = (Role("a", needs=Needs()), Role("b", needs=Needs()))
    job = world.submit(gib * GIB, roles=pair)
    shares = tuple(Share("GPU-0", gib * GIB, role=name) for name in "ab")
    assert refused(world, job, Placement(shares, mode)) == rule


def test_two_tasks_on_a_device_book_enough_together_and_each_is_checked() -> None:
    world = server(*gpus(1))
    pair = (Role("a", needs=Needs(mig_profile=PROFILE)), Role("b", needs=Needs()))
    job = world.submit(10 * GIB, roles=pair)
    shares = tuple(Share("GPU-0", 5 * GIB, role=name) for name in "ab")
    assert refused(world, job, Placement(shares, SLICE)) == "kind", "of the first role"
    job = world.submit(10 * GIB, roles=(Role("a"), Role("b")))
    assert refused(world, job, Placement(shares, SLICE)) == "reservation"
    start(world, world.submit(21 * GIB), on("GPU-0", mib=21 * GIB))
    world.read()
    full = tuple(replace(s, reserved_mib=10 * GIB) for s in shares)
    assert refused(world, job, Placement(full, SLICE)) == "memory"


# ------------------------------------------------------------------ against a search of all


def all_ways(
    wanted: list[tuple[int, frozenset[str]]], free: frozenset[str]
) -> Iterator[tuple[str, ...]]:
    for way in permutations(sorted(free), sum(count for count, _ in wanted)):
        suits = [some for count, some in wanted for _ in range(count)]
        if all(uuid in some for uuid, some in zip(way, suits, strict=True)):
            yield way


wants = st.lists(
    st.tuples(st.integers(0, 2), st.frozensets(st.sampled_from("abcde"))), min_size=1, max_size=4
)


@given(wants)
@example([(1, frozenset("ab")), (1, frozenset("a"))])
@example([(1, frozenset("ab")), (1, frozenset("bc")), (1, frozenset("a")), (1, frozenset("b"))])
def test_an_assignment_is_found_if_there_is_one(wanted: list[tuple[int, frozenset[str]]]) -> None:
    short = shortage_of([(count, sorted(some)) for count, some in wanted])
    exists = any(True for _ in all_ways(wanted, frozenset("abcde")))
    assert (short is None) is exists
    if short is not None:
        # The numbers are of a group of roles that really lacks devices (Hall's condition).
        groups = chain.from_iterable(
            combinations(wanted, size) for size in range(1, len(wanted) + 1)
        )
        lacking = {
            (sum(count for count, _ in group), len(frozenset().union(*(s for _, s in group))))
            for group in groups
        }
        assert short in lacking and short[1] < short[0]


devices = st.lists(
    st.builds(
        lambda gib, mig, mps: {
            "total_mib": gib * GIB,
            "kind": DeviceKind.MIG if mig else DeviceKind.GPU,
            "profile": PROFILE if mig else None,
            "mps": mps and not mig,
        },
        st.sampled_from([20, 40, 80]),
        st.sampled_from([False, False, True]),
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
)
some_roles = st.lists(
    st.builds(
        lambda count, each, gib, mig: (
            count,
            Needs(gpus=each, gpu_memory_mib=gib, mig_profile=PROFILE if mig else None),
        ),
        st.sampled_from([1, 1, 1, 2]),
        st.sampled_from([1, 1, 1, 2]),
        st.sampled_from([None, 15 * GIB, 30 * GIB, 60 * GIB]),
        st.sampled_from([False, False, False, True]),
    ),
    min_size=1,
    max_size=3,
)


def placements(world: World, job: Job) -> Iterator[Placement]:
    """All placements with each task on devices of its own."""
    tasks = [
        (role, task, gpu)
        for role in job.spec.roles
        for task in range(role.count_min)
        for gpu in range(role.needs.gpus)
    ]
    uuids = [device.uuid for device in world.devices]
    for way in permutations(uuids, len(tasks)):
        shares = tuple(
            Share(uuid, world.devices[uuids.index(uuid)].capacity_mib, role=role.name, task=task)
            for uuid, (role, task, _) in zip(way, tasks, strict=True)
        )
        for mode in (WHOLE, SLICE, MPS, Collocation.MIG):
            yield Placement(shares, mode)


@settings(max_examples=some(150))
@given(
    devices,
    some_roles,
    st.sampled_from([Collocation.AUTO, Collocation.AUTO, WHOLE, SLICE, MPS]),
    st.sampled_from([None, None, 10 * GIB, 70 * GIB, 100 * GIB]),
    st.sampled_from([FirstFit(), Magm()]),
)
def test_a_job_is_hopeless_exactly_if_no_placement_on_idle_devices_exists(
    here: list[dict[str, object]],
    wanted: list[tuple[int, Needs]],
    wish: Collocation,
    estimate: int | None,
    policy: FirstFit | Magm,
) -> None:
    world = server(*(replace(d, **more) for d, more in zip(gpus(4), here, strict=False)))
    state = world.scheduler.state
    state.begin(world.now)
    job = Job(
        id=1,
        ticket="T",
        submitted=world.now,
        spec=replace(
            world.submit().spec,
            collocation=wish,
            roles=tuple(Role(f"r{i}", n, n, needs=e) for i, (n, e) in enumerate(wanted)),
        ),
        estimates=(Estimate(Quantity.MEMORY, estimate, estimate, "test"),) if estimate else (),
    )
    exists = any(check_placement(state, job, way) is None for way in placements(world, job))
    assert (hopeless(state, job) is None) is exists
    found = Placer(world.scheduler.view, policy, job, None).find().placement
    assert (found is not None) is exists
    if found is not None:
        assert check_placement(state, job, found) is None


# ------------------------------------------------------------------ resizing: tasks that stay

WORKERS = (Role(count_max=3, needs=Needs()),)


def workers(*gpus: int, gib: int = 20) -> Placement:
    return Placement(tuple(Share(f"GPU-{g}", gib * GIB, task=i) for i, g in enumerate(gpus)), SLICE)


def working(*on_gpus: int) -> tuple[World, Job]:
    """A job with a worker on each of these GPUs."""
    world = server(*gpus(3))
    job = world.submit(20 * GIB, roles=WORKERS, smact=0.1)
    return world, start(world, job, workers(*on_gpus))


def resize(world: World, job: Job, placement: Placement) -> str | None:
    refusal = propose(world, ResizeTo(job_id=job.id, placement=placement))
    return refusal.rule if refusal is not None else None


def drained(world: World) -> None:
    world.step(ev.DrainRequested(at=world.now, device="GPU-0", reason="fan"))


def unread(world: World) -> None:
    world.broken["GPU-0"] = "no answer"
    world.read()


def vanished(world: World) -> None:
    world.step(ev.DevicesSeen(at=world.now, devices=world.devices[1:]))


def vanished_before_a_restart(world: World) -> None:
    world.devices = world.devices[1:]
    world.restart()


def filled(world: World) -> None:
    """The worker has settled, and another job has what it gave back."""
    (job_id,) = world.scheduler.state.attempts
    world.used[job_id] = 4 * GIB
    world.read()
    world.pass_time(world.settings.settle_s + 1)
    world.read()
    start(world, world.submit(34 * GIB), on("GPU-0", mib=34 * GIB))
    world.read()


@pytest.mark.parametrize(
    "what", [drained, unread, vanished, vanished_before_a_restart, filled], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("answer", [True, False])
def test_a_task_that_stays_is_not_in_the_way_of_a_resize(
    what: Callable[[World], None], answer: bool
) -> None:
    world, job = working(0, 1)
    what(world)
    mine = world.reservations["job:1", "GPU-0"]
    world.obey = False
    assert resize(world, job, workers(0, 1, 2)) is None
    assert world.reservations["job:1", "GPU-0"] == mine, "nothing changes for it"
    asked = next(a for a in reversed(world.actions) if isinstance(a, act.Resize))
    if answer:
        placed = asked.target
        world.step(ev.Resized(at=world.now, job_id=job.id, serial=asked.serial, target=placed))
    else:
        world.step(ev.ActionFailed(at=world.now, action=asked, reason="no"))
    assert world.reservations["job:1", "GPU-0"] == mine
    assert (("job:1", "GPU-2") in world.reservations) is answer
    assert resize(world, job, workers(0)) == (None if answer else "pause")


def test_a_new_task_is_refused_where_a_kept_one_may_stay() -> None:
    world, job = working(0)
    drained(world)
    two = (Share("GPU-0", 20 * GIB), Share("GPU-0", 20 * GIB, task=1))
    assert resize(world, job, Placement(two, SLICE)) == "drained"
    world.step(ev.DrainRequested(at=world.now, device="GPU-0", reason=None))
    assert resize(world, job, Placement(two, SLICE)) is None
    assert world.reservations["job:1", "GPU-0"].mib == 40 * GIB
    world.read()
    assert resize(world, job, workers(0)) is None
    assert world.reservations["job:1", "GPU-0"].mib == 20 * GIB


def test_a_task_that_stays_keeps_its_shares() -> None:
    world, job = working(0)
    assert resize(world, job, workers(1, 2)) == "resize"
    assert resize(world, job, workers(0, 1, gib=30)) == "resize"
