"""What `dcgmi` prints, as a table and as rubbish; and the feed over a stand-in of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core.records import Device
from radrm.core.words import DeviceKind
from radrm.host.gpus import dcgm as module
from radrm.host.gpus.dcgm import Dcgm, Dmon, Row, parse_discovery, parse_hierarchy
from radrm.host.gpus.stream import LineKind
from tests.paths import BIN
from tests.waiting import wait_until

A, B = "GPU-aaaaaaaa-0000", "GPU-bbbbbbbb-0000"


# ------------------------------------------------------------------ lines


def read(*lines: str) -> list[Row | LineKind]:
    dmon = Dmon()
    return [dmon.read(line) for line in lines]


@pytest.mark.parametrize(
    "header",
    [
        "#Entity   SMACT        POWER",
        "# Entity  SMACT  POWER",
        "#Entity ID   SMACT   POWER",
        "# Entity / Id  SMACT  POWER",
        "#Entity/ID  SM_ACTIVE  POWER_USAGE_W",
        "#Entity   SMACTIVITY   PWR",
    ],
)
def test_columns_go_by_their_names(header: str) -> None:
    *frame, row = read(header, "ID                     W", "GPU 3     0.354        120.500")
    assert frame == [LineKind.HEADER, LineKind.HEADER]
    assert row == Row(("GPU", 3), 0.354, 120.5)


def test_columns_stand_in_any_order_and_may_change_with_a_new_header() -> None:
    rows = read(
        "#Entity  POWER  SMOCC  SMACT",
        "GPU 0  99.0  0.100  0.700",
        "#Entity  SMACT",
        "GPU-I 4  0.250",
        "GPU-CI 9  0.125",
    )
    assert rows[1] == Row(("GPU", 0), 0.7, 99.0)
    assert rows[3:] == [Row(("GPU-I", 4), 0.25, None), Row(("GPU-CI", 9), 0.125, None)]


@pytest.mark.parametrize(
    "cells, smact, power, wrong",
    [
        ("0.000 55.1", 0.0, 55.1, None),
        ("1.000 55.1", 1.0, 55.1, None),
        ("1.004 55.1", 1.0, 55.1, None),
        ("1.294 55.1", None, 55.1, "as 1.294, which is not in 0..1"),
        ("-0.100 55.1", None, 55.1, "as -0.1, which is not in 0..1"),
        ("N/A 55.1", None, 55.1, "gives no SM activity for it at present"),
        ("NAN 55.1", None, 55.1, "at present"),
        ("INF 55.1", None, 55.1, "at present"),
        ("0.5 N/A", 0.5, None, None),
        ("0.5 -3", 0.5, None, None),
        ("0.5 1e300", 0.5, None, None),
    ],
)
def test_what_is_believed(
    cells: str, smact: float | None, power: float | None, wrong: str | None
) -> None:
    _, row = read("#Entity SMACT POWER", f"GPU 0 {cells}")
    assert isinstance(row, Row)
    assert (row.smact, row.power_w) == (smact, power)
    assert row.wrong == wrong or (wrong and wrong in str(row.wrong))


@pytest.mark.parametrize(
    "line, heard",
    [
        ("GPU 0  0.5", LineKind.MESSAGE),  # half a line: it could be either column
        ("GPU 0  0.5 100 7", LineKind.MESSAGE),
        ("ID", LineKind.HEADER),
        ("      Id              W", LineKind.HEADER),
        ("GPU -1  0.5 100", LineKind.MESSAGE),
        ("GPU ٣ 0.5 100", LineKind.MESSAGE),
        ("GPU 99999999999999999999 0.5 100", LineKind.MESSAGE),
        ("Switch 0 0.5 100", LineKind.MESSAGE),
        ("Error setting watches. Result: -33", LineKind.MESSAGE),
        ("GPU", LineKind.MESSAGE),
    ],
)
def test_what_is_no_row(line: str, heard: LineKind) -> None:
    assert read("#Entity SMACT POWER", line)[-1] is heard


def test_rows_before_any_header_are_not_read() -> None:
    assert read("GPU 0 0.5 100") == [LineKind.MESSAGE]


def test_no_column_for_sm_activity_is_said() -> None:
    _, row = read("#Entity TMPTR", "GPU 0 40")
    assert isinstance(row, Row)
    assert (row.smact, row.wrong) == (None, "DCGM prints no column for SM activity")


WORDS = st.sampled_from(
    [
        "GPU",
        "GPU-I",
        "#Entity",
        "ID",
        "SMACT",
        "POWER",
        "0",
        "7",
        "0.5",
        "1.3",
        "N/A",
        "nan",
        "1e999",
    ]
)
LINES = st.one_of(st.text(), st.lists(WORDS, max_size=5).map(" ".join))


@given(st.lists(LINES))
def test_whatever_is_printed_a_row_holds_what_can_be(lines: list[str]) -> None:
    for row in read(*lines):
        if isinstance(row, Row):
            assert row.smact is None or 0 <= row.smact <= 1
            assert row.power_w is None or 0 <= row.power_w <= module.POWER_MAX_W
            assert (row.smact is None) == (row.wrong is not None)


# ------------------------------------------------------------------ discovery

DISCOVERY = """\
2 GPUs found.
+--------+----------------------------------------------------------------------+
| GPU ID | Device Information                                                   |
+========+======================================================================+
| 0      | Name: NVIDIA A100-SXM4-40GB                                          |
|        | PCI Bus ID: 00000000:07:00.0                                         |
|        | Device UUID: GPU-aaaaaaaa-0000                                       |
+--------+----------------------------------------------------------------------+
| 5      | Name: NVIDIA A100-SXM4-40GB (last known)                             |
|        | PCI Bus ID: 00000000:0F:00.0 (last known)                            |
|        | Device UUID: GPU-bbbbbbbb-0000                                       |
|        | Status: Detached                                                     |
+--------+----------------------------------------------------------------------+
2 NvSwitches found.
+-----------+
| Switch ID |
+-----------+
| 10        |
+-----------+
"""

HIERARCHY = """\
+-------------------+--------------------------------------------------------------------+
| Instance Hierarchy                                                                     |
+===================+====================================================================+
| GPU 0             | GPU GPU-aaaaaaaa-0000 (EntityID: 0)                                |
| -> I 0/1          | GPU Instance (EntityID: 7)                                         |
|    -> CI 0/1/0    | Compute Instance (EntityID: 3)                                     |
| -> I 0/2          | GPU Instance (EntityID: 8)                                         |
|    -> CI 0/2/0    | Compute Instance (EntityID: 4)                                     |
|    -> CI 0/2/1    | Compute Instance (EntityID: 5)                                     |
+-------------------+--------------------------------------------------------------------+
| GPU 1             | GPU GPU-bbbbbbbb-0000 (EntityID: 5)                                |
| -> I 1/1          | GPU Instance (EntityID: 9)                                         |
|    -> CI 1/1/0    | Compute Instance (EntityID: 6)                                     |
+-------------------+--------------------------------------------------------------------+
"""


def test_discovery_tells_which_gpu_is_which() -> None:
    assert parse_discovery(DISCOVERY) == {A: 0, B: 5}


def test_the_hierarchy_tells_which_instance_is_which() -> None:
    assert parse_hierarchy(HIERARCHY) == {(A, 1): (7, 1), (A, 2): (8, 2), (B, 1): (9, 1)}


@given(st.text(), st.integers(0, 400))
def test_damaged_discoveries_are_read_as_far_as_they_go(text: str, cut: int) -> None:
    for damaged in (text, DISCOVERY[:cut] + text, DISCOVERY[cut:]):
        assert set(parse_discovery(damaged).items()) <= {(A, 0), (B, 5)}
    for damaged in (text, HIERARCHY[:cut] + text, HIERARCHY[cut:]):
        assert isinstance(parse_hierarchy(damaged), dict)


# ------------------------------------------------------------------ the feed


class Host:
    """The stand-in's state, and a feed over it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.state: dict[str, Any] = {"gpus": [], "mode": "ok", "interval_s": 0.02}
        self.ids = {"MIG-1": (1, 0), "MIG-2": (2, 0)}
        self.feed = Dcgm(lambda uuid: self.ids.get(uuid), str(BIN / "dcgmi"))

    def now(self, *gpus: dict[str, Any], mode: str = "ok") -> None:
        if gpus:
            self.state["gpus"] = list(gpus)
        self.state["mode"] = mode
        fresh = self.file.with_suffix(".new")
        fresh.write_text(json.dumps(self.state))
        os.replace(fresh, self.file)

    def starts(self) -> list[str]:
        return Path(f"{self.file}.starts").read_text().splitlines()


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    place = Host(tmp_path / "dcgmi.json")
    monkeypatch.setenv("STANDIN_DCGMI", str(place.file))
    yield place
    place.feed.close()


