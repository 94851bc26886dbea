"""What `--gpus sim:...` may say."""

from __future__ import annotations

import re

import pytest

from radrm.core.words import DeviceKind
from radrm.errors import UsageError
from radrm.simulated.spec import parse

UUID = r"-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def test_four_a100():
    devices = [simulated.device for simulated in parse("sim:4xA100-40GB")]
    assert [device.index for device in devices] == [0, 1, 2, 3]
    assert len({device.uuid for device in devices}) == 4
    assert all(re.fullmatch("GPU" + UUID, device.uuid) for device in devices)
    assert devices[0].name == "A100-40GB"
    assert (devices[0].total_mib, devices[0].capacity_mib) == (40960, 40536)


def test_several_groups_known_and_unknown():
    devices = [m.device for m in parse("sim:2xA100-40GB, 1xH100-80GB,NEW9000-12GB")]
    assert [d.total_mib for d in devices] == [40960, 40960, 81920, 12288]
    assert [d.index for d in devices] == [0, 1, 2, 3]
    assert all(0.98 < d.capacity_mib / d.total_mib < 1 for d in devices)


def test_mig_instances_are_devices_and_their_gpu_is_not():
    simulated = parse("sim:1xA100-40GB:3g.20gb+2g.10gb+2g.10gb,1xA100-40GB")
    *instances, whole = [m.device for m in simulated]
    assert [i.profile for i in instances] == ["3g.20gb", "2g.10gb", "2g.10gb"]
    assert [i.total_mib for i in instances] == [20480, 10240, 10240]
    assert {i.kind for i in instances} == {DeviceKind.MIG}
    assert all(re.fullmatch("MIG" + UUID, i.uuid) for i in instances)
    assert len({i.uuid for i in instances}) == 3
    assert {i.parent for i in instances} == {parse("sim:A100-40GB")[0].device.uuid}
    assert (whole.index, whole.kind, whole.parent) == (3, DeviceKind.GPU, None)
    assert sum(m.fraction for m in simulated[:3]) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "spec",
    [
        "sim:1xA100-80GB:7g.80gb",
        "sim:2xH100-80GB:" + "+".join(["1g.10gb"] * 7),
        "sim:H200-141GB:3g.71gb+4g.71gb",
        "sim:A30-24GB:2g.12gb+1g.6gb+1g.6gb",
        "sim:NEW-64GB:1g.8gb+1g.16gb",
    ],
)
def test_layouts_that_fit(spec):
    assert all(m.device.kind is DeviceKind.MIG for m in parse(spec))


def test_unmanaged_use():
    simulated = parse("sim:2xA100-40GB,unmanaged@1=8000")
    assert [m.unmanaged_mib for m in simulated] == [0, 8000]


def near(spec: str) -> list[tuple[int | None, int | None]]:
    return [(m.device.nvlink_group, m.device.numa_node) for m in parse(spec)]


@pytest.mark.parametrize(
    ("spec", "groups"),
    [
        ("sim:2xA100-40GB", [(None, None), (None, None)]),
        ("sim:4xA100-40GB,nvlink=2", [(0, None), (0, None), (2, None), (2, None)]),
        ("sim:NUMA=2,3xA100-40GB", [(None, 0), (None, 0), (None, 1)]),
        ("sim:4xA100-40GB,nvlink=2,numa=4", [(0, 0), (0, 0), (2, 0), (2, 0)]),
        ("sim:A100-40GB:7g.40gb,2xA100-40GB,nvlink=2", [(None, None), (1, None), (1, None)]),
        ("sim:4xH100-80GB:nvlink=pairs", [(0, None), (0, None), (2, None), (2, None)]),
        ("sim:3xH100:nvlink=ALL:numa=2", [(0, 0), (0, 0), (0, 1)]),
        ("sim:3xH100,nvlink=all", [(0, None)] * 3),
        # Each group has NUMA nodes and links of its own.
        ("sim:2xH100:nvlink=all:numa=all,2xL4:numa=1", [(0, 0), (0, 0), (None, 1), (None, 2)]),
        ("sim:A100-40GB:7g.40gb:nvlink=pairs", [(None, None)]),
    ],
)
def test_groups_of_near_gpus(spec: str, groups: list[tuple[int | None, int | None]]) -> None:
    assert near(spec) == groups


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        ("4xA100-40GB", "begin with"),
        ("sim:", "''"),
        ("sim:4xA100", "4xA100"),
        ("sim:0xA100-40GB", "not 0"),
        ("sim:9999xA100-40GB", "9999"),
        ("sim:200xA100-40GB,200xA100-40GB", "more than"),
        ("sim:1xFOO-0GB", "no memory"),
        ("sim:A100-40GB:9g.1gb", "9g.1gb"),
        ("sim:A100-40GB:1g.10gb+1g.10gb+1g.10gb+1g.10gb+1g.10gb", "10 memory slices"),
        ("sim:A100-40GB:4g.20gb+2g.10gb+2g.10gb", "8 compute"),
        ("sim:T4-16GB:1g.2gb", "cannot be cut"),
        ("sim:A100-40GB,unmanaged@1=5", "no device 1"),
        ("sim:A100-40GB,unmanaged@0=50000", "do not fit"),
        ("sim:unmanaged@0=1", "no GPU"),
        ("sim:A100-40GB,nvlink=0", "nvlink needs a number of GPUs from 1 on, not 0"),
        ("sim:numa=2", "no GPU"),
        ("sim:A100-40GB,numa=two", "'numa=two'"),
        ("sim:A100-40GB:nvlink=two", "'nvlink=two'"),
        ("sim:A100-40GB,smact=dcgm", "neither smact=utilization nor smact=none"),
        ("sim:A100-40GB:nvlink=0", "nvlink needs a number of GPUs from 1 on, not 0"),
    ],
)
def test_a_bad_spec_is_one_line_with_an_example(spec, cause):
    with pytest.raises(UsageError) as caught:
        parse(spec)
    text = str(caught.value)
    assert cause in text
    assert "sim:4xA100-40GB" in text
    assert "\n" not in text
