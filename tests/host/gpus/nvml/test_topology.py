"""Which GPUs NVML says are near each other; what it cannot say is unknown and no error."""

from __future__ import annotations

import pynvml
import pytest
from pytest_mock import MockerFixture

from radrm.core.records import Instant
from radrm.host.gpus.nvml import NvmlGpus, topology
from tests.host.gpus.nvml.driver import (
    LOST,
    NOT_SUPPORTED,
    UNKNOWN,
    Chip,
    Driver,
    instance,
    mig_gpu,
)

PAIR_CALL, NODE_CALL = "nvmlDeviceGetP2PStatus", "nvmlDeviceGetMemoryAffinity"


def chips(*links: str) -> list[Chip]:
    """GPUs `GPU-0`, `GPU-1`...; each word has the numbers of the GPUs that one is linked to."""
    return [
        Chip(uuid=f"GPU-{index}", linked=tuple(f"GPU-{other}" for other in linked))
        for index, linked in enumerate(links)
    ]


@pytest.mark.parametrize(
    ("links", "groups"),
    [
        (("1", "0", "3", "2"), [0, 0, 2, 2]),
        (("3", "", "", "0"), [0, None, None, 0]),
        (("123", "023", "013", "012"), [0, 0, 0, 0]),
        (("", "", "", ""), [None] * 4),
        # A ring: each is linked to two, but none to all.
        (("13", "02", "13", "02"), [None] * 4),
        # A ring beside a pair.
        (("1", "0", "35", "24", "35", "24"), [0, 0, None, None, None, None]),
    ],
)
def test_nvlink_groups(
    links: tuple[str, ...], groups: list[int | None], mocker: MockerFixture
) -> None:
    Driver(mocker, *chips(*links))
    assert [device.nvlink_group for device in NvmlGpus(pynvml).devices()] == groups


@pytest.mark.parametrize(
    ("numa", "node"),
    [((0,), 0), ((3,), 3), ((70,), 70), ((0, 1), None), ((), None), (None, None)],
)
def test_numa_nodes(numa: tuple[int, ...] | None, node: int | None, mocker: MockerFixture) -> None:
    Driver(mocker, Chip(numa=numa))
    (device,) = NvmlGpus(pynvml).devices()
    assert device.numa_node == node


@pytest.mark.parametrize("code", [NOT_SUPPORTED, UNKNOWN])
def test_an_error_means_unknown(code: int, mocker: MockerFixture) -> None:
    driver = Driver(mocker, *chips("1", "0"))
    driver.fails = {PAIR_CALL: code, NODE_CALL: code}
    gpus = NvmlGpus(pynvml)
    devices = gpus.devices()
    assert [(d.nvlink_group, d.numa_node) for d in devices] == [(None, None)] * 2
    assert gpus.problems == ()


def test_mig_instances_are_near_nothing(mocker: MockerFixture) -> None:
    first, second = (instance(f"MIG-{name}", "3g.20gb") for name in "ab")
    first.numa = second.numa = (0,)
    Driver(mocker, mig_gpu(first, second), *chips("1", "0"))
    found = [(d.uuid, d.nvlink_group, d.numa_node) for d in NvmlGpus(pynvml).devices()]
    assert found[:2] == [("MIG-a", None, None), ("MIG-b", None, None)]
    assert [group for _, group, _ in found[2:]] == [1, 1]


def test_it_is_asked_once_per_list_and_not_by_readings(mocker: MockerFixture) -> None:
    driver = Driver(mocker, *chips("123", "023", "013", "012"))
    gpus = NvmlGpus(pynvml)
    uuids = [device.uuid for device in gpus.devices()]
    for second in range(30):
        gpus.read(uuids, Instant(10.0 + second, 1000.0), {}.get)
    assert [driver.calls.count(each) for each in (PAIR_CALL, NODE_CALL)] == [6, 4]


def test_the_number_of_pairs_is_bounded(mocker: MockerFixture) -> None:
    driver = Driver(mocker, *chips(*["0"] * (topology.MOST_GPUS + 1)))
    assert {device.nvlink_group for device in NvmlGpus(pynvml).devices()} == {None}
    assert PAIR_CALL not in driver.calls


# ------------------------------------------------------------------ links


