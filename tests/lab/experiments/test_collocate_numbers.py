"""`radrm bench collocate`: steps, throughput, PCIe traffic and the verdict, by tables."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from radrm.errors import UsageError
from radrm.lab.experiments.collocate.numbers import (
    Copies,
    CopyRun,
    Point,
    Round,
    Steps,
    coarse,
    compiled,
    parse_copies,
    parse_modes,
    rate,
)
from radrm.lab.experiments.collocate.rounds import Link, mean_traffic
from radrm.lab.show.collocation import table
from tests.standins.nvml_library import Nvml

# ------------------------------------------------------------------ steps


def read(pattern: str, *pieces: tuple[float, str]) -> list[tuple[float, float]]:
    steps = Steps(compiled(pattern))
    for at_s, text in pieces:
        steps.feed(text.encode(), at_s)
    return [(point.at_s, point.step) for point in steps.points]


@pytest.mark.parametrize(
    ("pattern", "pieces", "points"),
    [
        ("it", [(1, "it\nno\n"), (2, "it\n")], [(1, 1), (2, 2)]),
        (r"step (\d+)", [(1, "step 10 of 99\n"), (2, "step 20 of 99\n")], [(1, 10), (2, 20)]),
        (r"(\d+) of (?P<step>\d+)", [(1, "1 of 7\n")], [(1, 7)]),
        (r"step (\d+)", [(1, "st"), (2, "ep 5"), (3, "\n")], [(3, 5)]),
        (r"(\d+)it", [(1, "10it\r"), (2, "20it\r30it\r")], [(1, 10), (2, 20), (2, 30)]),
        (r"step (\d+)", [(1, "step 90\n"), (2, "step 10\n"), (3, "step 20\n")], None),
        (r"loss (\S+)", [(1, "loss nonsense\n"), (2, "loss 3\n")], [(2, 3)]),
        (r"a|b(\d)", [(1, "a\n"), (2, "b4\n")], [(2, 4)]),
    ],
)
def test_steps_are_read_from_lines(
    pattern: str, pieces: list[tuple[float, str]], points: list[tuple[float, float]] | None
) -> None:
    counter_begins_anew = [(1, 90), (2, 100), (3, 110)]
    assert read(pattern, *pieces) == (points or counter_begins_anew)


@given(st.lists(st.binary(max_size=60), max_size=12), st.integers(0, 3))
def test_no_bytes_break_the_reading(pieces: list[bytes], seed: int) -> None:
    steps = Steps(compiled((r"(\d+)", r".", r"(?P<step>\S+)", r"x(y)?")[seed]))
    for at_s, data in enumerate(pieces):
        steps.feed(data, float(at_s))
    numbers = [point.step for point in steps.points]
    assert numbers == sorted(numbers)


def test_a_pattern_that_is_none() -> None:
    with pytest.raises(UsageError, match="--step-pattern"):
        compiled("(")


def test_a_rate_is_of_what_falls_into_the_time() -> None:
    points = [Point(float(at), float(10 * at)) for at in range(10)]
    assert rate(points, 0, 100) == pytest.approx(10)
    assert rate([Point(0, 0), *points[5:]], 5, 9) == pytest.approx(10)
    assert rate(points, 3.5, 4.5) is None
    assert rate([], 0, 9) is None
    assert rate([Point(1, 5), Point(2, 5)], 0, 9) is None


# ------------------------------------------------------------------ numbers


def run(start: float, end: float, outcome: str = "completed", steps: float = 0) -> CopyRun:
    points = tuple(Point(start + s, steps * s) for s in range(int(end - start))) if steps else ()
    return CopyRun(started_s=start, ended_s=end, outcome=outcome, peak_mib=100, points=points)


def many(mode: str, *runs: CopyRun, **more: Any) -> Round:
    return Round(mode=mode, runs=runs, **more)


ALONE = many("timeslice", run(0, 100), energy_j=1000.0)


def test_throughput_is_against_one_after_another() -> None:
    pair = many("timeslice", run(0, 150), run(10, 160), energy_j=2400.0)
    results = Copies([ALONE, pair])
    assert results.work(ALONE) == 1
    assert results.work(pair) == pytest.approx(2 * 100 / 160)
    assert results.slowdown(pair) == pytest.approx(1.6)
    assert pair.time_s == 150
    assert (pair.energy_per_copy_j, pair.power_w) == (1200, 15)


def test_steps_count_where_both_tell_them() -> None:
    alone = many("timeslice", run(0, 50, steps=2.0))
    pair = many("mps", run(0, 90, steps=1.5), run(40, 130, steps=1.5))
    results = Copies([alone, pair])
    assert pair.steps_per_s == pytest.approx(3)
    assert pair.step_s == pytest.approx(1 / 1.5)
    assert results.work(pair) == pytest.approx(1.5)


def test_what_was_cut_short_has_no_time_of_its_own() -> None:
    cut = many("mps", run(0, 60, "cancelled", steps=1.0), cut=True, energy_j=600.0)
    assert cut.sound
    assert (cut.time_s, cut.makespan_s, cut.energy_per_copy_j) == (None, None, None)
    assert cut.energy_per_step_j == pytest.approx(10)
    assert not many("mps", run(0, 60, "cancelled")).sound


def test_a_round_with_a_death_is_compared_with_nothing() -> None:
    dead = many("timeslice", run(0, 100), run(0, 5, "oom"))
    results = Copies([ALONE, dead])
    assert (dead.oom, dead.sound) == (1, False)
    assert results.work(dead) is None
    assert results.best() is None
    assert results.documents()[1]["outcomes"] == ["completed", "oom"]


@pytest.mark.parametrize(
    ("rounds", "said"),
    [
        ([ALONE], "No verdict"),
        ([], "No verdict"),
        ([many("timeslice", run(0, 9), run(0, 9))], "No verdict"),
        ([ALONE, many("mps", run(0, 125), run(0, 125))], "2 copies by mps do 1.60 times"),
        ([ALONE, many("mps", run(0, 250), run(0, 250))], "Sharing does not pay"),
    ],
)
def test_the_verdict(rounds: list[Round], said: str) -> None:
    assert Copies(rounds).verdict().startswith(said)


def test_of_equal_gains_fewer_copies_win() -> None:
    pair = many("mps", run(0, 100), run(0, 100))
    four = many("mps", *(run(0, 200) for _ in range(4)))
    assert Copies([ALONE, four, pair]).best() is pair


def test_the_table_shows_what_is_not_known_as_such() -> None:
    dead = many("mps", run(0, 5, "oom"), smact_source="nvml-utilization")
    console = Console(width=200, record=True, file=open(os.devnull, "w"))
    console.print(table(Copies([ALONE, dead])))
    shown = console.export_text()
    assert "1.00x" in shown
    assert "1 of 1 out of GPU memory" in shown
    assert coarse([dead])
    assert not coarse([ALONE])


@pytest.mark.parametrize(
    ("text", "numbers"), [("1,2,4", [1, 2, 4]), ("4,2,2", [1, 2, 4]), ("1", [1])]
)
def test_copies_are_read(text: str, numbers: list[int]) -> None:
    assert parse_copies(text) == numbers


@pytest.mark.parametrize("text", ["", "0", "49", "two", "1,,2", "-1"])
def test_copies_that_cannot_be(text: str) -> None:
    with pytest.raises(ValueError, match=r"1,2,4|from 1 to 48"):
        parse_copies(text)


def test_modes_are_read() -> None:
    assert parse_modes("mps, timeslice,mps") == ["mps", "timeslice"]
    with pytest.raises(ValueError, match="timeslice, mps and mig"):
        parse_modes("streams")


# ------------------------------------------------------------------ PCIe traffic


def test_traffic_is_a_mean_of_what_was_sampled() -> None:
    assert mean_traffic([]) == (None, None)
    assert mean_traffic([(100.0, 10.0), (300.0, 30.0)]) == (200.0, 20.0)


def test_the_link_of_a_gpu(nvml: Nvml) -> None:
    uuid = nvml.gpu(pcie_rx_kb_s=3_000_000, pcie_tx_kb_s=70_000)
    link = Link(uuid)
    assert link.sample() == (3000.0, 70.0)
    nvml.set(uuid, pcie_rx_kb_s=None)
    assert link.sample() is None
    link.close()
    assert "nvmlShutdown" in nvml.calls()
    for none in (uuid, nvml.mig(uuid, "1g.5gb"), "GPU-unknown", ""):
        other = Link(none)
        assert other.sample() is None
        other.close()
