"""The NVML edge over a library in C, through the real `pynvml`: its structs and its errors.

What the edge makes of answers is tested elsewhere; here, that it asks as the library wants
to be asked.
"""

from __future__ import annotations

from radrm.core.records import (
    AttemptMemory,
    Device,
    DeviceProcess,
    Instant,
    Reading,
)
from radrm.host.gpus.gpm import Gpm
from radrm.host.gpus.nvml import NvmlGpus, find
from tests.standins.nvml_library import H100, Nvml
from tests.waiting import wait_until

OWNERS = {101: (7, 1), 102: (8, 1)}
NOBODY = 4_194_304  # no pid is as high as this


def read(gpus: NvmlGpus, *uuids: str, at_s: float = 10.0) -> list[Reading]:
    return list(gpus.read(uuids, Instant(at_s, at_s), OWNERS.get))


def listed(nvml: Nvml) -> NvmlGpus:
    gpus = find().gpus
    gpus.devices()
    return gpus


def test_a_gpu_and_its_reading(nvml: Nvml) -> None:
    gpu = nvml.gpu(power_mw=310_000, utilization_gpu=25)
    nvml.process(gpu, 101, 8000)
    nvml.process(gpu, NOBODY, 500, "mps")
    gpus = listed(nvml)
    (device,) = gpus.devices()
    assert device == Device(gpu, 0, "NVIDIA A100-SXM4-40GB", 40960, overhead_mib=600, minor=0)
    (reading,) = read(gpus, gpu)
    assert reading == Reading(
        gpu,
        reading.at,
        used_mib=8500,
        attempts=(AttemptMemory(7, 1, 8000),),
        smact=0.25,
        smact_source="nvml-utilization",
        smact_coarse=True,
        processes=(DeviceProcess(101, 8000, attempt=(7, 1)), DeviceProcess(NOBODY, 500)),
        power_w=310.0,
        energy_j=1000.0,
    )
    gpus.close()


# ------------------------------------------------------------------ MIG


# ------------------------------------------------------------------ health


def test_xids(nvml: Nvml) -> None:
    whole, cut = nvml.gpu(), nvml.gpu()
    one, two = nvml.mig(cut, "1g.5gb"), nvml.mig(cut, "1g.5gb")
    gpus = listed(nvml)
    devices = whole, one, two
    assert not any(r.fault for r in read(gpus, *devices))
    nvml.xid(whole, 48)
    nvml.xid(two, 95)
    faults = [r.fault or "" for r in read(gpus, *devices)]
    assert [f[:7] for f in faults] == ["Xid 48:", "", "Xid 95:"]
    gpus.close()
    gpus.acknowledge(whole)
    faults = [r.fault or "" for r in read(gpus, *devices)]
    assert [f[:7] for f in faults] == ["", "", "Xid 95:"]
    nvml.xid(whole, 62)
    assert (read(gpus, whole)[0].fault or "").startswith("Xid 62:")
    gpus.close()


def test_unified_memory(nvml: Nvml) -> None:
    gpu = nvml.gpu(memory_total_mib=None)
    gpus = listed(nvml)
    (device,) = gpus.devices()
    assert device.unified and 0 < device.overhead_mib < device.total_mib
    (reading,) = read(gpus, gpu)
    assert reading.error is None and reading.used_mib is not None


def test_fabric(nvml: Nvml) -> None:
    """The versioned structures of `pynvml`: a wrong size or version is refused."""
    training, failed = nvml.gpu(fabric_state=2), nvml.gpu(fabric_state=3, fabric_status=999)
    devices = training, failed, nvml.gpu(fabric_state=3), nvml.gpu()
    faults = [r.fault for r in read(listed(nvml), *devices)]
    assert faults[0] and "not ready (in progress)" in faults[0]
    assert faults[1] and "failed (NVML error 999)" in faults[1]
    assert faults[2:] == [None, None]


def test_condition(nvml: Nvml) -> None:
    gpu = nvml.gpu(
        ecc_volatile_uncorrected=2,
        remapped_pending=1,
        remapped_failed=1,
        temperature_c=91,
        clocks_reasons=0x20,
    )
    (reading,) = read(listed(nvml), gpu)
    assert reading.fault is None
    starts = ["uncorrected memory errors (ECC): 2 ", "reset pending", "bad memory", "slowed down"]
    assert len(reading.notes) == 4
    assert all(n.startswith(s) for n, s in zip(reading.notes, starts, strict=True))


# ------------------------------------------------------------------ GPM


def fed(gpus: NvmlGpus) -> Gpm:
    feed = Gpm(gpus)
    feed.start(gpus.devices())
    return feed


def measured(feed: Gpm, uuid: str) -> float:
    """Once two samples of the library are far enough apart."""
    return wait_until(lambda: feed.latest(uuid)).smact


def test_gpm(nvml: Nvml) -> None:
    gpu, other = nvml.gpu(model=H100, sm_util=62.5), nvml.gpu()
    gpus = listed(nvml)
    feed = fed(gpus)
    assert measured(feed, gpu) == 0.625
    assert feed.error(gpu) is None
    assert (feed.latest(other), feed.error(other)) == (None, None)
    gpus.close()
    assert len(nvml.calls("nvmlGpmSampleAlloc")) == len(nvml.calls("nvmlGpmSampleFree")) == 2


def test_gpm_of_mig_instances(nvml: Nvml) -> None:
    gpu = nvml.gpu(model=H100)
    one, two = nvml.mig(gpu, "1g.10gb", sm_util=10), nvml.mig(gpu, "3g.40gb", sm_util=80)
    feed = fed(listed(nvml))
    assert (measured(feed, one), measured(feed, two)) == (0.1, 0.8)
    nvml.gone(one)
    wait_until(lambda: feed.latest(one) is None)
    assert (feed.error(one) or "").startswith("GPM gives no SM activity: ")
    assert feed.latest(one) is None
    assert measured(feed, two) == 0.8