def gpu(uuid: str, index: int = 0, model: str = "NVIDIA A100-SXM4-40GB") -> Device:
    return Device(uuid=uuid, index=index, name=model, total_mib=40960)


def instance(uuid: str, profile: str, parent: str = A) -> Device:
    return Device(
        uuid=uuid,
        index=0,
        name=f"NVIDIA A100-SXM4-40GB MIG {profile}",
        total_mib=20000,
        kind=DeviceKind.MIG,
        parent=parent,
        profile=profile,
    )


def test_one_child_serves_all_gpus_of_a_model(host: Host) -> None:
    host.now({"id": 4, "uuid": A, "smact": 0.25, "power": 99.0}, {"id": 0, "uuid": B, "smact": 0.5})
    host.feed.start([gpu(A), gpu(B, 1)])
    wait_until(lambda: host.feed.latest(A) and host.feed.latest(B))
    first, second = host.feed.latest(A), host.feed.latest(B)
    assert first and second
    assert (first.smact, first.power_w, second.smact, second.power_w) == (0.25, 99.0, 0.5, None)
    assert host.feed.error(A) is None
    host.feed.start([gpu(A), gpu(B, 1)])  # nothing has changed: nothing is started
    host.now({"id": 4, "uuid": A, "smact": 0.75}, {"id": 0, "uuid": B, "smact": 0.5})
    wait_until(lambda: getattr(host.feed.latest(A), "smact", None) == 0.75)
    assert [s.split()[1] for s in host.starts()] == ["discovery", "dmon"]
    assert " -i 4,0 " in host.starts()[1]


