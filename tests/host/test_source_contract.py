"""What every source of readings must keep: the software GPUs, and NVML (its driver mocked)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from radrm.core.records import Instant
from radrm.host.gpus import nvml
from radrm.host.gpus.source import GpuSource
from radrm.host.simulated.client import DriverClient
from radrm.host.simulated.source import SoftwareGpus, ensure_driver
from tests.host.nvml_driver import Chip, Driver, instance, mig_gpu, process

NOW = Instant(1000.0, 1e9)


@pytest.fixture(params=["software", "nvml"])
def source(
    request: pytest.FixtureRequest, tmp_path: Path, mocker: MockerFixture
) -> Iterator[GpuSource]:
    """Two whole GPUs, the second with a process of ours on it, and a GPU in MIG mode."""
    if request.param == "nvml":
        busy = Chip(uuid="GPU-b", used=3000 * 1024 * 1024, compute=[process(os.getpid(), 2000)])
        Driver(mocker, Chip(), busy, mig_gpu(instance("MIG-1", "1g.5gb"), None))
        found = nvml.find().gpus
        assert found is not None
        yield found
        found.close()
        return
    spec = "sim:2xA100-40GB,1xA100-40GB:1g.5gb,unmanaged@1=1000"
    driver = ensure_driver(tmp_path, spec)
    gpus = SoftwareGpus(driver.socket)
    job = DriverClient(driver.socket)
    job.attach(gpus.devices()[1].uuid, smact=0.5)
    job.alloc(2000)
    yield gpus
    job.close()
    gpus.close()
    quitter = DriverClient(driver.socket)
    quitter.ask("quit")
    quitter.close()


def test_devices_are_distinct_and_stay(source: GpuSource) -> None:
    devices = source.devices()
    assert [d.kind.value for d in devices] == ["gpu", "gpu", "mig"]
    assert len({d.uuid for d in devices}) == 3
    assert all(0 <= d.overhead_mib < d.total_mib for d in devices)
    assert devices[2].profile == "1g.5gb" and devices[2].parent
    assert source.devices() == devices


def test_a_reading_for_each_device_asked_for_in_that_order(source: GpuSource) -> None:
    uuids = [d.uuid for d in source.devices()][::-1]
    readings = source.read(uuids, NOW, lambda pid: None)
    assert [r.device for r in readings] == uuids
    assert all(r.at == NOW and r.error is None for r in readings)
    for reading in readings:
        assert reading.used_mib is not None and reading.used_mib >= 0
        assert reading.smact is None or 0 <= reading.smact <= 1
        assert (reading.smact is None) or reading.smact_source
        assert reading.power_w is None or reading.power_w >= 0
    assert source.read([], NOW, lambda pid: None) == ()


def test_memory_is_attributed_to_who_owns_the_process(source: GpuSource) -> None:
    second = source.devices()[1].uuid
    (mine,) = source.read([second], NOW, lambda pid: (5, 2) if pid == os.getpid() else None)
    assert [(m.job_id, m.attempt, m.used_mib) for m in mine.attempts] == [(5, 2, 2000)]
    assert mine.used_mib == 3000
    (strangers,) = source.read([second], NOW, lambda pid: None)
    assert strangers.attempts == () and strangers.used_mib == 3000


def test_a_device_that_is_not_there_is_said_and_the_others_are_read(source: GpuSource) -> None:
    first = source.devices()[0].uuid
    gone, there = source.read(["GPU-none", first], NOW, lambda pid: None)
    assert gone.error and gone.used_mib is None
    assert there.error is None
