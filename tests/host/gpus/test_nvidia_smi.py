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
from radrm.core.words import DeviceKind
from radrm.errors import DeviceError
from radrm.host.gpus import nvidia_smi
from radrm.host.gpus import nvidia_smi as module
from radrm.host.gpus.nvidia_smi import (
    OLD_GPU_FIELDS,
    AppLine,
    GpuLine,
    InstanceLine,
    InstanceMemory,
    NvidiaSmi,
    Report,
    parse_app,
    parse_gpu,
    parse_instances,
    parse_missing,
)
from radrm.host.gpus.source import NO_PROCESS_LIST
from radrm.host.gpus.stream import LineKind
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
    old = f"{A}, 0, NVIDIA A100, 40960, 2000, 35, 120.50"
    found = parse_gpu(old, OLD_GPU_FIELDS)
    assert found is not None and (found.reserved_mib, found.mig) == (None, False)


@pytest.mark.parametrize("word", ["[N/A]", "[Not Supported]", "ERR!", "[Unknown Error]", "nan", ""])
def test_what_is_not_told_is_not_known(word: str) -> None:
    found = parse_gpu(f"{A}, 0, NVIDIA A100, {word}, {word}, {word}, {word}, {word}, {word}")
    unified = word in ("[N/A]", "[Not Supported]")
    assert found == GpuLine(A, 0, "NVIDIA A100", None, None, None, None, None, False, unified)


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


def test_instances() -> None:
    printed = (
        f"GPU 0: NVIDIA A100-SXM4-40GB (UUID: {A})\n"
        "  MIG 3g.20gb     Device  0: (UUID: MIG-1111)\n"
        f"  MIG 1g.5gb      Device  1: (UUID: MIG-GPU-{A}/7/0)\n"
        f"GPU 1: NVIDIA A100-SXM4-40GB (UUID: {B})\n"
    )
    assert parse_instances(printed) == {
        A: [InstanceLine("MIG-1111", "3g.20gb", 0), InstanceLine(f"MIG-GPU-{A}/7/0", "1g.5gb", 1)]
    }


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
        assert isinstance(parse_instances(line), dict)


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


@pytest.mark.parametrize("old, overhead", [(False, 600), (True, 0)])
def test_gpus_and_their_readings(host: Host, old: bool, overhead: int) -> None:
    gpus = [{"uuid": A, "memory.used": "9000"}, {"uuid": B, "power.draw": "[N/A]"}]
    host.now(gpus=gpus, apps=[[A, os.getpid(), "8000"], [A, 1, "500"]], old=old)
    first, second = host.source.devices()
    assert (first.uuid, first.index, first.total_mib) == (A, 0, 40960)
    assert first.overhead_mib == overhead
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
    monkeypatch.setattr(module, "GONE_S", 0.5)
    host.now(gpus=[{"uuid": A, "memory.used": "9000"}, {"uuid": B}], apps=[row])
    host.source.devices()
    host.read_well()
    wait_until(lambda: host.read().attempts is None)
    reading = host.read()
    assert (reading.notes, reading.unmanaged, reading.used_mib) == ((NO_PROCESS_LIST,), (), 9000)
    assert (host.read_well(B).attempts is None) == (len(row) == 1)
    host.now(apps=[])
    wait_until(lambda: host.read().attempts == ())


