"""What a datagram says, and what a job has said last."""

from __future__ import annotations

from math import isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core.records import Instant, Progress, TaskUse
from radrm.host.progress import MOST_BYTES, BadReport, Latest, parse, parse_use

NOW = Instant(100.0, 1000.0, "boot")
LATER = Instant(160.0, 1060.0, "boot")


@pytest.mark.parametrize(
    "datagram, values",
    [
        (b"step=120\ntotal=1000\nloss=0.31\n", {"step": 120.0, "total": 1000.0, "loss": 0.31}),
        (b"step = 1 \r\n\r\nepoch=2.5", {"step": 1.0, "epoch": 2.5}),
        (b"", {}),
        (b"color=red\nstep=1", {"step": 1.0}),
        (b"step=1\nstep=2", {"step": 2.0}),
        (b"loss=-3e-2", {"loss": -0.03}),
        (b"work_done=1\nsaved=7", {"work_done": 1.0, "saved": 7.0}),
        (b"total=0\nstep=0", {"total": 0.0, "step": 0.0}),
        (b"data_wait=0.25\nresized=3", {"data_wait": 0.25, "resized": 3.0}),
        (b"use.main.0=1,2", {}),
        (b"x" * 506 + b"=1\nz=1", {}),
    ],
)
def test_a_report(datagram: bytes, values: dict[str, float]) -> None:
    assert parse(datagram) == values


@pytest.mark.parametrize(
    "datagram, reason",
    [
        (b"loss=nan", "loss=nan is not a finite number"),
        (b"step=inf", "step=inf is not a finite number"),
        (b"loss=1e999", "loss=inf is not a finite number"),
        (b"step=-1", "step=-1 is negative"),
        (b"total=-1", "total=-1 is negative"),
        (b"epoch=-0.5", "epoch=-0.5 is negative"),
        (b"saved=-2", "saved=-2 is negative"),
        (b"work_done=1.01", "work_done=1.01 is not between 0 and 1"),
        (b"work_done=-0.1", "work_done=-0.1 is not between 0 and 1"),
        (b"data_wait=1.5", "data_wait=1.5 is not between 0 and 1"),
        (b"resized=-1", "resized=-1 is negative"),
        (b"step=11\ntotal=10", "step=11 is more than total=10"),
        (b"step=ten", "step='ten' is not a number"),
        (b"step=\x1b[31m" + b"9" * 90, "step='\\x1b[31m9999999999999999999...' is not a number"),
        (b"hello", "'hello' is not KEY=NUMBER"),
        (b"step=\xff", "not UTF-8 text"),
        (b"a=" + b"1" * (MOST_BYTES - 1), "longer than 512 bytes"),
    ],
)
def test_a_datagram_that_is_dropped(datagram: bytes, reason: str) -> None:
    with pytest.raises(BadReport) as caught:
        parse(datagram)
    assert str(caught.value) == reason


@given(st.binary(max_size=600))
def test_any_bytes_are_numbers_or_a_reason_in_one_short_line(datagram: bytes) -> None:
    try:
        found = parse(datagram)
    except BadReport as bad:
        assert str(bad).isascii() and str(bad).isprintable() and len(str(bad)) < 160
    else:
        assert all(map(isfinite, found.values()))


def latest(*reports: dict[str, float]) -> Latest:
    found = Latest()
    for report in reports:
        found.take(report, NOW)
    return found


@pytest.mark.parametrize(
    "reports, expected",
    [
        ([{"step": 1, "total": 4}], (1, 4, 0.25)),
        ([{"total": 4}, {"step": 1}], (1, 4, 0.25)),
        ([{"step": 1}], (1, None, None)),
        ([{"step": 1, "total": 4, "work_done": 0.9}], (1, 4, 0.9)),
        ([{"work_done": 0.9}, {"step": 1}], (1, None, 0.9)),
        ([{"work_done": 0.9}, {"step": 1, "total": 4}], (1, 4, 0.25)),
        ([{"work_done": 0.2, "step": 9, "total": 10}, {"loss": 1}], (9, 10, 0.2)),
        ([{"step": 9, "total": 10}, {"total": 5}, {"step": 1}], (1, 5, 0.2)),
        ([{"step": 9, "total": 10}, {"step": 12}], (12, None, None)),
        ([{"step": 9, "total": 10}, {"total": 5}], (None, 5, None)),
        ([{"step": 0, "total": 0}], (0, None, None)),
        ([{"step": 1, "total": 4}, {"step": 5, "total": 0}], (5, None, None)),
        ([{"total": 10}, {"saved": 5}], (5, 10, 0.5)),
        ([{"total": 10, "step": 6}, {"saved": 5}], (6, 10, 0.6)),
    ],
)
def test_the_last_value_of_each_key_counts(
    reports: list[dict[str, float]], expected: tuple[float | None, ...]
) -> None:
    found = latest(*reports).progress(NOW)
    assert (found.step, found.total, found.work_done) == expected


