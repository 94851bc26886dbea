"""What every source of readings must keep: the simulated GPUs, NVML (its driver mocked),
nvidia-smi (a stand-in of it), and the sources around another one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from radrm.config import GpusConfig, MpsConfig
from radrm.core.records import Instant
from radrm.host.gpus import nvml
from radrm.host.gpus.nvidia_smi import NvidiaSmi
from radrm.host.gpus.readings import ComputeInstances, Readings, SmActivity, Used
from radrm.host.gpus.source import GpuSource
from radrm.host.mps.service import MpsService
from radrm.host.simulated.client import DriverClient
from radrm.host.simulated.simulated_gpus import SimulatedGpus
from radrm.host.simulated.start_driver import ensure_driver
from tests.host.gpus.nvml.driver import Chip, Driver, instance, mig_gpu, process
from tests.paths import BIN
from tests.waiting import wait_until

NOW = Instant(1000.0, 1e9)
AROUND: dict[str, Callable[[GpuSource], GpuSource]] = {
    "readings": lambda source: Readings(
        source,
        SmActivity((), required=False),
        ComputeInstances(),
        Used(GpusConfig()),
        MpsService(MpsConfig(), "/run/radrm"),
    ),
}
KINDS = ["simulated", "nvml", *AROUND]


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of a simulated driver; this process works on its second GPU."""
    spec = "sim:2xA100-40GB,1xA100-40GB:1g.5gb,unmanaged@1=1000"
    socket = ensure_driver(tmp_path_factory.mktemp("driver"), spec).socket
    gpus, job = SimulatedGpus(socket), DriverClient(socket)
    job.attach(gpus.devices()[1].uuid, smact=0.5)
    job.alloc(2000)
    gpus.close()
    yield socket
    job.close()
    quitter = DriverClient(socket)
    quitter.ask("quit")
    quitter.close()


def by_nvml(mocker: MockerFixture) -> GpuSource:
    busy = Chip(uuid="GPU-b", used=3000 * 1024 * 1024, compute=[process(os.getpid(), 2000)])
    Driver(mocker, Chip(), busy, mig_gpu(instance("MIG-1", "1g.5gb"), None))
    found = nvml.find().gpus
    assert found is not None
    return found


@pytest.fixture(params=KINDS)
def source(
    request: pytest.FixtureRequest, simulated: Path, mocker: MockerFixture
) -> Iterator[GpuSource]:
    """Two whole GPUs, the second with a process of ours on it, and a GPU in MIG mode."""
    if request.param == "nvml":
        found = by_nvml(mocker)
        yield found
        found.close()
        return
    inner = SimulatedGpus(simulated)
    yield AROUND[request.param](inner) if request.param in AROUND else inner
    inner.close()


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
        assert reading.used_mib >= 0
        assert reading.smact is None or 0 <= reading.smact <= 1
        assert (reading.smact is None) or reading.smact_source
        assert reading.power_w is None or reading.power_w >= 0
    assert source.read([], NOW, lambda pid: None) == ()


def test_memory_is_attributed_to_who_owns_the_process(source: GpuSource) -> None:
    second = source.devices()[1].uuid
    (mine,) = source.read([second], NOW, lambda pid: (5, 2) if pid == os.getpid() else None)
    assert [(m.job_id, m.serial, m.used_mib) for m in mine.attempts] == [(5, 2, 2000)]
    assert mine.used_mib == 3000 and mine.unmanaged == ()
    (unmanaged,) = source.read([second], NOW, lambda pid: None)
    assert unmanaged.attempts == () and unmanaged.used_mib == 3000
    for reading, owner in ((mine, (5, 2)), (unmanaged, None)):
        (process,) = reading.processes
        assert (process.pid, process.used_mib, process.attempt) == (os.getpid(), 2000, owner)
        assert process.command and process.user


def test_a_device_that_is_not_there_is_said_and_the_others_are_read(source: GpuSource) -> None:
    first = source.devices()[0].uuid
    gone, there = source.read(["GPU-none", first], NOW, lambda pid: None)
    assert gone.error and gone.used_mib is None
    assert there.error is None


# ------------------------------------------------------------------ beside reading


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GpuSource]:
    file = tmp_path / "smi.json"
    gpus = [{"uuid": "GPU-aaaaaaaa-0000"}]
    file.write_text(json.dumps({"gpus": gpus, "apps": [], "mode": "ok", "interval_s": 0.02}))
    monkeypatch.setenv("STANDIN_SMI", str(file))
    found = NvidiaSmi(str(BIN / "nvidia-smi"))
    yield found
    found.close()


def test_what_needs_no_device(source: GpuSource) -> None:
    keeps_the_contract(source)


def test_what_needs_no_device_of_nvidia_smi(nvidia_smi: GpuSource) -> None:
    keeps_the_contract(nvidia_smi)
    uuid = nvidia_smi.devices()[0].uuid
    wait_until(lambda: nvidia_smi.read([uuid], NOW, lambda pid: None)[0].error is None)


def keeps_the_contract(source: GpuSource) -> None:
    devices = source.devices()
    assert source.name and source.changed is False
    for device in devices:
        source.acknowledge(device.uuid)
    source.acknowledge("GPU-of-nobody")
    assert source.changed is False and source.devices() == devices
    uuids = [device.uuid for device in devices]
    assert [r.device for r in source.read(uuids, NOW, lambda pid: None)] == uuids
