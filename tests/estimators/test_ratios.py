"""Bounds of SM activity and duration: assumed first, then learned from the runs here."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.core.records import DECLARED, MEASURED, Estimate, JobSpec
from radrm.core.words import Quantity
from radrm.estimators.auto import Auto
from radrm.estimators.declared import Declared
from radrm.estimators.history import History
from radrm.estimators.interface import Description, PastRun
from radrm.estimators.learning.ratios import ALONE, SHARED, Ratios, bounded, ratios, told_of
from radrm.structs import replace
from radrm.wiring import _declared_first
from tests.examples import some

A100 = "A100"
JOB = Description(spec=JobSpec("a", "ann", 1000), device_kind=A100)


def runs(source: str, *pairs: tuple[float, float], **changes: object) -> tuple[PastRun, ...]:
    """Past runs alone of which a source told the first duration, and that took the second."""
    return tuple(
        PastRun(1, A100, alone=True, duration_s=took, told_duration={source: told}, **changes)
        for told, took in pairs
    )


def duration(value: float, source: str, upper: float | None = None) -> Estimate:
    return Estimate(Quantity.DURATION, value, value if upper is None else upper, source)


def test_without_runs_a_bound_is_the_assumed_one() -> None:
    found = bounded(duration(100.0, ALONE), JOB, 0.95)
    assert (found.value, found.upper, found.raw) == (100.0, 130.0, 100.0)
    assert bounded(duration(100.0, SHARED), JOB, 0.95).upper == 150.0, "wider"
    theirs = bounded(duration(100.0, "a third party's"), JOB, 0.95)
    assert (theirs.value, theirs.upper) == (100.0, 100.0)


def test_runs_here_correct_the_value_and_the_bound() -> None:
    past = runs(ALONE, *[(100.0, 200.0)] * 100)
    found = bounded(duration(50.0, ALONE), replace(JOB, recent_runs=past), 0.9)
    assert found.value == pytest.approx(100.0, rel=0.03)
    assert found.upper == pytest.approx(100.0, rel=0.15)
    one = bounded(duration(50.0, ALONE), replace(JOB, recent_runs=past[:1]), 0.9)
    assert 55.0 < one.value < 65.0, "one run moves it little"


def test_the_bound_of_a_declared_figure_is_learned_and_its_value_stays() -> None:
    job = replace(JOB, declared_duration_s=100.0, declared_smact=0.5)
    assert [(e.value, e.upper) for e in Auto((Declared(),)).estimate(job)] == [
        (0.5, 0.5),
        (100.0, 100.0),
    ]
    late = replace(job, recent_runs=runs(DECLARED, *[(100.0, 130.0)] * 60))
    smact, length = _declared_first(Auto((Declared(), History())), late)
    assert (length.value, length.upper, length.raw) == (100.0, 130.0, None)
    assert (smact.value, smact.upper) == (0.5, 0.5)


def test_only_what_was_measured_teaches_about_activity() -> None:
    run = PastRun(1, A100, smact=0.8, told_smact={SHARED: 0.4})
    assert ratios(SHARED, Quantity.SMACT, [run], A100).seen == ()
    assert ratios(SHARED, Quantity.SMACT, [replace(run, smact_alone=True)], A100).seen == (2.0,)
    assert ratios(SHARED, Quantity.SMACT, [replace(run, alone=True)], "H100").seen == ()
    nonsense = replace(run, alone=True, told_smact={SHARED: 1e-9})
    assert ratios(SHARED, Quantity.SMACT, [nonsense], A100).seen == ()


def test_a_time_limit_and_a_whole_gpu_bound_the_figures() -> None:
    limited = replace(JOB, spec=replace(JOB.spec, time_limit_s=110.0))
    assert bounded(duration(100.0, SHARED), limited, 0.95).upper == 110.0
    assert bounded(duration(200.0, SHARED), limited, 0.95).value == 110.0
    full = bounded(Estimate(Quantity.SMACT, 0.9, 0.95, SHARED), JOB, 0.95)
    assert (full.value, full.upper) == (0.9, 1.0)


def test_each_source_is_told_once_with_its_own_figure() -> None:
    estimates = (
        Estimate(Quantity.SMACT, 0.1, 0.2, MEASURED),
        Estimate(Quantity.SMACT, 0.5, 0.6, ALONE, raw=0.4),
        Estimate(Quantity.SMACT, 0.7, 0.7, ALONE),
        duration(9.0, ALONE),
    )
    assert told_of(estimates, Quantity.SMACT) == {ALONE: 0.4}


@given(
    st.lists(st.floats(1e-3, 1e3), max_size=30),
    st.lists(st.floats(0.1, 10), min_size=1, max_size=9),
    st.floats(0.0, 1.0),
)
def test_more_confidence_never_means_less_time(
    seen: list[float], prior: list[float], quantile: float
) -> None:
    known = Ratios(tuple(seen), tuple(prior))
    assert 0 < known.bias <= known.upper(quantile) <= known.upper(1.0)


@settings(max_examples=some(25))
@given(st.lists(st.floats(0.5, 2.0), min_size=100, max_size=200))
def test_the_bound_holds_for_as_many_of_the_runs_as_it_says(seen: list[float]) -> None:
    known = Ratios(tuple(seen))
    held = sum(ratio <= known.upper(0.95) * (1 + 1e-9) for ratio in seen)
    assert held >= 0.9 * len(seen)
