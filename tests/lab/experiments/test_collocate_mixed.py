"""`radrm bench collocate --with`: figures of different programs; the default policy's settings."""

from __future__ import annotations

import os

import pytest
from rich.console import Console

from radrm.errors import Refused
from radrm.lab.experiments.collocate.measure import advise, at_once, modes_of
from radrm.lab.experiments.collocate.mixed import Mixed, change
from radrm.lab.experiments.collocate.numbers import CopyRun, Point, Round, parse_programs
from radrm.lab.experiments.collocate.rounds import Work
from radrm.lab.show.collocation import mixed_table

HOUR_S = 3600.0


def run(hours: float, outcome: str = "completed", begun: float = 0.0, rate: float = 0) -> CopyRun:
    """A program that runs so long, from `begun`, and does `rate` steps an hour."""
    points = [Point((begun + at) * HOUR_S, rate * at) for at in range(int(hours) + 1)]
    return CopyRun(
        started_s=begun * HOUR_S,
        ended_s=(begun + hours) * HOUR_S,
        outcome=outcome,
        points=points if rate else (),
    )


def alone(*programs: CopyRun, cut: bool = False) -> list[Round]:
    return [Round(mode="timeslice", runs=(each,), cut=cut) for each in programs]


# RAD-RM thesis, Table 4.2: hours of a recommender and of ResNet152; the change as printed there.
PUBLISHED = [
    ("timeslice", 6.09, 1.11, -0.05),
    ("mps", 5.57, 1.10, -0.13),
    ("mig", 5.60, 1.40, -0.13),
]
ALONE = alone(run(5.36), run(1.05))


@pytest.mark.parametrize(("mode", "first", "second", "printed"), PUBLISHED)
def test_the_published_mix(mode: str, first: float, second: float, printed: float) -> None:
    together = Round(mode=mode, runs=(run(first), run(second)))
    results = Mixed([together], ALONE)
    assert results.serial_s == pytest.approx(6.41 * HOUR_S)
    changed = change(results.work(together))
    assert round(changed, 2) == printed
    assert results.slowdowns(together) == pytest.approx([first / 5.36, second / 1.05])


def test_the_verdict_is_of_the_best_mode() -> None:
    rounds = [Round(mode=mode, runs=(run(a), run(b))) for mode, a, b, _ in PUBLISHED]
    assert Mixed(rounds, ALONE).verdict() == (
        "Together by mps they take 13% less time than one after another; their own times are "
        "1.04 (program 1), 1.05 (program 2) times those alone."
    )
    worse = Round(mode="timeslice", runs=(run(7), run(2)))
    said = Mixed([worse], ALONE).verdict()
    assert said.startswith("Sharing does not pay for these programs: at best, by timeslice, they")
    assert "9% more time" in said


def test_programs_that_were_cut_are_compared_by_their_steps() -> None:
    before = alone(run(9, "cancelled", rate=100), run(9, "cancelled", rate=10), cut=True)
    pair = Round(
        mode="mps",
        runs=(run(9, "cancelled", rate=80), run(7, "cancelled", begun=2, rate=5)),
        cut=True,
    )
    results = Mixed([pair], before)
    assert (results.serial_s, results.slowdowns(pair)) == (None, pytest.approx([1.25, 2.0]))
    assert results.work(pair) == pytest.approx(0.8 + 0.5)
    assert results.best() is pair


@pytest.mark.parametrize(
    ("rounds", "pair"),
    [
        ([], Round(mode="mps", runs=(run(1), run(1)))),
        (alone(run(1), run(1, "oom")), Round(mode="mps", runs=(run(1), run(1)))),
        (ALONE, Round(mode="mps", runs=(run(6), run(1, "oom")))),
        (alone(run(1, "cancelled"), run(1), cut=True), Round(mode="mps", runs=(run(1), run(1)))),
    ],
    ids=["nothing", "one dies alone", "one dies together", "cut without steps"],
)
def test_what_cannot_be_compared_is_not(rounds: list[Round], pair: Round) -> None:
    results = Mixed([pair], rounds)
    assert (results.work(pair), results.best()) == (None, None)
    assert results.verdict().startswith("No verdict")
    assert results.documents()[-1]["throughput"] is None


