"""What `radrm doctor` says of GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pynvml
from pytest_mock import MockerFixture

from radrm.host.gpus import nvml
from radrm.host.health import gpus
from tests.host.gpus.nvml.driver import (
    LOST,
    NO_FUNCTION,
    NOT_SUPPORTED,
    Chip,
    Driver,
    instance,
    mig_gpu,
)
from tests.host.health.judging import judged

# ------------------------------------------------------------------ GPUs


def gpu(**given: Any) -> gpus.Gpu:
    usual = {"index": 0, "name": "A100", "mig": None, "persistence": True, "compute_mode": 0}
    return gpus.Gpu(**{**usual, **given})


def test_devices() -> None:
    judged(gpus.devices(gpus.Driver((gpu(), gpu(), gpu(name="H100"))), True), "ok", "2 x A100")
    none = gpus.Driver(reason="no driver")
    judged(gpus.devices(none, False), "warn", "no driver", "--gpus sim:")
    judged(gpus.devices(none, True), "fail", "there is NVIDIA hardware", "no driver")
    lost = gpus.Driver((gpu(),), errors=("GPU 1: the GPU is lost",))
    judged(gpus.devices(lost, True), "fail", "GPU 1: the GPU is lost")
    several = gpus.Driver(errors=("GPU 0-6: the GPU is lost", "GPU 7: odd"))
    judged(gpus.devices(several, True), "fail", "GPU 0-6: the GPU is lost; GPU 7: odd")


def test_has_hardware(tmp_path: Path) -> None:
    def device(name: str, vendor: str, kind: str) -> None:
        folder = tmp_path / "bus" / "pci" / "devices" / name
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "class").write_text(f"{kind}\n")

    assert not gpus.has_hardware(tmp_path)
    device("0000:00:01.0", "0x8086", "0x030000")
    device("0000:00:02.0", "0x10de", "0x040300")  # the sound of a graphics card
    assert not gpus.has_hardware(tmp_path)
    device("0000:00:03.0", "0x10de", "0x030200")
    assert gpus.has_hardware(tmp_path)


def test_modes_of_gpus() -> None:
    two = lambda **given: gpus.Driver((gpu(), gpu(index=1, **given)))  # noqa: E731
    judged(gpus.mig(two()), "ok", "have none")
    judged(gpus.mig(two(mig=(0, 0))), "ok", "off")
    judged(gpus.mig(two(mig=(1, 1))), "ok", "on for GPU 1")
    judged(gpus.mig(two(mig=(0, 1))), "warn", "pending on GPU 1")
    judged(gpus.persistence(two()), "ok")
    judged(gpus.persistence(two(persistence=None)), "ok")
    judged(gpus.persistence(two(persistence=False)), "warn", "GPU 1", "nvidia-smi -pm 1")
    judged(gpus.compute_mode(two(), False), "ok", "DEFAULT")
    judged(gpus.compute_mode(two(compute_mode=3), False), "warn", "GPU 1", "devices are busy")
    judged(
        gpus.compute_mode(two(compute_mode=3), True), "warn", "no client of MPS fails", "nvidia-smi"
    )
    judged(gpus.compute_mode(two(compute_mode=2), True), "fail", "PROHIBITED on GPU 1")


def look(mocker: MockerFixture, *chips: Chip, **answers: Any) -> gpus.Driver:
    driver = Driver(mocker, *chips)
    usual = {
        "nvmlDeviceGetPersistenceMode": 1,
        "nvmlDeviceGetComputeMode": 0,
    }
    for name, answer in {**usual, **answers}.items():
        effect = answer if isinstance(answer, Exception) else [answer] * 8
        mocker.patch.object(pynvml, name, side_effect=effect)
    found = gpus.look(pynvml, nvml.find())
    assert driver.shutdowns > 0, "the driver is let go of"
    return found


def test_look(mocker: MockerFixture) -> None:
    found = look(mocker, Chip(uuid="GPU-a"), mig_gpu(instance("MIG-a", "1g.5gb")))
    assert (found.reason, found.errors) == (None, ())
    assert [g.mig for g in found.gpus] == [(0, 0), (1, 1)]
    assert [(g.persistence, g.compute_mode) for g in found.gpus] == [(True, 0)] * 2


def test_look_at_an_old_driver(mocker: MockerFixture) -> None:
    old = {"nvmlDeviceGetPersistenceMode": pynvml.NVMLError(NO_FUNCTION)}
    (found,) = look(mocker, Chip(fails={"nvmlDeviceGetMigMode": NOT_SUPPORTED}), **old).gpus
    assert (found.mig, found.persistence) == (None, None)


def test_look_at_a_lost_gpu(mocker: MockerFixture) -> None:
    found = look(mocker, Chip(), Chip(uuid="GPU-b", fails={"*": LOST}))
    judged(gpus.devices(found, True), "fail", "GPU 1: the GPU is lost")


def test_look_where_there_is_nothing(mocker: MockerFixture) -> None:
    found = gpus.look(pynvml, nvml.Found(None, "no driver"))
    assert (found.gpus, found.reason) == ((), "no driver")
