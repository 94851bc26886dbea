"""What is known of a simulated job: `--known smact,duration=0.3,memory=0.08`."""

from __future__ import annotations

from math import log
from random import Random
from statistics import mean, stdev

import pytest

from radrm.config import Config
from radrm.core.words import Quantity
from radrm.errors import UsageError
from radrm.lab.experiments.simulations.variants import Choices, make_variant
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.estimates import figure_mib, known_records
from radrm.lab.simulator.scenario import Known
from tests.lab.simulator.traces import job, scenario

ALL = Known(memory=0.08, smact=0.15, duration=0.3)


@pytest.mark.parametrize("quantity", [Quantity.MEMORY, Quantity.SMACT, Quantity.DURATION])
def test_figures_have_the_error_that_is_asked_for(quantity: Quantity) -> None:
    true = job(duration_s=3600.0, memory_mib=8000.0, smact=0.3)
    exact = {Quantity.MEMORY: 8000.0, Quantity.SMACT: 0.3, Quantity.DURATION: 3600.0}
    errors = {Quantity.MEMORY: 0.08, Quantity.SMACT: 0.15, Quantity.DURATION: 0.3}
    rng = Random(1)
    drawn = [known_records(true, ALL, rng) for _ in range(2000)]
    found = [next(e for e in each if e.quantity is quantity) for each in drawn]
    off = [log(each.value / exact[quantity]) for each in found]
    assert mean(off) == pytest.approx(0.0, abs=0.02)
    assert stdev(off) == pytest.approx(errors[quantity], rel=0.1)
    held = mean(each.upper >= exact[quantity] for each in found)
    assert held == pytest.approx(0.95, abs=0.02)


def test_what_is_known_changes_no_other_figure() -> None:
    both = known_records(job(), ALL, Random(7))
    alone = known_records(job(), Known(duration=0.3), Random(7))
    assert alone == tuple(e for e in both if e.quantity is Quantity.DURATION)
    assert known_records(job(), Known(), Random(7)) == ()


def test_a_known_need_replaces_the_estimator_and_is_no_cap() -> None:
    known = scenario(known=Known(memory=0.0), estimator="none")
    (run,) = simulate([job(memory_mib=8000)], known).jobs
    assert run.attempts[0].reserved_mib > 8000, "a declared need would be reserved as it is"


def test_what_users_declare_may_be_wrong() -> None:
    jobs = [job(memory_mib=8000, name=f"job{at}") for at in range(20)]
    exact = simulate(jobs, scenario(estimator="declared"))
    (right,) = {run.attempts[0].reserved_mib for run in exact.jobs}
    wrong = simulate(jobs, scenario(known=Known(declared=0.08)))
    reserved = {run.attempts[0].reserved_mib for run in wrong.jobs}
    assert len(reserved) == 20 and min(reserved) < right < max(reserved)


@pytest.mark.parametrize("word", ["needs", "smact=", "smact=-1", "smact=nan", "duration=9", "=1"])
def test_a_wrong_word_is_refused_in_one_line(word: str) -> None:
    with pytest.raises(UsageError, match=r"write NAME or NAME=ERROR.*memory, smact, duration"):
        make_variant(Config(), "magm", "oracle", Choices(known=[word]))


def test_words_become_errors() -> None:
    found = make_variant(Config(), "magm", "oracle", Choices(known=["smact", "duration=0.3"]))
    assert found.scenario.known == Known(smact=0.0, duration=0.3)


def test_a_declared_figure_is_never_a_mark_of_failure() -> None:
    """The prototype writes 40000 for a failed estimate. A job of a larger GPU may declare it."""
    for declared, mib in ((False, 2.0**30), (True, 48_000.0)):
        assert figure_mib(job(estimates={"told": 48_000.0}, declared=declared), "told") == mib
