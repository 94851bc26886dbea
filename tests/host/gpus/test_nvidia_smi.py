"""What `nvidia-smi` prints as CSV, whole and damaged; and the source over a stand-in of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core.records import AttemptMemory, Instant, Reading
from radrm.errors import DeviceError
from radrm.host.gpus import nvidia_smi as module
from radrm.host.gpus.nvidia_smi import (
    AppLine,
    GpuLine,
    NvidiaSmi,
    parse_app,
    parse_gpu,
    parse_missing,
)
from radrm.host.gpus.source import NO_PROCESS_LIST
from tests.paths import BIN
from tests.waiting import wait_until

A, B = "GPU-aaaaaaaa-0000", "GPU-bbbbbbbb-0000"
AT = Instant(10.0, 1000.0)
GOOD = f"{A}, 0, NVIDIA A100-SXM4-40GB, 40960, 600, 2000, 35, 120.50, Disabled"


# ------------------------------------------------------------------ lines


def test_a_gpu() -> None:
    assert parse_gpu(GOOD) == GpuLine(
        A, 0, "NVIDIA A100-SXM4-40GB", 40960, 600, 2000, 0.35, 120.5, False
    )


@pytest.mark.parametrize("word", ["[N/A]", "[Not Supported]", "ERR!", "[Unknown Error]", "nan", ""])
def test_what_is_not_told_is_not_known(word: str) -> None:
    found = parse_gpu(f"{A}, 0, NVIDIA A100, {word}, {word}, {word}, {word}, {word}, {word}")
    assert found == GpuLine(A, 0, "NVIDIA A100", None, None, None, None, None, False)


@pytest.mark.parametrize(
    "line",
    [
        "",
        GOOD[:-20],
        GOOD + ", 7",
        GOOD.replace("GPU-", "gpu "),
        GOOD.replace(" 0,", " x,"),
        GOOD.replace(" 0,", " 0\r,"),
        "No devices were found",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        'Field "memory.reserved" is not a valid field to query.',
    ],
)
def test_what_is_no_gpu(line: str) -> None:
    assert parse_gpu(line) is None


@pytest.mark.parametrize(
    "line, expected",
    [
        (f"{A}, 4711, 2000", AppLine(A, 4711, 2000)),
        (f"{A}, 4711, [N/A]", AppLine(A, 4711, None)),
        ("MIG-aaaa-0000, 4711, 12", AppLine("MIG-aaaa-0000", 4711, 12)),
        (f"{A}, 0, 12", None),
        (f"{A}, -1, 12", None),
        (f"{A}, [N/A], 12", None),
        (f"{A}, 4711", None),
        ("No running processes found", None),
    ],
)
def test_a_process(line: str, expected: AppLine | None) -> None:
    assert parse_app(line) == expected


@pytest.mark.parametrize(
    "line, expected",
    [
        (f"{A}, [N/A], [N/A]", A),
        (f"{A}, [Not Supported], [Not Supported]", A),
        ("[N/A], [N/A], [N/A]", ""),
        ("[Not Supported]", ""),
        (f"{A}, 4711, [N/A]", None),
        (f"{A}, 0, 12", None),
        ("x, [N/A], [N/A]", None),
        (f"{A}, [N/A]", None),
        ("No running processes found", None),
    ],
)
def test_processes_that_are_not_listed(line: str, expected: str | None) -> None:
    assert parse_missing(line) == expected


@given(st.text(), st.integers(0, len(GOOD)))
def test_damaged_lines(text: str, cut: int) -> None:
    for line in (
        text,
        GOOD[:cut] + text,
        text + GOOD[cut:],
        f"{A}, 0, x, {text}, 1, 2, {text}, 3, 4",
    ):
        found = parse_gpu(line)
        if found is not None:
            used, total = found.used_mib, found.total_mib
            assert used is None or 0 <= used <= (1 << 30 if total is None else total)
            assert found.utilization is None or 0 <= found.utilization <= 1
        app = parse_app(line)
        assert app is None or app.pid > 0


# ------------------------------------------------------------------ the source


class Host:
    """The stand-in's state, and a source over it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.state: dict[str, Any] = {"gpus": [], "apps": [], "mode": "ok", "interval_s": 0.02}
        self.source = NvidiaSmi(str(BIN / "nvidia-smi"))

    def now(self, **changes: Any) -> None:
        self.state |= changes
        fresh = self.file.with_suffix(".new")
        fresh.write_text(json.dumps(self.state))
        os.replace(fresh, self.file)

    def read(self, uuid: str = A) -> Reading:
        owners = {os.getpid(): (7, 1)}
        (reading,) = self.source.read([uuid], AT, owners.get)
        return reading

    def read_well(self, uuid: str = A, unmanaged: bool = False) -> Reading:
        """The first reading without error, with unmanaged processes in it if they are wanted."""

        def good() -> Reading | None:
            found = self.read(uuid)
            return found if found.error is None and (found.unmanaged or not unmanaged) else None

        found = wait_until(good)
        assert found is not None
        return found


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    place = Host(tmp_path / "smi.json")
    monkeypatch.setenv("STANDIN_SMI", str(place.file))
    yield place
    place.source.close()


