"""The benchmark of SpeCon: its trials, its rows, its section of a shared page."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.sections import put_section
from benchmarks.specon.farm import Played, Trial, play
from benchmarks.specon.page import section
from benchmarks.specon.rows import ROWS, Change, Measured, change

SMALL = Trial(8, 2, mixed=True, within_s=60.0)


@pytest.mark.parametrize("measure", ["paper", "relative"])
def test_a_trial_with_specon_moves_jobs_and_completes_them(measure: str) -> None:
    found = play(SMALL, Played("blind", {"measure": measure}), 1)
    assert len(found.completion_s) == SMALL.jobs
    assert 0 < found.moves <= 2 * SMALL.jobs
    assert play(SMALL, Played("blind", {"measure": measure}), 1) == found, "the same bit for bit"


def test_without_specon_no_job_moves() -> None:
    assert play(SMALL, Played(), 1).moves == 0


def test_from_blind_placement_jobs_end_sooner_on_average() -> None:
    assert change(SMALL, {}, range(3)).mean < 0


def test_a_row_that_misses_its_reach_is_marked() -> None:
    good, bad = Change(-12.0, -22.0, 12.0, 0.0, 8.0), Change(-9.0, -22.0, 12.0, 0.0, 8.0)
    reached, missed = (Measured(ROWS[0], good, c, 700.0, 1300.0) for c in (good, bad))
    assert reached.misses() == [] and missed.misses() == ["mean -10 %"]
    live = {("20 mixed jobs", place): good for place in ("fewest", "lug")}
    text = section([reached, missed], live, 12)
    assert "| **-9.0, -22.0, 12 sooner** | -10, -20 |" in text
    assert "| -12.0, -22.0, 12 sooner | -10, -20 |" in text


def test_a_section_replaces_itself_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    put_section(page, "one", "first", "Title")
    put_section(page, "two", "second", "Title")
    put_section(page, "one", "newer", "Title")
    assert page.read_text() == (
        "# Title\n\n<!-- one: begin -->\nnewer\n<!-- one: end -->\n\n"
        "<!-- two: begin -->\nsecond\n<!-- two: end -->\n"
    )
