"""The page of all published figures: what is picked from the other pages, and its one word."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from benchmarks import pages, truth
from benchmarks.published_rows import PARTS, Pick, Row

PAGE = """\
## heavy60

| policy | time | OOM |
|---|---:|---:|
| RR **!** | -19.8±2.2/-14.7 | 6→10.6±0.9/34.2 |
| MAGM | -26.7*→-25.8±1.5/-26.1 | 4→4.7/2.2 |

## mix90

| policy | time |
|---|---|
| MAGM | **-24.2**, 3 |

The letter gives
0.50 of the CPUs.
"""


@pytest.mark.parametrize(
    ("pick", "found"),
    [
        (Pick("p", "RR", "OOM", 1), 10.6),
        (Pick("p", "MAGM", "time", 1), -25.8),
        (Pick("p", "MAGM", "time", under="mix90"), -24.2),
        (Pick("p", r"letter gives (\S+) of"), 0.5),
    ],
)
def test_a_figure_is_picked(pick: Pick, found: float) -> None:
    assert truth.figure(PAGE, pick) == found


def test_a_figure_that_is_not_there_is_an_error() -> None:
    with pytest.raises(truth.NoSuchFigure):
        truth.figure(PAGE, Pick("p", "LUG", "time"))


@pytest.mark.parametrize(
    ("published", "more", "word"),
    [
        ((-25.0, -25.0), {}, "reproduced"),
        ((-33.0, -33.0), {}, "missed"),
        ((-30.0, -24.0), {}, "reproduced"),  # a range
        ((-25.0, -25.0), {"close": True}, "reproduced"),
        ((-28.0, -28.0), {"close": True}, "missed"),
        ((-24.0, -24.0), {"within": 1.0, "close": True}, "missed"),
        ((-31.0, -31.0), {"word": "fitted"}, "fitted"),
    ],
)
def test_one_word_for_each_row(
    published: tuple[float, float], more: dict[str, Any], word: str
) -> None:
    row = Row("6", "time", published, Pick("p", "MAGM", "time", 1), **more)
    assert truth.judged(row, {"p": PAGE}).word == word


def test_a_row_without_a_command_is_not_tried() -> None:
    assert truth.judged(Row("6", "time", (1.0, 1.0)), {}).word == "not tried"


def test_the_page_is_what_the_other_pages_say() -> None:
    assert truth.PAGE.read_text() == truth.page()
    assert sum(len(part.rows) for part in PARTS) >= 72


@pytest.mark.parametrize(("before", "after", "failed"), [("", "", 0), ("-31.9", "-31.8", 1)])
def test_make_pages_fails_where_a_command_prints_another_figure(
    monkeypatch: pytest.MonkeyPatch, before: str, after: str, failed: int
) -> None:
    page = pages.PAGES[0]
    own = pages.section_of((pages.DOCS / f"{page.page}.md").read_text(), page.section or "")
    monkeypatch.setattr(pages, "PAGES", (page,))
    monkeypatch.setattr(pages, "_printed", lambda *_: own.replace(before, after, 1))
    monkeypatch.setattr(sys, "argv", ["pages"])
    assert pages.main() == failed
