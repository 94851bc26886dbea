"""Which GPUs NVML says are near each other; what it cannot say is unknown and no error."""

from __future__ import annotations

import pynvml
import pytest
from pytest_mock import MockerFixture

from radrm.core.records import Instant
from radrm.host.gpus.nvml import NvmlGpus, topology
from tests.host.gpus.nvml.driver import (
    LOST,
    NO_FUNCTION,
    NO_PERMISSION,
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


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_FUNCTION, NO_PERMISSION, LOST, UNKNOWN])
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


def test_a_lost_gpu_has_no_group(mocker: MockerFixture) -> None:
    driver = Driver(mocker, *chips("12", "02", "01"))
    gpus = NvmlGpus(pynvml)
    gpus.devices()
    driver.chips[0].fails["*"] = LOST
    assert [device.nvlink_group for device in gpus.devices()] == [None, 1, 1]
