"""Readings of real GPUs agree with `nvidia-smi`. Skipped where there is none."""

from __future__ import annotations

import pytest

from radrm.core.records import Instant
from radrm.core.words import DeviceKind
from radrm.host.gpus.nvml import NvmlGpus
from tests.gpu.smi import Row

pytestmark = pytest.mark.gpu

AT = Instant(boot_s=0.0, wall_s=0.0)


def agree(ours: float | None, theirs: float | None, tolerance: float) -> bool:
    if ours is None or theirs is None:
        return ours is None and theirs is None
    return abs(ours - theirs) <= tolerance


def test_devices_agree(gpus: NvmlGpus, rows: dict[str, Row]) -> None:
    devices = gpus.devices()
    assert devices, gpus.problems
    assert {device.parent or device.uuid for device in devices} <= set(rows)
    for device in devices:
        if device.kind is DeviceKind.GPU:
            row = rows[device.uuid]
            assert device.index == row.index
            assert not row.mig
            assert agree(device.total_mib, row.total_mib, 1)
            if row.reserved_mib is not None:
                assert agree(device.overhead_mib, row.reserved_mib, 16)


def test_readings_agree(gpus: NvmlGpus, rows: dict[str, Row]) -> None:
    uuids = [device.uuid for device in gpus.devices()]
    for reading in gpus.read(uuids, AT, lambda pid: None):
        assert reading.error is None
        assert reading.attempts == ()
        if reading.device in rows:
            row = rows[reading.device]
            assert agree(reading.used_mib, row.used_mib, 512)  # somebody may be working on it
            assert agree(reading.power_w, row.power_w, 150)
            assert reading.smact is None or 0 <= reading.smact <= 1


def test_a_gpu_that_is_not_there(gpus: NvmlGpus) -> None:
    unknown = "GPU-00000000-0000-0000-0000-000000000000"
    (reading,) = gpus.read([unknown], AT, lambda pid: None)
    assert reading.error


def test_the_driver_can_be_let_go_and_taken_again(gpus: NvmlGpus) -> None:
    before = [device.uuid for device in gpus.devices()]
    gpus.close()
    assert [device.uuid for device in gpus.devices()] == before
