"""The page of the reproduction: what it marks, the thesis' sentences, the pictures."""

from __future__ import annotations

import pytest

from benchmarks.simulation.claims import CLAIMS, verdict
from benchmarks.simulation.published import ROWS, Row
from benchmarks.simulation.reproduction import PAGE, WHY, Judged
from radrm.simulator.metrics import Spread

ROW = Row("heavy60", "one", "magm", oom=3, energy_mj=30.0, wait_min=100.0, exec_min=50.0, smact=0.8)
RIGHT = {
    "oom_count": 3.0,
    "energy_j": 30e6,
    "mean_wait_s": 6000.0,
    "mean_exec_s": 3000.0,
    "gpu_smact_mean": 0.8,
    "makespan_s": 1000.0,
}


def judged(**changes: float) -> Judged:
    loop = {name: Spread(mean, 0.0) for name, mean in {**RIGHT, **changes}.items()}
    return Judged(ROW, loop, {}, 1000.0)


@pytest.mark.parametrize(
    ("figure", "near", "far", "shown"),
    [
        ("oom_count", 5.0, 5.1, "OOM 3 -> 5.1"),
        ("energy_j", 30.8e6, 31e6, "energy (MJ) 30 -> 31"),
        ("gpu_smact_mean", 0.82, 0.83, "SM activity 0.8 -> 0.83"),
        ("mean_wait_s", 5500.0, 5300.0, "waiting (min) 100 -> 88.3"),
        ("mean_exec_s", 3250.0, 3600.0, "execution (min) 50 -> 60"),
    ],
)
def test_a_figure_that_is_off_is_marked(figure: str, near: float, far: float, shown: str) -> None:
    assert judged().misses() == judged(**{figure: near}).misses() == []
    assert judged(**{figure: far}).misses() == [shown]


def test_a_sentence_holds_beyond_two_standard_errors() -> None:
    def of(mean: float) -> Spread:
        return Spread(mean, 2.0)

    # Of 16 seeds: two standard errors of the difference are sqrt(2), 1.41.
    assert verdict(of(10), of(11.5), 16) == "yes"
    assert verdict(of(10), of(11.4), 16) == verdict(of(11.4), of(10), 16) == "noise"
    assert verdict(of(11.5), of(10), 16) == "no"
    assert verdict(Spread(10, None), Spread(10.1, None), 1) == "yes"


def test_the_page_has_every_row_sentence_and_picture() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert all(f"| {row.what} " in page for row in ROWS)
    assert all(f"| {claim.section} {claim.says} |" in page for claim in CLAIMS)
    assert set(WHY) <= {row.what for row in ROWS}
    assert "](reproduction.svg)" in page and PAGE.with_suffix(".svg").is_file()
