"""The page of the reproduction: what it marks, the thesis' sentences, the pictures."""

from __future__ import annotations

import pytest

from benchmarks.simulation.claims import CLAIMS, EXTRA_ROWS, UNITS, claims_table, verdict
from benchmarks.simulation.pictures import BIN_S, binned
from benchmarks.simulation.published import ROWS, Row
from benchmarks.simulation.reproduction import PAGE, WHY, Judged
from radrm.simulator.metrics import NAMES, Spread
from radrm.simulator.run import DeviceRun, DeviceStep

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


def test_every_sentence_compares_rows_that_are_measured() -> None:
    rows = {(row.trace, row.what) for row in (*ROWS, *EXTRA_ROWS)}
    for claim in CLAIMS:
        assert {(claim.trace, name) for name in (*claim.less, *claim.more)} <= rows
        assert claim.figure in UNITS and claim.figure in NAMES
        assert not set(claim.less) & set(claim.more)


def test_a_sentence_shows_the_rows_that_are_nearest_to_each_other() -> None:
    figures = dict.fromkeys(UNITS, Spread(60.0, 0.0))
    found = {(row.trace, row.what): dict(figures) for row in (*ROWS, *EXTRA_ROWS)}
    found["mix90", "Oracle first fit"]["makespan_s"] = Spread(600.0, 6.0)
    found["mix90", "Oracle best fit"]["makespan_s"] = Spread(120.0, 6.0)
    found["mix90", "Oracle least utilized"]["makespan_s"] = Spread(180.0, 6.0)
    found["mix90", "Oracle first fit"]["mean_exec_s"] = Spread(120.0, 6.0)
    lines = claims_table(found, 12)
    assert lines[2] == "| 6.4.1 worst fit is fastest | yes | 1±0, 2±0 min |"
    assert lines[5] == "| 6.4.1 best fit has the longest execution | no | 2.0±0.1, 1.0±0.0 min |"


def test_the_page_has_every_row_sentence_and_picture() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert all(f"| {row.what} " in page for row in ROWS)
    assert all(f"| {claim.section} {claim.says} |" in page for claim in CLAIMS)
    assert set(WHY) <= {row.what for row in ROWS}
    assert "](reproduction.svg)" in page and PAGE.with_suffix(".svg").is_file()


def test_a_curve_keeps_its_mean_in_bins() -> None:
    steps = (DeviceStep(0, 0, 0.0, 0), DeviceStep(BIN_S / 2, 0, 1.0, 0))
    device = DeviceRun("gpu", 1, steps)
    assert binned(device, lambda step: step.smact, 1.5 * BIN_S) == (
        [BIN_S / 2, 1.25 * BIN_S],
        [0.5, 1.0],
    )
