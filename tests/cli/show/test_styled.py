"""What is printed into a pipe without rich is, byte for byte, what rich prints into a pipe."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from radrm.cli.show.card import card, explanation
from radrm.cli.show.columns import Column, Rows
from radrm.cli.show.devices import devices_page
from radrm.cli.show.jobs import change_line, counts_line, job_rows, no_jobs
from radrm.cli.show.styled import Styled, cell_width, is_drawn, show
from radrm.client.text import FINAL, LIVE, WAITING
from radrm.core.words import JobState
from radrm.errors import plain
from tests.cli.fakes import ESC, NOW, gpu, job, shown

NAMES = [
    "resnet50",
    "",
    "a b",
    "日本語のモデル",
    "modèle",
    "e\u0301",
    "👩\u200d🔬",
    f"x{ESC}",
    "█░",
]
JOBS = [
    job(number, state.value, name=name, reason=f"because of {name}", gpus=number % 3)
    for number, (state, name) in enumerate((s, n) for s in JobState for n in NAMES)
]
INDEX = {"GPU-a": 0}
PAGES: dict[str, Sequence[Any]] = {
    "page": [counts_line({"RUNNING": 3, "PENDING": 97}, 4), Styled("note", "yellow")],
    "rows": [job_rows(JOBS, INDEX)],
    "no rows": [job_rows([], INDEX), no_jobs({"jobs": [], "user": None, "state": None, "all": 0})],
    "card": [part for each in JOBS for part in card(each, NOW, INDEX)],
    "explain": [
        part
        for each in JOBS
        for part in explanation({"job": each, "attempts": [], "reasons": [], "ahead": 1}
            | {"devices": [], "summary": None, "now": NOW})
    ],
    "changes": [change_line(each, INDEX, NOW) for each in JOBS],
    "gpus": devices_page(
        [gpu(n, name=f"A100 {name}", notes=[name * 9]) for n, name in enumerate(NAMES)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("page", PAGES)
def test_a_pipe_gets_the_same_bytes_with_and_without_rich(
    page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.delenv("TTY_COMPATIBLE", raising=False)
    pipe, by_rich = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    monkeypatch.setattr(sys, "stdout", pipe)
    show(*PAGES[page])
    for part in PAGES[page]:
        Console(file=by_rich, width=4096, highlight=False).print(part, soft_wrap=True)
    by_rich.flush()
    assert pipe.buffer.getvalue() == by_rich.buffer.getvalue() != b""


@given(st.text(max_size=20).map(plain))
def test_the_width_of_a_text_is_what_rich_takes_it_for(text: str) -> None:
    assert cell_width(text) == cell_len(text)


def test_lines_and_bars_are_measured_without_rich() -> None:
    for code in range(0x2500, 0x25A0):
        assert cell_width(chr(code)) == cell_len(chr(code)) == 1


@example("00", "\u10670", 3)  # a mark that takes no column, at the cut
@given(st.text(max_size=20).map(plain), st.text(max_size=5).map(plain), st.integers(1, 20))
def test_a_text_is_shortened_as_rich_does(first: str, second: str, width: int) -> None:
    styled = Styled(first, "bold")
    styled.append(second)
    text = Text(first + second)
    if text.cell_len > width:
        text.truncate(width, overflow="ellipsis")
        assert styled.shortened(width).plain == text.plain


@given(st.lists(st.tuples(st.text(max_size=9).map(plain), st.text(max_size=9).map(plain))))
def test_columns_stand_below_one_another_in_a_pipe(rows: list[tuple[str, str]]) -> None:
    table = Rows((Column("JOB", right=True), Column("NAME")))
    for row in rows:
        table.add(*row)
    shown(table, terminal=False)  # compares with rich


@pytest.mark.parametrize(
    ("environ", "drawn"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": ""}, False),
        ({"TTY_COMPATIBLE": "1"}, True),
        ({"TTY_COMPATIBLE": "0", "FORCE_COLOR": "1"}, False),
    ],
)
def test_the_environment_can_ask_for_colours_in_a_pipe(
    environ: dict[str, str], drawn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "utf-8"))
    assert is_drawn() is drawn


def test_a_pipe_that_is_not_utf_8_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", pipe)
    show(Styled("█░ 4 GPUs"))
    assert pipe.buffer.getvalue() == b"?? 4 GPUs\n"


def test_clients_sort_states_as_the_daemon_does() -> None:
    assert {s.value for s in JobState if s.final} == FINAL
    assert {s.value for s in JobState if s.live} == LIVE
    assert {s.value for s in JobState if s.waiting} == WAITING
