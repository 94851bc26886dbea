"""What `dcgmi` prints, as a table and as rubbish."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.host.gpus.dcgm import parse_discovery, parse_hierarchy, parse_row
from radrm.host.gpus.stream import LineKind

A, B = "GPU-aaaaaaaa-0000", "GPU-bbbbbbbb-0000"


# ------------------------------------------------------------------ lines


@pytest.mark.parametrize(
    "line, expected",
    [
        ("GPU 3     0.354", (("GPU", 3), 0.354, "0.354")),
        ("GPU-I 4  1.004", (("GPU-I", 4), 1.0, "1.004")),
        ("GPU 0 0.000", (("GPU", 0), 0.0, "0.000")),
        ("GPU 0 1.294", (("GPU", 0), None, "1.294")),
        ("GPU 0 -0.100", (("GPU", 0), None, "-0.100")),
        ("GPU 0 N/A", (("GPU", 0), None, "N/A")),
        ("GPU 0 NAN", (("GPU", 0), None, "NAN")),
        ("GPU 0 INF", (("GPU", 0), None, "INF")),
        ("#Entity   SMACT", LineKind.HEADER),
        ("      Id", LineKind.HEADER),
        ("GPU 0", LineKind.MESSAGE),  # half a line
        ("GPU 0  0.5 100", LineKind.MESSAGE),
        ("GPU -1  0.5", LineKind.MESSAGE),
        ("GPU \u0663 0.5", LineKind.MESSAGE),
        ("GPU 99999999999999999999 0.5", LineKind.MESSAGE),
        ("Switch 0 0.5", LineKind.MESSAGE),
        ("Error setting watches. Result: -33", LineKind.MESSAGE),
    ],
)
def test_lines(line: str, expected: object) -> None:
    assert parse_row(line) == expected


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
