"""A job on several GPUs gets idle ones that are near each other, if the policy has no better."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.core.planning.near import find_near
from radrm.core.records import Device, Job, Needs, Role
from radrm.core.rules import Ask, Policy
from radrm.core.view import Offer
from radrm.core.words import Collocation
from radrm.policies.exclusive import Exclusive
from radrm.policies.packing import Packing
from radrm.policies.sharing import BestFit, FirstFit, Lug, Magm, Mug, RoundRobin
from radrm.structs import replace
from tests.examples import some
from tests.world import GIB, World, gpus

POLICIES: tuple[Policy, ...] = (
    *(Exclusive(), RoundRobin(), Magm(), Lug(), Mug(), FirstFit(), BestFit(), Packing()),
)
PAIRS = (0, 0, 2, 2, 4, 4, 6, 6)


def placed(
    nvlink: tuple[int | None, ...] = (), numa: tuple[int | None, ...] = ()
) -> tuple[Device, ...]:
    count = max(len(nvlink), len(numa))
    return tuple(
        replace(
            device,
            nvlink_group=nvlink[device.index] if nvlink else None,
            numa_node=numa[device.index] if numa else None,
        )
        for device in gpus(count)
    )


def where(world: World, job: Job) -> tuple[int, ...]:
    attempt = world.live(job)
    return () if attempt is None else tuple(sorted(int(u[4:]) for u in attempt.placement.devices))


def start(devices: tuple[Device, ...], policy: Policy, busy: Sequence[int] = ()) -> World:
    """A world in which one job has each of the busy devices."""
    if isinstance(policy, RoundRobin):  # else it would share the busy devices
        policy = dataclasses.replace(policy, conditions=True)
    world = World(devices, policy=policy)
    for index in busy:
        job = world.submit(20 * GIB, smact=0.3, prefer_gpus=(str(index),))
        assert where(world, job) == (index,)
    return world


@pytest.mark.parametrize("policy", POLICIES[::4], ids=lambda policy: policy.name)
@pytest.mark.parametrize(
    ("nvlink", "numa", "busy", "gpus", "gets"),
    [
        (PAIRS, (), (), 2, (0, 1)),
        (PAIRS, (), (0,), 2, (2, 3)),
        (PAIRS, (), (0, 2, 5), 2, (6, 7)),
        ((), (0, 1, 0, 1), (), 2, (0, 2)),
        ((), (0, 0, 0, 0, 1, 1, 1, 1), (1,), 4, (4, 5, 6, 7)),
        (PAIRS, (0, 0, 0, 0, 1, 1, 1, 1), (1,), 4, (4, 5, 6, 7)),
        # NVLink comes before the NUMA node.
        ((0, 1, 1, 0), (0, 0, 1, 1), (), 2, (0, 3)),
        # Through an NVSwitch all are linked: then the NUMA node decides.
        ((0, 0, 0, 0), (0, 1, 0, 1), (), 2, (0, 2)),
        # The smallest group that has enough.
        ((), (0, 0, 0, 1, 1, 1), (5,), 2, (3, 4)),
        ((None, 1, 1), (), (), 2, (1, 2)),
    ],
)
def test_a_wide_job_gets_near_idle_gpus(
    policy: Policy,
    nvlink: tuple[int | None, ...],
    numa: tuple[int | None, ...],
    busy: tuple[int, ...],
    gpus: int,
    gets: tuple[int, ...],
) -> None:
    world = start(placed(nvlink, numa), policy, busy)
    assert where(world, world.submit(25 * GIB, gpus=gpus, smact=0.6)) == gets


@pytest.mark.parametrize(
    ("policy", "wide", "gets"),
    [
        # MUG wants the busy GPU, which no idle one equals.
        (Mug(), {"gpus": 2}, (0, 1)),
        (Magm(), {"gpus": 2, "avoid_gpus": ("2",)}, (1, 3)),
        (Magm(), {"gpus": 1}, (1,)),
        # No group has three.
        (Exclusive(), {"gpus": 3}, (1, 2, 3)),
    ],
)
def test_better_devices_and_preferences_come_before_near_ones(
    policy: Policy, wide: dict[str, Any], gets: tuple[int, ...]
) -> None:
    world = start(placed((0, 0, 2, 2)), policy, busy=(0,))
    assert where(world, world.submit(5 * GIB, smact=0.1, **wide)) == gets


def test_idle_gpus_of_one_type_differ_little() -> None:
    world = start(placed((0, 2, 2)), Magm())
    world.unmanaged["GPU-2"] = 100
    world.read()
    assert where(world, world.submit(5 * GIB, gpus=2, smact=0.1)) == (1, 2)


# The mesh of a DGX-1: the links of each pair of GPUs that has any. Each GPU has six.
DGX_1 = {
    pair: links
    for links, pairs in (
        (2, ((0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7))),
        (1, ((0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7))),
    )
    for pair in pairs
}


def meshed(pairs: dict[tuple[int, int], int], count: int = 8) -> tuple[Device, ...]:
    """GPUs with these links, the first half of them on NUMA node 0."""
    links: dict[int, list[tuple[int, int]]] = {index: [] for index in range(count)}
    for (one, other), number in pairs.items():
        links[one].append((other, number))
        links[other].append((one, number))
    return tuple(
        replace(d, nvlinks=tuple(sorted(links[d.index])), numa_node=2 * d.index // count)
        for d in gpus(count)
    )


@pytest.mark.parametrize("policy", POLICIES[::4], ids=lambda policy: policy.name)
@pytest.mark.parametrize(
    ("busy", "gpus", "gets"),
    [
        # Two links, and one NUMA node.
        ((), 2, (0, 3)),
        ((0,), 2, (1, 2)),
        # Two links before one NUMA node.
        ((2, 3, 5, 6, 7), 2, (0, 4)),
        ((0, 2, 4, 6), 2, (1, 5)),
        # All of them linked.
        ((), 4, (0, 1, 2, 3)),
        ((0,), 4, (4, 5, 6, 7)),
        ((3, 4, 5), 3, (0, 1, 2)),
        ((0, 1, 3, 5, 6), 2, (4, 7)),
    ],
)
def test_in_a_mesh_a_job_gets_gpus_with_the_most_links(
    policy: Policy, busy: tuple[int, ...], gpus: int, gets: tuple[int, ...]
) -> None:
    world = start(meshed(DGX_1), policy, busy)
    assert where(world, world.submit(25 * GIB, gpus=gpus, smact=0.6)) == gets


def test_meshes_of_two_servers_are_apart() -> None:
    """Both have GPUs 0 and 1, by the same numbers of links."""
    pairs = {(0, 1): 1, (0, 2): 2}
    here = [replace(d, name="A100") for d in meshed(pairs, 3)]
    there = [replace(d, uuid=f"{d.uuid}-b", node="b") for d in here]
    offers = [offered(device) for device in here + there]
    found = find_near([offers[1], offers[3]], offers)
    assert [offer.device.uuid for offer in found] in (["GPU-0", "GPU-2"], ["GPU-0-b", "GPU-2-b"])


@pytest.mark.parametrize(
    ("switches", "bridges", "numa", "busy", "gets"),
    [
        ((None, 1, 1, None), (), (), (), (1, 2)),
        # One switch before one host bridge before one NUMA node.
        ((0, 0, 2, 2), (0, 0, 0, 0), (0, 0, 0, 0), (0,), (2, 3)),
        ((None, None, 2, 2), (0, 0, None, None), (0, 0, 0, 0), (2,), (0, 1)),
        ((), (None, None, None, 0, 0), (0, 0, 0, 1, 1), (), (3, 4)),
        ((), (0, 1, 0, 1), (0, 0, 0, 0), (0,), (1, 3)),
    ],
)
def test_without_nvlink_the_nearest_pcie_device_counts(
    switches: tuple[int | None, ...],
    bridges: tuple[int | None, ...],
    numa: tuple[int | None, ...],
    busy: tuple[int, ...],
    gets: tuple[int, ...],
) -> None:
    count = max(len(switches), len(bridges), len(numa))
    devices = [
        replace(
            device,
            pcie_switch=switches[device.index] if switches else None,
            host_bridge=bridges[device.index] if bridges else None,
        )
        for device in placed((), numa or (None,) * count)
    ]
    world = start(tuple(devices), Exclusive(), busy)
    assert where(world, world.submit(25 * GIB, gpus=2, smact=0.6)) == gets


def test_nvlink_comes_before_pcie() -> None:
    devices = [replace(d, pcie_switch=d.index // 2) for d in placed((0, 1, 1, 0))]
    world = start(tuple(devices), Exclusive())
    assert where(world, world.submit(25 * GIB, gpus=2, smact=0.6)) == (0, 3)


def offered(device: Device) -> Offer:
    return Offer(
        device=device,
        mode=Collocation.TIMESLICE,
        idle=True,
        free_mib=device.capacity_mib,
        smact=0.0,
        smact_refusal=None,
        job_ids=(),
        refusal=None,
    )


LARGE, A6000 = {"total_mib": 80 * GIB}, {"name": "RTX A6000"}


@pytest.mark.parametrize(
    ("groups", "changes", "chosen", "found"),
    [
        ((0, 1, 1), {}, (0, 1), (1, 2)),
        ((0, 1, 1), {0: LARGE}, (0, 1), None),
        ((0, 1, 1), {0: A6000}, (0, 1), None),
        # The first two are of several types.
        ((0, 1, 0, 3), {1: A6000}, (0, 1), None),
        ((0, 1, 1, 0), {1: LARGE}, (0, 2), (0, 3)),
        # Devices of another server are not near.
        ((0, 1, 1), {2: {"node": "there"}}, (0, 1), None),
        # Unknown groups are no group.
        ((0, None, None), {}, (0, 1), None),
        # Of groups as large as each other, the one of the policy's best device.
        ((0, 0, 2, 2), {}, (3, 0), (2, 3)),
        ((0, 0, 2, 2), {}, (1, 2), (0, 1)),
    ],
)
def test_devices_that_are_as_good(
    groups: tuple[int | None, ...],
    changes: dict[int, dict[str, Any]],
    chosen: tuple[int, ...],
    found: tuple[int, ...] | None,
) -> None:
    offers = [offered(replace(d, **changes.get(d.index, {}))) for d in placed(groups)]
    near = find_near([offers[index] for index in chosen], offers)
    assert near == (None if found is None else [offers[index] for index in found])


@dataclass(frozen=True, slots=True)
class Asked(Magm):
    """Counts how often it chooses."""

    asked: list[int] = field(default_factory=list)

    def choose(
        self, ask: Ask, eligible: Sequence[Offer], state: Any
    ) -> tuple[Sequence[Offer], Any]:
        self.asked.append(len(eligible))
        return Magm.choose(self, ask, eligible, state)


@pytest.mark.parametrize(
    ("devices", "asked"),
    [
        (gpus(4), [4]),
        (placed((0, 0, 0, 0), (1, 1, 1, 1)), [4]),
        (placed((0, 1, 2, 3)), [4]),
        (placed((0, 1, 0, 3)), [4, 2]),
    ],
)
def test_without_groups_the_policy_chooses_once(
    devices: tuple[Device, ...], asked: list[int]
) -> None:
    policy = Asked()
    start(devices, policy).submit(GIB, gpus=2, smact=0.1)
    assert policy.asked == asked


group = st.one_of(st.none(), st.integers(0, 2))


@settings(max_examples=some(60), deadline=None)
@given(
    policy=st.sampled_from(POLICIES),
    groups=st.lists(st.tuples(group, group), min_size=6, max_size=6),
    busy=st.sets(st.integers(0, 5), max_size=3),
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=2),
    need_gib=st.sampled_from([5, 25]),
)
def test_nearness_changes_only_which_idle_gpus(
    policy: Policy,
    groups: list[tuple[int | None, int | None]],
    busy: set[int],
    sizes: list[int],
    need_gib: int,
) -> None:
    nvlink, numa = zip(*groups, strict=True)
    roles = tuple(Role(f"r{n}", needs=Needs(size, need_gib * GIB)) for n, size in enumerate(sizes))
    found = []
    for devices in (gpus(6), placed(nvlink, numa)):
        world = start(devices, policy, sorted(busy))
        job = world.submit(need_gib * GIB, smact=0.1, source="declared", roles=roles)
        found.append(where(world, job))
    plain, near = found
    assert len(near) == len(set(near)) == len(plain)
    if len(sizes) == 1:  # one role's devices change what is left for the next
        assert [index for index in near if index in busy] == [i for i in plain if i in busy]
    if sum(sizes) == 1:
        assert near == plain
