"""The stand-in of libnvidia-ml.so.1 in trouble: calls that fail or hang, old drivers."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pynvml
import pytest

from tests.standins.nvml_calls import (
    LOST,
    MIB,
    MISMATCH,
    NO_DRIVER,
    NO_FUNCTION,
    NO_PERMISSION,
    NOT_SUPPORTED,
    READERS,
    RESET,
    UNINITIALIZED,
    UNKNOWN,
    error,
    handle,
    memory,
)
from tests.standins.nvml_library import Nvml, build

# ------------------------------------------------------------------ trouble


@pytest.mark.parametrize("number", [NOT_SUPPORTED, NO_PERMISSION, LOST, RESET, MISMATCH, UNKNOWN])
def test_a_function_fails_for_all_or_for_one(nvml: Nvml, gpu: str, number: int) -> None:
    other = nvml.gpu()
    both = handle(gpu), handle(other)
    nvml.fail("nvmlDeviceGetPowerUsage", number)
    assert [error(pynvml.nvmlDeviceGetPowerUsage, h) for h in both] == [number] * 2
    nvml.fail("nvmlDeviceGetPowerUsage", 0)
    nvml.fail("nvmlDeviceGet*", number, other)
    assert pynvml.nvmlDeviceGetPowerUsage(both[0]) == 60_000
    assert error(pynvml.nvmlDeviceGetPowerUsage, both[1]) == number
    assert error(pynvml.nvmlDeviceGetHandleByIndex, 1) == number
    assert error(handle, other) == number
    nvml.fail("nvmlDeviceGet*", 0, other)
    assert pynvml.nvmlDeviceGetPowerUsage(both[1]) == 60_000


def test_an_instance_shares_its_gpus_trouble(nvml: Nvml, gpu: str) -> None:
    device = handle(nvml.mig(gpu, "1g.10gb"))
    nvml.fail("*", LOST, gpu)
    assert error(pynvml.nvmlDeviceGetName, device) == LOST


def test_a_hang_holds_its_caller_only(nvml: Nvml, gpu: str) -> None:
    device = handle(gpu)
    nvml.hang("nvmlDeviceGetPowerUsage")
    found: list[int] = []
    stuck = threading.Thread(
        target=lambda: found.append(pynvml.nvmlDeviceGetPowerUsage(device)), daemon=True
    )
    stuck.start()
    while not nvml.calls("nvmlDeviceGetPowerUsage"):
        assert stuck.is_alive()
    assert pynvml.nvmlDeviceGetName(device) == "NVIDIA H100 80GB HBM3"
    nvml.set(gpu, power_mw=1)
    assert found == []
    nvml.release("nvmlDeviceGetPowerUsage")
    stuck.join(timeout=30)
    assert found == [1], "it answers with what is true by then"


def test_a_delay_is_served(nvml: Nvml, gpu: str) -> None:
    device = handle(gpu)
    nvml.delay("nvmlDeviceGetPowerUsage", 0.02, gpu)
    before = time.monotonic()
    assert pynvml.nvmlDeviceGetPowerUsage(device) == 60_000
    assert time.monotonic() - before >= 0.02, "it cannot have been earlier"


def test_opening_and_closing(nvml: Nvml) -> None:
    nvml.gpu()
    assert error(pynvml.nvmlDeviceGetCount) == UNINITIALIZED
    pynvml.nvmlInit()
    pynvml.nvmlInit()
    pynvml.nvmlShutdown()
    assert pynvml.nvmlDeviceGetCount() == 1
    pynvml.nvmlShutdown()
    assert error(pynvml.nvmlDeviceGetCount) == UNINITIALIZED
    assert error(pynvml.nvmlShutdown) == UNINITIALIZED
    nvml.fail("nvmlInit*", MISMATCH)
    assert error(pynvml.nvmlInit) == MISMATCH


def test_no_state_is_no_driver(nvml: Nvml) -> None:
    nvml.state.unlink()
    assert error(pynvml.nvmlInit) == NO_DRIVER


@pytest.mark.parametrize(
    "line",
    [
        "gpux GPU-a",
        "set GPU-none power_mw 1",
        "set {gpu} powr_mw 1",
        "set {gpu} power_mw lots",
        "process {gpu} 12",
        "process {gpu} 12 100 computer",
        "mig MIG-a GPU-none",
        "fail nvmlInit",
        "xid {gpu}",
        "gpu",
        "gone MIG-none",
        "set {gpu} name " + "x" * 200,
    ],
)
def test_a_typo_cannot_pass(
    nvml: Nvml, gpu: str, line: str, capfd: pytest.CaptureFixture[str]
) -> None:
    nvml.write(line.format(gpu=gpu))
    assert error(pynvml.nvmlDeviceGetCount) == UNKNOWN
    count = len(nvml.state.read_text().splitlines())
    assert f"line {count}: " in capfd.readouterr().err


def test_half_a_line_is_not_read(nvml: Nvml, gpu: str) -> None:
    with nvml.state.open("a") as file:
        file.write(f"# a comment\n\nset {gpu} power_mw 77")
    assert pynvml.nvmlDeviceGetPowerUsage(handle(gpu)) == 60_000
    nvml.write("000")
    assert pynvml.nvmlDeviceGetPowerUsage(handle(gpu)) == 77_000


# ------------------------------------------------------------------ an old driver


def test_an_old_driver_lacks_functions(old_nvml: Nvml) -> None:
    device = old_nvml.gpu()
    old_nvml.process(device, 5, 100)
    old_nvml.process(device, 6, None, "mps")
    pynvml.nvmlInit()
    for call in (
        *READERS.values(),
        lambda h: pynvml.nvmlDeviceGetMemoryInfo(h, version=pynvml.nvmlMemory_v2),
        lambda h: pynvml.nvmlDeviceGetTemperatureV(h, 0),
        pynvml.nvmlDeviceGetCurrentClocksEventReasons,
        pynvml.nvmlGpmQueryDeviceSupport,
    ):
        assert error(call, handle(device)) == NO_FUNCTION
    assert memory(device, None)["used"] == 700
    (one,) = pynvml.nvmlDeviceGetComputeRunningProcesses_v2(handle(device))
    (two,) = pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v2(handle(device))
    assert [(p.pid, p.usedGpuMemory) for p in (one, two)] == [(5, 100 * MIB), (6, None)]


# ------------------------------------------------------------------ other processes


OTHER = """
import pynvml
pynvml.nvmlInit()
print(pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(0)))
"""


def test_another_process_finds_it_by_name(nvml_driver: Nvml) -> None:
    uuid = nvml_driver.gpu()
    done = subprocess.run(
        [sys.executable, "-c", OTHER],
        env={**os.environ, **nvml_driver.environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == (uuid, "")
    assert nvml_driver.calls("nvmlInitWithFlags") == ["nvmlInitWithFlags"]


def test_without_a_compiler_tests_are_skipped_in_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(pytest.skip.Exception, match="no C compiler"):
        build(tmp_path)
