"""Charts are well-formed, escape names, keep extremes and gaps, and are bounded."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.pages.charts import (
    Axis,
    Bin,
    GanttBar,
    GanttRow,
    Kind,
    Limit,
    Series,
    bars,
    counts,
    curves,
    gantt,
    numbers,
    sizes,
)
from radrm.pages.charts.curves import thinned
from radrm.pages.charts.frame import COLOURS, cells, clock_ticks, safe, shortened
from radrm.pages.document import CHARTS
from tests.examples import some

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert('x')</script>\x1b[31m\n\u202e\ud800\ufffe\x00&\"" + "x" * 128


def read(figure: str) -> ElementTree.Element:
    """Parse a figure, and check what holds for each."""
    root = ElementTree.fromstring(figure)
    assert root.tag == "figure"
    for each in root.iter():
        name = each.tag.removeprefix(SVG)
        assert name not in ("script", "style", "foreignObject", "image", "a")
        assert not [a for a in each.attrib if a == "style" or a.startswith("on")]
        for word in (*each.attrib.get("class", "").split(),):
            known = ("chart", "drawing", "sample", "legend", "note", "tick", "open-")
            assert word in CHARTS or word.startswith(known), word
    drawing = root.find(f"div/{SVG}svg")
    assert drawing.attrib["role"] == "img"
    ids = [each.attrib["id"] for each in root.iter() if "id" in each.attrib]
    assert len(ids) == len(set(ids))
    assert drawing.attrib["aria-labelledby"].split() == ids[:2]
    for place in re.findall(r"url\(#([^)]*)\)", figure):
        assert place in ids
    for each in root.iter():  # no drawing at "nan"; a series may be called so
        assert not re.search(r"\b(nan|inf)\b", " ".join(each.attrib.values())), each.attrib
    return root


def texts(root: ElementTree.Element, kind: str) -> list[str]:
    return [each.text or "" for each in root.iter(f"{SVG}text") if kind in each.attrib["class"]]


@pytest.mark.parametrize(
    ("axis", "largest", "shown"),
    [
        (counts("jobs"), 0, ["0", "1"]),
        (counts("jobs"), 3, ["0", "1", "2", "3"]),
        (counts("jobs"), 27, ["0", "10", "20", "30"]),
        (sizes("memory"), 40_000, ["0M", "8.0G", "16.0G", "24.0G", "32.0G", "40.0G"]),
        (numbers("kWh"), 0.0042, ["0", "0.001", "0.002", "0.003", "0.004", "0.005"]),
    ],
)
def test_ticks_are_round_and_reach_the_largest(
    axis: Axis, largest: float, shown: list[str]
) -> None:
    ticks = axis.ticks(largest)
    assert [axis.show(tick) for tick in ticks] == shown
    assert ticks[-1] >= largest


@pytest.mark.parametrize(
    ("begin", "hours", "shown"),
    [
        ("2030-03-30 00:00", 12, ["30 Mar", "2:00", "4:00", "6:00", "8:00", "10:00", "12:00"]),
        # The clock goes from 2:00 to 3:00 on the 31st: texts stay round.
        ("2030-03-30 12:00", 35, ["12:00", "18:00", "31 Mar", "6:00", "12:00", "18:00"]),
        ("2030-03-28 00:00", 24 * 6, ["28 Mar", "29 Mar", "30 Mar", "31 Mar", "1 Apr", "2 Apr"]),
        ("2030-06-01 09:00", 0.05, ["9:00:00", "9:00:30", "9:01:00", "9:01:30", "9:02:00"]),
    ],
)
def test_ticks_of_time_are_round_local_times(
    zone: Callable[[str], None], begin: str, hours: float, shown: list[str]
) -> None:
    zone("Europe/Berlin")
    begin_s = time.mktime(time.strptime(begin, "%Y-%m-%d %H:%M"))
    found = [text for _, text in clock_ticks(begin_s, begin_s + hours * 3600)]
    assert found[: len(shown)] == shown


def test_thinning_keeps_extremes_and_gaps() -> None:
    points = [(float(i), float(i % 7)) for i in range(100_000)]
    points[50_000] = (50_000.0, 1e6)
    gap: list[tuple[float, float | None]] = [*points[:70_000], (70_000.0, None), *points[70_001:]]
    pieces = thinned(gap, 0, 100_000, 500)
    assert len(pieces) == 2
    assert sum(map(len, pieces)) <= 5 * 501
    assert max(y or 0 for piece in pieces for _, y in piece) == 1e6
    assert pieces[0][0][0] == 0 and pieces[-1][-1][0] == 99_999
    assert all(x == sorted(x) for x in ([x for x, _ in piece] for piece in pieces))


def test_a_gap_is_neither_zero_nor_a_line() -> None:
    figure = curves(
        "gap", "Gap", [Series("a", [(0, 1), (1, 2), (2, None), (3, 3), (4, float("nan")), (5, 1)])],
        numbers("x"), 0, 5,
    )  # fmt: skip
    lines = [p for p in read(figure).iter(f"{SVG}path") if p.attrib["class"] == "line-blue"]
    assert [p.attrib["d"].count("M") for p in lines] == [1, 1, 1]
    assert "from 1 to 3, 1 at the end" in figure


def test_an_unknown_bar_differs_from_zero() -> None:
    root = read(bars("b", "Bars", [Bin("a", [0]), Bin("b", [None]), Bin("c", [2])], counts("n")))
    assert [r.attrib["class"] for r in root.iter(f"{SVG}rect")] == [
        "unknown", "fill-blue",
    ]  # fmt: skip


def test_layers_have_patterns_and_names() -> None:
    kinds = [Kind("completed", "green"), Kind("failed", "orange", "right")]
    figure = bars("b", "Bars", [Bin("a", [1, 2]), Bin("b", [3, None])], counts("n"), kinds)
    root = read(figure)
    assert [each.text for each in root.iter("bdi")] == ["completed", "failed"]
    assert 'fill="url(#b-1)"' in figure
    assert "completed: 4. failed: 2." in figure
    assert "a: completed 1, failed 2" in figure


def test_jobs_that_share_a_gpu_lie_below_each_other() -> None:
    row = GanttRow("GPU 0", [GanttBar(0, 50, 0, "one"), GanttBar(10, None, 1, "two")])
    figure = gantt("g", "Jobs", [row], [Kind("done"), Kind("running", "blue", "open")], 0, 100)
    shapes = [r for r in read(figure).iter(f"{SVG}rect") if "x" in r.attrib]
    assert len({r.attrib["y"] for r in shapes}) == 2
    assert texts(read(figure), "inside") == ["one", "two"]
    assert "to now" in figure


def test_a_gantt_chart_is_bounded_and_says_so() -> None:
    many = [GanttBar(i, i + 1, 0, "x" * 128) for i in range(6000)]
    figure = gantt("g", "Jobs", [GanttRow("GPU 0", many)], [Kind("done")], 0, 6000)
    assert re.search(r"\d+ more bars are not drawn", figure)
    assert len(figure) < 1_300_000
    same = [GanttBar(0, 10, 0, str(i)) for i in range(20)]
    assert "12 more bars" in gantt("g", "J", [GanttRow("0", same)], [Kind("d")], 0, 10)
    rows = [GanttRow(str(i), [GanttBar(0, 1, 0, "x")]) for i in range(70)]
    assert "16 more bars" in gantt("g", "J", rows, [Kind("d")], 0, 10, left_out=10)


def test_a_figure_has_a_name_of_letters() -> None:
    with pytest.raises(ValueError, match="names no figure"):
        bars("a b", "Bars", [], counts("n"))


@pytest.mark.parametrize(
    ("text", "width", "short"),
    [
        ("train", 100, "train"),
        ("train_resnet", 60, "train_r…"),
        ("任务名称很长", 60, "任务名…"),
        ("xyz", 9, ""),
    ],
)
def test_labels_are_cut_to_their_room(text: str, width: float, short: str) -> None:
    assert shortened(text, width, 12) == short
    assert cells(short) * 12 * 0.56 <= width


def test_text_has_nothing_that_xml_forbids() -> None:
    ElementTree.fromstring(f'<p title="{safe(HOSTILE)}">{safe(HOSTILE)}</p>')
    assert "<script" not in safe(HOSTILE)


names = st.text(max_size=20) | st.just(HOSTILE)
values = st.none() | st.floats(width=64) | st.integers(-(10**20), 10**20).map(float)
points = st.lists(st.tuples(st.floats(width=64), values), max_size=12)
places = st.floats(width=64) | st.floats(0, 1e10)
PATTERNS = ("solid", "right", "left", "across", "down", "grid", "dots", "open")
KINDS = [Kind("", *look) for look in zip(COLOURS, PATTERNS, strict=True)]
axes = st.sampled_from([counts, numbers, sizes])


@settings(max_examples=some(25), deadline=None)
@given(
    names,
    st.lists(st.builds(Series, names, points, st.booleans(), st.booleans()), max_size=10),
    axes,
    places,
    places,
    st.lists(st.builds(Limit, names, st.floats(width=64)), max_size=3),
)
def test_any_curves_are_well_formed(
    name: str,
    series: list[Series],
    axis: Callable[[str], Axis],
    begin: float,
    end: float,
    limits: list[Limit],
) -> None:
    read(curves("a", name, series, axis(name), begin, end, limits=limits))


@settings(max_examples=some(25), deadline=None)
@given(
    names,
    st.lists(st.builds(Bin, names, st.lists(values, max_size=4), names), max_size=12),
    axes,
    st.integers(1, 4),
    st.booleans(),
)
def test_any_bars_are_well_formed(
    name: str, bins: list[Bin], axis: Callable[[str], Axis], layers: int, edges: bool
) -> None:
    read(bars("a", name, bins, axis(name), KINDS[:layers], edges=edges))


stays = st.builds(GanttBar, places, st.none() | places, st.integers(0, 7), names, names)


@settings(max_examples=some(25), deadline=None)
@given(
    names,
    st.lists(st.builds(GanttRow, names, st.lists(stays, max_size=6)), max_size=4),
    places,
    places,
)
def test_any_gantt_chart_is_well_formed(
    name: str, rows: list[GanttRow], begin: float, end: float
) -> None:
    read(gantt("a", name, rows, KINDS, begin, end))
