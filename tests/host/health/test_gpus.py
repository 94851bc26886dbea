"""What `radrm doctor` says of GPUs and MPS."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_mock import MockerFixture

from radrm.host.gpus import nvml
from radrm.host.health import gpus
from radrm.host.health.finding import Level
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
    return gpus.Gpu(**{**usual, "gpm": False, **given})


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


@pytest.mark.parametrize(
    ("version", "level"),
    [("550.54.14", "ok"), ("495.29.05", "ok"), ("470.82.01", "warn"), (None, "warn"), ("x", "ok")],
)
def test_driver_version(version: str | None, level: str) -> None:
    judged(gpus.driver_version(gpus.Driver((gpu(),), version)), level)


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
    judged(gpus.compute_mode(two(compute_mode=3), False), "warn", "GPU 1", "busy or unavailable")
    judged(
        gpus.compute_mode(two(compute_mode=3), True), "warn", "no client of MPS fails", "nvidia-smi"
    )
    judged(gpus.compute_mode(two(compute_mode=2), True), "fail", "PROHIBITED on GPU 1")


def test_sm_activity() -> None:
    old, new = gpus.Driver((gpu(),)), gpus.Driver((gpu(gpm=True),))
    mixed = gpus.Driver((gpu(gpm=True), gpu(index=1)))
    nothing: Callable[[str], str | None] = lambda _: None  # noqa: E731
    dcgm: Callable[[str], str | None] = lambda w: f"/bin/{w}"  # noqa: E731
    judged(gpus.sm_activity(old, nothing), "warn", "utilization", "datacenter-gpu-manager")
    rtx = gpus.Driver((gpu(name="NVIDIA GeForce RTX 4090"),))
    judged(gpus.sm_activity(rtx, nothing), "ok", "offer no more")
    judged(gpus.sm_activity(new, nothing), "ok", "read by gpm")
    judged(gpus.sm_activity(new, dcgm, "dcgm"), "ok", "read by dcgm")
    judged(gpus.sm_activity(mixed, dcgm), "ok", "read by dcgm")
    judged(gpus.sm_activity(mixed, dcgm, "gpm"), "fail", "Hopper")
    judged(gpus.sm_activity(new, nothing, "dcgm"), "fail", "dcgmi")
    judged(gpus.sm_activity(old, nothing, "dcgm-exporter"), "ok", "dcgm-exporter")
    judged(gpus.sm_activity(new, dcgm, "utilization"), "ok", "as configured")


def look(mocker: MockerFixture, *chips: Chip, **answers: Any) -> gpus.Driver:
    driver = Driver(mocker, *chips)
    usual = {
        "nvmlSystemGetDriverVersion": b"550.54.14",
        "nvmlDeviceGetPersistenceMode": 1,
        "nvmlDeviceGetComputeMode": 0,
        "nvmlGpmQueryDeviceSupport": SimpleNamespace(isSupportedDevice=0),
    }
    for name, answer in {**usual, **answers}.items():
        effect = answer if isinstance(answer, Exception) else [answer] * 8
        mocker.patch.object(pynvml, name, side_effect=effect)
    found = gpus.look(pynvml, nvml.find())
    assert driver.shutdowns > 0, "the driver is let go of"
    return found


def test_look(mocker: MockerFixture) -> None:
    found = look(mocker, Chip(uuid="GPU-a"), mig_gpu(instance("MIG-a", "1g.5gb")))
    assert (found.version, found.reason, found.errors) == ("550.54.14", None, ())
    assert [g.mig for g in found.gpus] == [(0, 0), (1, 1)]
    assert [(g.persistence, g.compute_mode, g.gpm) for g in found.gpus] == [(True, 0, False)] * 2


def test_look_at_an_old_driver(mocker: MockerFixture) -> None:
    old = {
        name: pynvml.NVMLError(NO_FUNCTION)
        for name in ("nvmlGpmQueryDeviceSupport", "nvmlDeviceGetPersistenceMode")
    }
    (found,) = look(mocker, Chip(fails={"nvmlDeviceGetMigMode": NOT_SUPPORTED}), **old).gpus
    assert (found.mig, found.persistence, found.gpm) == (None, None, False)


def test_look_at_a_lost_gpu(mocker: MockerFixture) -> None:
    found = look(mocker, Chip(), Chip(uuid="GPU-b", fails={"*": LOST}))
    judged(gpus.devices(found, True), "fail", "GPU 1: the GPU is lost")


def test_look_where_there_is_nothing(mocker: MockerFixture) -> None:
    found = gpus.look(pynvml, nvml.Found(None, "no driver"))
    assert (found.gpus, found.reason) == ((), "no driver")


# ------------------------------------------------------------------ MPS


@pytest.mark.parametrize(
    ("pid", "cmdline", "level", "words"),
    [
        (None, b"", "ok", "no foreign daemon"),
        (b"77\n", b"nvidia-cuda-mps-control\0-d\0", "warn", "process 77"),
        (b"77\n", b"vim\0", "ok", "no foreign daemon"),
        (b"78\n", b"nvidia-cuda-mps-control\0-d\0", "ok", "no foreign daemon"),
        (b"many\n", b"nvidia-cuda-mps-control\0-d\0", "ok", ""),
        (b"../../etc\n", b"nvidia-cuda-mps-control\0-d\0", "ok", ""),
    ],
)
def test_a_foreign_mps_daemon(
    tmp_path: Path, pid: bytes | None, cmdline: bytes, level: str, words: str
) -> None:
    (tmp_path / "77").mkdir()
    (tmp_path / "77" / "cmdline").write_bytes(cmdline)
    pipes = tmp_path / "nvidia-mps"
    if pid is not None:
        pipes.mkdir()
        (pipes / "nvidia-cuda-mps-control.pid").write_bytes(pid)
    for environ, default in (({}, pipes), ({"CUDA_MPS_PIPE_DIRECTORY": str(pipes)}, tmp_path)):
        judged(gpus.mps(False, environ, lambda _: None, tmp_path, default), level, words)


def test_mps_control_is_needed_only_where_mps_is_wanted(tmp_path: Path) -> None:
    there = lambda name: f"/usr/bin/{name}"  # noqa: E731
    judged(gpus.mps(True, {}, there, tmp_path, tmp_path), "ok", "/usr/bin/nvidia-cuda-mps-control")
    judged(gpus.mps(True, {}, lambda _: None, tmp_path, tmp_path), "warn", "not on PATH")
    judged(gpus.mps(False, {}, lambda _: None, tmp_path, tmp_path), "ok", "not on PATH")


@given(st.binary(max_size=40))
def test_any_pid_file_is_survived(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    pipes = tmp_path_factory.mktemp("pipes")
    (pipes / "nvidia-cuda-mps-control.pid").write_bytes(data)
    assert gpus.mps(False, {}, lambda _: None, pipes, pipes).level is Level.OK
