"""What `dcgmi` prints, as a table and as rubbish."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core.records import Counters
from radrm.host.gpus.dcgm import (
    POWER_MAX_W,
    Dmon,
    Row,
    parse_discovery,
    parse_hierarchy,
)
from radrm.host.gpus.stream import LineKind

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
    assert rows[1] == Row(("GPU", 0), 0.7, 99.0, None, Counters(sm_occupancy=0.1))
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


@pytest.mark.parametrize(
    "header",
    [
        "#Entity GRACT SMACT SMOCC DRAMA PCITX PCIRX",
        "#Entity GR_ENGINE_ACTIVE SM_ACTIVE SM_OCCUPANCY DRAM_ACTIVE PCIE_TX_BYTES PCIE_RX_BYTES",
        "#Entity GRACTRATIO SMACTRATIO SMOCCRATIO DRAMACTIVITYRATIO PCIETX PCIERX",
    ],
)
def test_further_columns(header: str) -> None:
    cells = "GPU 0 0.9 0.5 1.005 N/A 2097152 -1"
    _, row = read(header, cells)
    assert isinstance(row, Row)
    assert (row.smact, row.counters) == (0.5, Counters(0.9, 1.0, None, 2.0, None))
    _, row = read(header, "GPU 0 1.2 0.5 -0.1 nan 1e300 inf")
    assert isinstance(row, Row) and row.counters == Counters()


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
            assert row.power_w is None or 0 <= row.power_w <= POWER_MAX_W
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
