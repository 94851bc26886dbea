"""Readings of real GPUs agree with `nvidia-smi`. Skipped where there is none."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import pytest

from radrm.core.records import Instant
from radrm.core.words import DeviceKind
from radrm.host.nvml import NvmlGpus, find

pytestmark = pytest.mark.gpu

AT = Instant(boot_s=0.0, wall_s=0.0)


@pytest.fixture
def gpus() -> Iterator[NvmlGpus]:
    found = find()
    if found.gpus is None:
        pytest.skip(f"no real GPU here: {found.reason}")
    yield found.gpus
    found.gpus.close()


@pytest.fixture
def smi() -> dict[str, list[str]]:
    """Total, used, reserved MiB and power in W of every GPU by UUID, as nvidia-smi prints them."""
    if not shutil.which("nvidia-smi"):
        pytest.skip("no nvidia-smi to compare with")
    query = "uuid,memory.total,memory.used,memory.reserved,power.draw"
    shown = subprocess.run(
        ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    rows = ([cell.strip() for cell in line.split(",")] for line in shown.splitlines())
    return {row[0]: row[1:] for row in rows}


def number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:  # "[N/A]"
        return None


def agree(ours: float | None, theirs: float | None, tolerance: float) -> bool:
    if ours is None or theirs is None:
        return ours is None and theirs is None
    return abs(ours - theirs) <= tolerance


def test_devices_agree(gpus: NvmlGpus, smi: dict[str, list[str]]) -> None:
    devices = gpus.devices()
    assert devices, gpus.problems
    assert {device.parent or device.uuid for device in devices} <= set(smi)
    for device in devices:
        if device.kind is DeviceKind.GPU:
            total, _, reserved, _ = map(number, smi[device.uuid])
            assert agree(device.total_mib, total, 1)
            if reserved is not None:
                assert agree(device.overhead_mib, reserved, 16)


def test_readings_agree(gpus: NvmlGpus, smi: dict[str, list[str]]) -> None:
    uuids = [device.uuid for device in gpus.devices()]
    for reading in gpus.read(uuids, AT, lambda pid: None):
        assert reading.error is None
        assert reading.attempts == ()
        if reading.device in smi:
            _, used, _, power = map(number, smi[reading.device])
            assert agree(reading.used_mib, used, 512)  # somebody may be working on it
            assert agree(reading.power_w, power, 150)
            assert reading.smact is None or 0 <= reading.smact <= 1


def test_a_gpu_that_is_not_there(gpus: NvmlGpus) -> None:
    unknown = "GPU-00000000-0000-0000-0000-000000000000"
    (reading,) = gpus.read([unknown], AT, lambda pid: None)
    assert reading.error


def test_the_driver_can_be_let_go_and_taken_again(gpus: NvmlGpus) -> None:
    before = [device.uuid for device in gpus.devices()]
    gpus.close()
    assert [device.uuid for device in gpus.devices()] == before