def test_gpus_and_their_readings(host: Host) -> None:
    gpus = [{"uuid": A, "memory.used": "9000"}, {"uuid": B, "power.draw": "[N/A]"}]
    host.now(gpus=gpus, apps=[[A, os.getpid(), "8000"], [A, 1, "500"]])
    first, second = host.source.devices()
    assert (first.uuid, first.index, first.total_mib) == (A, 0, 40960)
    assert first.overhead_mib == 600
    assert (second.uuid, second.index) == (B, 1)
    reading = host.read_well(unmanaged=True)
    assert (reading.used_mib, reading.power_w) == (9000, 120.5)
    assert reading.attempts == (AttemptMemory(7, 1, 8000),)
    assert [(s.pid, s.used_mib) for s in reading.unmanaged] == [(1, 500)]
    assert (reading.smact, reading.smact_coarse) == (0.35, True)
    assert reading.smact_source == "nvidia-smi-utilization"
    assert host.read_well(B).power_w is None


@pytest.mark.parametrize("row", [[A, "[N/A]", "[N/A]"], ["[Not Supported]"]])
def test_a_driver_without_lists_of_processes(
    host: Host, monkeypatch: pytest.MonkeyPatch, row: list[str]
) -> None:
    host.now(gpus=[{"uuid": A, "memory.used": "9000"}, {"uuid": B}], apps=[row])
    host.source.devices()
    host.read_well()
    wait_until(lambda: host.read().attempts is None)
    reading = host.read()
    assert (reading.notes, reading.unmanaged, reading.used_mib) == ((NO_PROCESS_LIST,), (), 9000)
    assert (host.read_well(B).attempts is None) == (len(row) == 1)
    monkeypatch.setattr(module, "GONE_S", 0.5)
    host.now(apps=[])
    wait_until(lambda: host.read().attempts == ())


def test_processes_that_have_ended_are_forgotten(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.now(gpus=[{"uuid": A}], apps=[[A, 1, "500"]])
    host.source.devices()
    wait_until(lambda: host.read().unmanaged)
    monkeypatch.setattr(module, "GONE_S", 0.5)
    host.now(apps=[])
    wait_until(lambda: not host.read().unmanaged)


def test_a_gpu_that_is_not_printed_any_more_is_not_read(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.now(gpus=[{"uuid": A}, {"uuid": B}])
    host.source.devices()
    host.read_well(B)
    monkeypatch.setattr(module, "SILENT_S", 0.3)
    host.now(gpus=[{"uuid": A}])
    wait_until(lambda: host.read(B).error)
    host.read_well(A)
    assert [d.uuid for d in host.source.devices()] == [A, B], "it says itself what is wrong"


def test_a_driver_that_goes_and_comes_back(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.now(gpus=[{"uuid": A}])
    host.source.devices()
    host.read_well()
    monkeypatch.setattr(module, "SILENT_S", 0.3)
    host.now(mode="failed")
    wait_until(lambda: "GPU is lost" in str(host.read().error), "what it says of its end")
    host.now(mode="ok")
    host.read_well()


def test_no_driver_at_all(host: Host) -> None:
    host.now(mode="failed")
    with pytest.raises(DeviceError, match="couldn't communicate with the NVIDIA driver"):
        host.source.devices()
    host.now(mode="ok")
    with pytest.raises(DeviceError, match="lists no GPU"):
        host.source.devices()
    with pytest.raises(DeviceError, match="not installed"):
        NvidiaSmi("/nowhere/nvidia-smi").devices()


UNIFIED = dict.fromkeys(("memory.total", "memory.reserved", "memory.used"), "[N/A]")
IN_MIG_MODE = {"mig": [["3g.20gb", "MIG-1111"]]}


@pytest.mark.parametrize("gpu", [UNIFIED, IN_MIG_MODE])
def test_a_gpu_without_memory_in_the_table_is_left_out(
    host: Host, gpu: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    host.now(gpus=[{"uuid": A, **gpu}, {"uuid": B}])
    for _ in range(2):
        assert [device.uuid for device in host.source.devices()] == [B]
    assert caplog.text.count("GPU 0 is left out") == 1
    host.now(gpus=[{"uuid": A, **gpu}])
    with pytest.raises(DeviceError, match="NVML does"):
        NvidiaSmi(str(BIN / "nvidia-smi")).devices()