def test_how_far_a_job_is_is_as_old_as_the_report_that_said_it() -> None:
    latest = Latest()
    latest.take({"step": 5.0, "total": 10.0}, NOW)
    latest.take({"loss": 0.5, "epoch": 1.0}, LATER)
    found = latest.progress(LATER)
    assert (found.at, found.measured, found.work_done) == (LATER, NOW, 0.5)
    latest.take({"saved": 7.0}, LATER)
    assert latest.progress(LATER).measured == LATER


def test_a_report_is_as_old_as_its_last_value() -> None:
    found = latest({"step": 1})
    assert found.progress(LATER).at == NOW


@pytest.mark.parametrize(
    "reports, expected",
    [
        (
            [{"step": 95, "total": 100, "loss": 0.1}, {"saved": 60}],
            Progress(NOW, 60, 100, None, 0.6),
        ),
        ([{"step": 60, "total": 100, "loss": 0.1, "saved": 60}], Progress(NOW, 60, 100, 0.1, 0.6)),
        ([{"saved": 60}], Progress(NOW, 60)),
        ([{"work_done": 0.5, "epoch": 2, "saved": 60}], Progress(NOW, 60, None, None, 0.5, 2)),
        ([{"saved": 60}, {"step": 61}], Progress(NOW, 60)),
        ([{"step": 1, "total": 10}, {"saved": 60}], Progress(NOW, 60)),
    ],
)
def test_what_is_saved_is_never_the_latest_report(
    reports: list[dict[str, float]], expected: Progress
) -> None:
    assert latest(*reports).saved == expected


NUMBERS = st.floats(0, 1e9) | st.sampled_from([0.0, 1.0])
REPORTS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("step", "total", "epoch", "saved"), NUMBERS),
        "loss": st.floats(allow_nan=False, allow_infinity=False),
        "work_done": st.floats(0, 1),
    },
)


@given(st.lists(REPORTS, max_size=6))
def test_progress_is_always_sound(reports: list[dict[str, float]]) -> None:
    found = latest(*reports)
    for each in filter(None, (found.progress(NOW), found.saved)):
        assert each.work_done is None or 0 <= each.work_done <= 1
        assert each.total is None or each.step is None or each.step <= each.total
    if any("saved" in report for report in reports):
        last = [report["saved"] for report in reports if "saved" in report][-1]
        assert found.saved.step == last


# ------------------------------------------------------------------ the use of tasks


def test_the_use_of_tasks() -> None:
    found = parse_use(b"step=1\nuse.main.0=12.5,300\n use.ps.v2.17 = 0,1,0.5\n")
    assert found == [TaskUse("main", 0, 12.5, 300), TaskUse("ps.v2", 17, 0.0, 1, 0.5)]
    assert parse_use(b"step=1") == []


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("use.main=1,2", "'use.main' names no task"),
        ("use..0=1,2", "'use..0' names no task"),
        ("use.main.256=1,2", "'use.main.256' names no task"),
        ("use.main.-1=1,2", "'use.main.-1' names no task"),
        ("use.main.0001=1,2", "'use.main.0001' names no task"),
        ("use.main.\u00b2=1,2", "'use.main.\\xb2' names no task"),
        (f"use.{'r' * 65}.0=1,2", "'use.rrrrrrrrrrrrrrrrrrrr...' names no task"),
        ("use.main.0=1", "'use.main.0' is not CPU_S,MIB or CPU_S,MIB,NETWORK"),
        ("use.main.0=1,2,0,4", "'use.main.0' is not CPU_S,MIB or CPU_S,MIB,NETWORK"),
        ("use.main.0=-1,2", "'use.main.0'='-1,2' is not a use of CPUs and memory"),
        ("use.main.0=1,-2", "'use.main.0'='1,-2' is not a use of CPUs and memory"),
        ("use.main.0=1e13,2", "'use.main.0'='1e13,2' is not a use of CPUs and memory"),
        ("use.main.0=1,1e10", "'use.main.0'='1,1e10' is not a use of CPUs and memory"),
        ("use.main.0=1,2,1.5", "'use.main.0': network 1.5 is not between 0 and 1"),
        ("use.main.0=nan,2", "use.main.0=nan is not a finite number"),
        ("use.main.0=x,2", "use.main.0='x' is not a number"),
    ],
)
def test_a_use_that_is_dropped(line: str, reason: str) -> None:
    with pytest.raises(BadReport) as caught:
        parse_use(line.encode())
    assert str(caught.value) == reason


def test_the_wait_for_data_is_part_of_the_progress() -> None:
    latest = Latest()
    latest.take({"step": 5.0, "data_wait": 0.5}, NOW)
    latest.take({"step": 6.0}, LATER)
    assert latest.progress(LATER) == Progress(LATER, 6.0, data_wait=0.5)
