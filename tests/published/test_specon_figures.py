"""The benchmark of SpeCon: its trials, its rows, its section of a shared page."""

from __future__ import annotations

import pytest

from benchmarks.specon.farm import Played, Trial, play
from benchmarks.specon.rows import change

SMALL = Trial(8, 2, mixed=True, within_s=60.0)


@pytest.mark.parametrize("measure", ["paper", "relative"])
def test_a_trial_with_specon_moves_jobs_and_completes_them(measure: str) -> None:
    found = play(SMALL, Played("blind", {"measure": measure}), 0)
    assert len(found.completion_s) == SMALL.jobs
    assert 0 < found.moves <= 2 * SMALL.jobs
    assert play(SMALL, Played("blind", {"measure": measure}), 0) == found, "the same bit for bit"


def test_without_specon_no_job_moves() -> None:
    assert play(SMALL, Played(), 1).moves == 0


def test_from_blind_placement_jobs_end_sooner_on_average() -> None:
    assert change(SMALL, {}, range(3), "blind").mean < 0