def test_it_is_not_the_same_child_for_another_model(host: Host) -> None:
    host.now({"id": 0, "uuid": A, "smact": 0.25}, {"id": 1, "uuid": B, "smact": 0.5})
    host.feed.start([gpu(A), gpu(B, 1, "NVIDIA T400")])
    wait_until(lambda: host.feed.latest(A) and host.feed.latest(B))
    watched = sorted(s.partition(" -i ")[2].split()[0] for s in host.starts() if " dmon " in s)
    assert watched == ["0", "1"]
    host.feed.start([gpu(A)])
    assert host.feed.latest(B) is None


def test_it_comes_back_by_itself(host: Host) -> None:
    host.now({"id": 0, "uuid": A, "smact": 0.25}, mode="down")
    host.feed.start([gpu(A)])
    assert "unable to establish a connection" in str(wait_until(lambda: host.feed.error(A)))
    host.now()
    wait_until(lambda: host.feed.latest(A))
    assert host.feed.error(A) is None
    host.now(mode="down")
    assert "Host engine connection invalid" in str(wait_until(lambda: host.feed.error(A)))


def test_the_reason_is_the_last_thing_it_has_said(host: Host) -> None:
    host.now({"id": 0, "uuid": A, "smact": 0.25}, mode="unsupported")
    host.feed.start([gpu(A)])
    assert "a module of DCGM that is not" in str(wait_until(lambda: host.feed.error(A)))


