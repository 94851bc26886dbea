"""The values of a sweep in `status`, and the verdict on a card."""

from __future__ import annotations

import pytest

from radrm.cli.show.card import card
from radrm.cli.show.jobs import job_rows
from radrm.client.words.jobs import params_text
from tests.cli.fakes import ESC, NOW, job, shown


@pytest.mark.parametrize(
    ("params", "last", "text"),
    [
        (None, None, ""),
        ({"lr": "1e-3", "seed": "0"}, None, "lr=1e-3 seed=0"),
        ({"lr": "1", "seed": "0"}, {"lr": "1", "seed": "9"}, "seed=0 to seed=9"),
        ({"lr": "1", "seed": "0"}, {"lr": "2", "seed": "9"}, "lr=1 seed=0 to lr=2 seed=9"),
        ({"lr": "1"}, {"lr": "1"}, "lr=1"),
    ],
)
def test_the_values_in_one_line(
    params: dict[str, str] | None, last: dict[str, str] | None, text: str
) -> None:
    assert params_text(job(params=params, params_last=last)) == text


def test_only_a_page_with_a_sweep_has_the_column() -> None:
    both = [job(1, params={"x": f"{ESC}1"}), job(2)]
    for width in (60, 80, 120):
        head, first, _ = shown(job_rows(both, {}, NOW), width)
        assert "PARAMS" in head and len(first) <= width
        assert "RESERVED" in head or width < 80, "it stays at 80 columns"
        assert "\x1b" not in first and "\u202e" not in first
    assert "PARAMS" not in shown(job_rows(both[1:], {}, NOW))[0]


def test_a_card_ends_with_its_verdict() -> None:
    lines = ["asked 12.0G, peak 4.9G: try --gpu-memory=6G", "SM activity 4%"]
    ended = job(1, "COMPLETED", verdict=lines, params={"lr": "1e-3"})
    text = shown(card(ended, NOW, {}))
    assert text[-3:-1] == [f"  verdict     {lines[0]}", f"              {lines[1]}"]
    assert text[-1].startswith("  next") and "  params      lr=1e-3" in text
    assert not any("verdict" in line for line in shown(card(job(1, "COMPLETED"), NOW, {})))