def test_documents_and_table_say_which_program() -> None:
    dead = Round(mode="mps", runs=(run(6), run(1, "oom")))
    pair = Round(mode="timeslice", runs=(run(6.09), run(1.11)), energy_j=5e6)
    results = Mixed([pair, dead], ALONE)
    documents = results.documents()
    assert [each["programs"] for each in documents] == [[1], [2], [1, 2], [1, 2]]
    assert (documents[0]["time_s"], documents[2]["time_s"]) == (5.36 * HOUR_S, None)
    console = Console(width=200, record=True, file=open(os.devnull, "w"))
    console.print(mixed_table(results))
    rows = [line.split() for line in console.export_text().splitlines()]
    assert rows[1][:6] == ["one", "by", "one", "5h21m", "1h03m", "6h24m"]
    assert rows[2][:8] == ["timeslice", "6h05m", "1.14x", "1h06m", "1.06x", "6h05m", "-5%", "-"]
    assert "1 of 2 out of GPU memory" in " ".join(rows[3])


def test_words_are_split_and_no_shell_reads_them() -> None:
    found = parse_programs(["python a.py --name 'two words'", "true; rm -rf $HOME"])
    assert found == (
        ("python", "a.py", "--name", "two words"),
        ("true;", "rm", "-rf", "$HOME"),
    )


@pytest.mark.parametrize(
    ("texts", "said"),
    [(["a 'b"], "no closing quotation"), ([" "], "an empty command"), (["x"] * 8, "9 programs")],
)
def test_programs_that_cannot_be(texts: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_programs(texts)


@pytest.mark.parametrize(
    ("kind", "mode", "said"),
    [
        ("mig", "mps", "is cut into MIG instances: --modes=mig"),
        ("gpu", "mig", "is not cut into MIG instances: --modes=timeslice,mps"),
    ],
)
def test_a_mode_that_the_gpu_cannot_have(kind: str, mode: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        modes_of({"kind": kind, "index": 0}, [mode])


def test_each_program_needs_an_instance_of_its_own() -> None:
    instance, work = {"kind": "mig", "index": 3}, Work(("a",), others=(("b",),))
    assert at_once([instance] * 2, [1, 2, 4], work) == [1, 2]
    assert at_once([{"kind": "gpu", "index": 3}], [1, 2, 4], work) == [1, 2, 4]
    with pytest.raises(Refused, match="GPU 3 has 1 such instances, too few for 2 programs"):
        at_once([instance], [1], work)


# ------------------------------------------------------------------ the default policy


@pytest.mark.parametrize(
    ("mode", "activities", "said"),
    [
        (
            "mps",
            [0.4] * 4,
            "with mps.enabled = true, radrm shares so: SM activity 4 x 0.40 = 1.60,",
        ),
        ("mps", [0.4] * 4, "within policies.packing.max_demand = 1.8."),
        (
            "mps",
            [0.7, 0.6, 0.6],
            "does not share so: SM activity 0.70 + 0.60 + 0.60 = 1.90 is above",
        ),
        ("timeslice", [0.5, 0.5], "radrm shares so: SM activity 2 x 0.50 = 1.00, within"),
        ("timeslice", [0.9, 0.7], "Lower policies.packing.timeslice_min_gain = 0.15 to allow"),
        ("timeslice", [0.4] * 3, "radrm shares so: SM activity 3 x 0.40 = 1.20, within"),
        ("mps", [None, 0.2], "0.60 + 0.20 (unknown: policies.packing.assumed_smact) = 0.80"),
        ("timeslice", [None], "0.40 (unknown: policies.packing.timeslice_assumed_smact) = 0.40"),
    ],
)
def test_the_settings_that_decide(mode: str, activities: list[float | None], said: str) -> None:
    line = advise(mode, activities)
    assert said in line


def test_no_setting_decides_about_mig_instances() -> None:
    assert advise("mig", [0.5, 0.5]) is None