@pytest.mark.parametrize("mode", ["mute", "garbage"])
def test_silence_is_trouble(host: Host, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    host.now({"id": 0, "uuid": A, "smact": 0.25})
    host.feed.start([gpu(A)])
    wait_until(lambda: host.feed.latest(A))
    monkeypatch.setattr(module, "SILENT_S", 0.2)
    host.now(mode=mode)
    assert "has given no SM activity" in str(wait_until(lambda: host.feed.error(A)))
    host.now()
    wait_until(lambda: host.feed.error(A) is None)


def test_only_na_is_trouble_with_its_reason(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SILENT_S", 0.2)
    monkeypatch.setattr(module, "START_LIMIT_S", 0.0)
    host.now({"id": 0, "uuid": A, "smact": None})
    host.feed.start([gpu(A)])
    wait_until(lambda: "a profiler may hold" in str(host.feed.error(A)))
    host.now({"id": 0, "uuid": A, "smact": 1.294})
    wait_until(lambda: "1.294" in str(host.feed.error(A)))


def test_dcgm_that_is_not_installed(host: Host) -> None:
    feed = Dcgm(lambda uuid: None, "/nowhere/dcgmi")
    feed.start([gpu(A)])
    assert "not installed" in str(wait_until(lambda: feed.error(A)))
    feed.close()
    assert (feed.latest("GPU-other"), feed.error("GPU-other")) == (None, None)


def test_a_gpu_that_dcgm_does_not_know(host: Host) -> None:
    host.now({"id": 0, "uuid": A, "smact": 0.25})
    host.feed.start([gpu(A), gpu("GPU-other", 1)])
    wait_until(lambda: host.feed.latest(A))
    assert host.feed.error("GPU-other") == "DCGM does not know this GPU; restart nv-hostengine"


def test_mig_instances_go_by_the_drivers_ids(host: Host) -> None:
    parts = [{"id": 7, "gi": 2, "smact": 0.5}, {"id": 3, "gi": 1, "smact": 0.25}]
    host.now({"id": 0, "uuid": A, "smact": 0.9, "instances": parts})
    host.feed.start([instance("MIG-1", "3g.20gb"), instance("MIG-2", "3g.20gb")])
    wait_until(lambda: host.feed.latest("MIG-1") and host.feed.latest("MIG-2"))
    found = [host.feed.latest(uuid) for uuid in ("MIG-1", "MIG-2")]
    assert [sample and sample.smact for sample in found] == [0.25, 0.5]
    assert " -i i:3,i:7 " in host.starts()[-1]


@pytest.mark.parametrize(
    "devices, parts, words",
    [
        (("3g.20gb", "1g.5gb"), [{"id": 3, "gi": 1}, {"id": 7, "gi": 2}], "differ in size"),
        (("3g.20gb",), [{"id": 3, "gi": 5}], "does not know this MIG instance"),
        (("3g.20gb",), [{"id": 3, "gi": 1, "computes": 2}], "several compute instances"),
    ],
)
def test_instances_that_cannot_be_told_have_no_sm_activity(
    host: Host, devices: tuple[str, ...], parts: list[dict[str, Any]], words: str
) -> None:
    host.now({"id": 0, "uuid": A, "smact": 0.9, "instances": parts})
    host.feed.start([instance(f"MIG-{n}", p) for n, p in enumerate(devices, start=1)])
    assert words in str(wait_until(lambda: host.feed.error("MIG-1")))
    assert host.feed.latest("MIG-1") is None


def test_an_instance_whose_ids_the_driver_does_not_tell(host: Host) -> None:
    host.ids.clear()
    host.now({"id": 0, "uuid": A, "instances": [{"id": 3, "gi": 1}]})
    host.feed.start([instance("MIG-1", "3g.20gb")])
    assert "does not report" in str(wait_until(lambda: host.feed.error("MIG-1")))


def test_new_instances_are_found(host: Host) -> None:
    host.now({"id": 0, "uuid": A, "smact": 0.25})
    host.feed.start([gpu(A)])
    wait_until(lambda: host.feed.latest(A))
    host.now({"id": 0, "uuid": A, "instances": [{"id": 3, "gi": 1, "smact": 0.5}]})
    host.feed.start([instance("MIG-1", "3g.20gb")])
    wait_until(lambda: host.feed.latest("MIG-1"))
    assert host.feed.latest(A) is None