def test_processes_that_have_ended_are_forgotten(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GONE_S", 0.5)
    host.now(gpus=[{"uuid": A}], apps=[[A, 1, "500"]])
    host.source.devices()
    wait_until(lambda: host.read().unmanaged)
    host.now(apps=[])
    wait_until(lambda: not host.read().unmanaged)


def test_a_gpu_that_is_not_printed_any_more_is_not_read(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SILENT_S", 0.3)
    host.now(gpus=[{"uuid": A}, {"uuid": B}])
    host.source.devices()
    host.read_well(B)
    host.now(gpus=[{"uuid": A}])
    wait_until(lambda: host.read(B).error)
    host.read_well(A)
    assert [d.uuid for d in host.source.devices()] == [A, B], "it says itself what is wrong"


def test_a_driver_that_goes_and_comes_back(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SILENT_S", 0.3)
    host.now(gpus=[{"uuid": A}])
    host.source.devices()
    host.read_well()
    host.now(mode="failed")
    assert "GPU is lost" in str(wait_until(lambda: host.read().error))
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


# ------------------------------------------------------------------ MIG nvidia_smi


INSTANCES = {"uuid": A, "mig": [["3g.20gb", "MIG-1111"], ["1g.5gb+me", "MIG-2222"]]}


def test_instances_without_memory_are_listed_and_say_why_they_take_no_job(host: Host) -> None:
    host.now(gpus=[INSTANCES, {"uuid": B}])
    part, small, whole = host.source.devices()
    assert (part.uuid, part.kind, part.parent) == ("MIG-1111", DeviceKind.MIG, A)
    assert (part.profile, part.index) == ("3g.20gb", 0)
    # What their profiles are called after, less what may be missing of it.
    assert (part.total_mib, small.total_mib) == (19456, 4864)
    assert whole.uuid == B
    assert "install nvidia-ml-py" in str(host.read("MIG-1111").error)


def test_instances_with_memory_are_read(host: Host) -> None:
    me = os.getpid()
    memory = [["20096 MiB", "7013 MiB"], ["4864 MiB", "N/A"]]
    host.now(gpus=[INSTANCES | {"mig_memory": memory}], apps=[["MIG-1111", me, "7000"]])
    assert not host.source.changed
    host.source.devices()
    wait_until(lambda: host.read_well("MIG-1111").attempts)
    reading = host.read_well("MIG-1111")
    assert (reading.used_mib, reading.attempts) == (7013, (AttemptMemory(7, 1, 7000),))
    assert reading.smact is None
    assert host.read("MIG-2222").error is not None, "what is not told is not known"
    # The size that it really has is told by the next listing.
    assert host.source.changed
    assert [d.total_mib for d in host.source.devices()] == [20096, 4864]
    assert not host.source.changed


def test_a_jobs_processes_that_are_listed_for_the_whole_gpu_count_where_it_is(host: Host) -> None:
    gpu = INSTANCES | {"mig_memory": [["20096 MiB", "7013 MiB"], ["4864 MiB", "0 MiB"]]}
    host.now(gpus=[gpu], apps=[[A, os.getpid(), "[N/A]"], [A, 1, "5"]])
    host.source.devices()
    for uuid in ("MIG-1111", "MIG-2222"):
        reading = wait_until(lambda uuid=uuid: (r := host.read_well(uuid)).attempts and r)  # type: ignore[misc]
        assert reading.attempts == (AttemptMemory(7, 1, None),) and not reading.unmanaged


def test_instances_that_are_gone_are_forgotten(host: Host) -> None:
    host.now(gpus=[INSTANCES | {"mig_memory": [["20096 MiB", "13 MiB"]]}])
    host.source.devices()
    host.read_well("MIG-1111")
    host.now(gpus=[{"uuid": A, "mig": [["7g.40gb", "MIG-3333"]]}])
    assert [d.uuid for d in host.source.devices()] == ["MIG-3333"]
    assert "not printed this device yet" in str(host.read("MIG-1111").error)


def lines(*nvidia_smi: tuple[str, ...]) -> list[str]:
    """A report's lines: the elements of each instance, and of the GPU."""
    parts = [f"<mig_device>|{'|'.join(parts)}|</mig_device>" for parts in nvidia_smi]
    whole = ['<gpu id="0">', *parts, f"<uuid>{A}</uuid>", "<fb_memory_usage>|<total>9 MiB</total>"]
    return "|".join([*whole, "</gpu>"]).split("|")


MEMORY = ("<fb_memory_usage>", "<total>100 MiB</total>", "<used>7 MiB</used>", "</fb_memory_usage>")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([("<index>0</index>", *MEMORY)], {0: (100, 7)}),
        (
            [("<index>0</index>", *MEMORY), ("<index>3</index>", *MEMORY)],
            {0: (100, 7), 3: (100, 7)},
        ),
        ([("<index>0</index>", *(m.replace("fb_", "shared_fb_") for m in MEMORY))], {0: (100, 7)}),
        ([MEMORY], {}),
        ([("<index>0</index>",)], {}),
        ([("<index>0</index>", *MEMORY[:2], "<used>N/A</used>")], {}),
        ([("<index>0</index>", *MEMORY[:2], "<used>101 MiB</used>")], {}),
        ([("<index>0</index>", *MEMORY[1:3])], {}),
        ([("<index>x</index>", *MEMORY)], {}),
    ],
)
def test_a_report(
    found: list[tuple[str, ...]], expected: dict[int, tuple[int, int]], mocker: Any
) -> None:
    mocker.patch.object(nvidia_smi.time, "monotonic", return_value=5.0)
    report = Report()
    heard = [report.take(line) for line in lines(*found)]
    assert heard[-1] is LineKind.DATA and LineKind.DATA not in heard[:-1]
    wanted = {n: InstanceMemory(total, 0, used) for n, (total, used) in expected.items()}
    assert report.memory == {(A, n): (5.0, memory) for n, memory in wanted.items()}


def test_a_report_has_the_numbers_of_compute_instances() -> None:
    report, numbers = Report(), ("<gpu_instance_id>2</gpu_instance_id>",)
    both = (*numbers, "<compute_instance_id>1</compute_instance_id>")
    found = [("<index>0</index>", *both, *MEMORY), ("<index>1</index>", *numbers, *MEMORY)]
    for line in lines(*found):
        report.take(line)
    assert [report.memory[A, n][1].numbers for n in (0, 1)] == [(2, 1), None]


@given(st.lists(st.sampled_from([*lines(("<index>0</index>", *MEMORY)), "", "x", "<a><b>", "<<"])))
def test_a_damaged_report(found: list[str]) -> None:
    report = Report()
    for line in found:
        report.take(line)
    for _, memory in report.memory.values():
        assert 0 <= memory.used_mib <= memory.total_mib


def test_words_are_words() -> None:
    assert Report().take("NVIDIA-SMI has failed") is LineKind.MESSAGE