def meshed(*words: str) -> list[Chip]:
    """GPUs whose links end at the GPUs of each word: `.` is an inactive link, `s` a switch."""
    ends = {"s": "", ".": None}
    return [
        Chip(
            uuid=f"GPU-{index}",
            linked=tuple(f"GPU-{other}" for other in word if other.isdigit()),
            links=tuple(ends.get(end, f"GPU-{end}") for end in word),
        )
        for index, word in enumerate(words)
    ]


def links_of(mocker: MockerFixture, found: list[Chip]) -> list[tuple[object, object]]:
    Driver(mocker, *found)
    devices = NvmlGpus(pynvml).devices()
    return [(device.nvlink_group, dict(device.nvlinks)) for device in devices]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        # A square: pairs with more links than others.
        (
            ("112", "003", "330", "221"),
            [
                (None, {1: 2, 2: 1}),
                (None, {0: 2, 3: 1}),
                (None, {0: 1, 3: 2}),
                (None, {1: 1, 2: 2}),
            ],
        ),
        # All linked, but unequally.
        (
            ("112", "002", "01"),
            [(None, {1: 2, 2: 1}), (None, {0: 2, 2: 1}), (None, {0: 1, 1: 1})],
        ),
        (("1122", "0022", "0011"), [(0, {})] * 3),
    ],
)
def test_only_equal_links_to_all_are_a_group(
    words: tuple[str, ...], found: list[tuple[object, object]], mocker: MockerFixture
) -> None:
    assert links_of(mocker, meshed(*words)) == found


def test_links_through_a_switch_are_equal(mocker: MockerFixture) -> None:
    chips = meshed("ssss", "ssss")
    chips[0].linked, chips[1].linked = ("GPU-1",), ("GPU-0",)
    assert links_of(mocker, chips) == [(0, {})] * 2


def test_a_gpu_whose_links_are_all_inactive_is_not_linked(mocker: MockerFixture) -> None:
    """Whatever its P2P status says: a bridge that was removed, a fabric that is not trained."""
    chips = meshed("1", "0", "....", "....")
    chips[2].linked, chips[3].linked = ("GPU-3",), ("GPU-2",)
    assert links_of(mocker, chips) == [(0, {}), (0, {}), (None, {}), (None, {})]


def test_gpus_below_one_pcie_switch_or_host_bridge(mocker: MockerFixture) -> None:
    places = ((0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 2), (0, 1, 2, 3), (1, 2, 3, 4))
    Driver(mocker, *[Chip(uuid=f"GPU-{n}", below=below) for n, below in enumerate(places)])
    devices = NvmlGpus(pynvml).devices()
    assert [d.pcie_switch for d in devices] == [0, 0, None, None, None]
    assert [d.host_bridge for d in devices] == [0, 0, 0, None, None]


# ------------------------------------------------------------------ CPUs


@pytest.mark.parametrize(
    ("cpus", "numa", "socket"),
    [
        ({0: (0, 1), 1: (0, 1, 2, 3)}, "0-1", "0-3"),
        ({0: (), 1: ()}, None, None),
        # Those that are offline, or that the daemon may not use.
        ({0: (3, 4, 5), 1: (70, 8000)}, "3", None),
        (None, None, None),
    ],
)
def test_the_cpus_near_a_gpu(
    cpus: dict[int, tuple[int, ...]] | None,
    numa: str | None,
    socket: str | None,
    mocker: MockerFixture,
) -> None:
    mocker.patch("os.sched_getaffinity", return_value={0, 1, 2, 3})
    part = instance("MIG-a", "3g.20gb")
    whole, cut = Chip(cpus=cpus), mig_gpu(part)
    cut.cpus = cpus
    Driver(mocker, whole, cut)
    devices = NvmlGpus(pynvml).devices()
    assert [(d.numa_cpus, d.socket_cpus) for d in devices] == [(numa, socket)] * 2


def test_a_lost_gpu_has_no_group(mocker: MockerFixture) -> None:
    driver = Driver(mocker, *chips("12", "02", "01"))
    gpus = NvmlGpus(pynvml)
    gpus.devices()
    driver.chips[0].fails["*"] = LOST
    assert [device.nvlink_group for device in gpus.devices()] == [None, 1, 1]
