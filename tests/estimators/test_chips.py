"""SM activity is relative to the chip: it is scaled to another kind of GPU by SMs and clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core.records import DECLARED, Chip, Estimate, JobSpec
from radrm.core.words import Quantity
from radrm.estimators.auto import Auto
from radrm.estimators.declared import Declared
from radrm.estimators.describing import describe
from radrm.estimators.history import History
from radrm.estimators.interface import Description, PastRun
from radrm.estimators.learning.ratios import told_of
from radrm.interference.chips import chip_of, sms_of
from radrm.jobfile.radfile import read_job_file
from radrm.structs import replace

SPEC = JobSpec(name="a", user="u", uid=1000)
A100, H200 = Chip("NVIDIA A100-SXM4-40GB", 152_280.0), Chip("NVIDIA H200", 261_360.0)
rates = st.floats(1e3, 1e6)


def smact(value: float, upper: float, chip: Chip | None) -> Estimate:
    return Estimate(Quantity.SMACT, value, upper, "history", chip=chip)


def test_a_larger_chip_is_less_active_but_perhaps_not() -> None:
    there = smact(0.8, 0.84, A100).on(H200)
    assert there.value == pytest.approx(0.466, abs=0.001)
    assert (there.upper, there.chip) == (0.84, H200)


def test_a_smaller_chip_is_at_most_fully_active() -> None:
    there = smact(0.5, 0.7, H200).on(A100)
    assert there.value == pytest.approx(0.858, abs=0.001)
    assert there.upper == 1.0
    assert smact(0.9, 0.9, H200).on(A100).value == 1.0


@pytest.mark.parametrize("chips", [(None, A100), (A100, None), (A100, A100), (None, None)])
def test_of_an_unknown_chip_nothing_is_scaled(chips: tuple[Chip | None, Chip | None]) -> None:
    said = smact(0.6, 0.7, chips[0])
    assert said.on(chips[1]) is said


@given(st.floats(0, 1), st.floats(0, 1), rates, rates)
def test_there_and_back_is_the_same_below_saturation(
    value: float, more: float, here: float, there: float
) -> None:
    upper = min(1.0, value + more)
    said = smact(value, upper, Chip("a", here))
    scaled = said.on(Chip("b", there))
    assert 0 <= scaled.value <= 1 and scaled.value <= scaled.upper <= 1
    assert scaled.upper >= upper
    if scaled.value < 1:
        assert scaled.on(Chip("a", here)).value == pytest.approx(value)


# ------------------------------------------------------------------ what is declared


def described(smact: str, *chips: Chip) -> Description:
    data = f"#!/bin/sh\n#RAD --smact={smact}\ntrue\n".encode()
    return replace(describe(read_job_file(data, "a.rad", {})), chips=chips)


def test_a_declaration_may_name_its_type_of_gpu() -> None:
    (found,) = Declared().estimate(described("0.8@a100", A100, H200))
    assert (found.value, found.upper, found.chip, found.source) == (0.8, 0.8, A100, DECLARED)
    (plain,) = Declared().estimate(described("0.8", A100))
    assert plain.chip is None


def test_the_type_need_not_be_here() -> None:
    (found,) = Declared().estimate(described("0.8@A100", H200))
    assert found.chip == Chip("A100", 108 * 1410.0)
    assert found.on(H200).value == pytest.approx(0.466, abs=0.001)


def test_of_an_unknown_type_nothing_is_scaled_and_that_is_said() -> None:
    every = Auto((Declared(),)).estimate(described("0.8@foo", A100))
    found = next(each for each in every if each.quantity is Quantity.SMACT)
    assert found.chip is None
    assert found.guesses == ("SM activity: not scaled, because the SMs of a foo are unknown",)


@pytest.mark.parametrize(
    ("name", "sms"),
    [
        ("NVIDIA A100-SXM4-40GB", 108),
        ("Tesla V100-SXM2-32GB", 80),
        ("NVIDIA L40S", 142),
        ("NVIDIA L4", 58),
        ("NVIDIA A10", None),
        ("", None),
    ],
)
def test_common_chips(name: str, sms: int | None) -> None:
    found = sms_of(name)
    assert (None if found is None else found[0]) == sms
    assert chip_of(name) is None or sms is not None


# ------------------------------------------------------------------ what earlier runs have shown


def run(value: float, chip: Chip) -> PastRun:
    return PastRun(1000, chip.name, smact=value, alone=True, sm_rate=chip.sm_rate)


def history(*runs: PastRun, chips: tuple[Chip, ...] = (), kind: str | None = None) -> Estimate:
    job = Description(SPEC, same_runs=runs, chips=chips, device_kind=kind)
    return next(e for e in History().estimate(job) if e.quantity is Quantity.SMACT)


def test_runs_on_another_chip_tell_which() -> None:
    found = history(run(0.8, A100), kind=H200.name)
    assert (found.value, found.chip) == (0.8, A100)
    assert found.on(H200).value == pytest.approx(0.466, abs=0.001)


def test_runs_on_several_chips_are_scaled_to_the_latest() -> None:
    same = 0.8 * A100.sm_rate / H200.sm_rate
    found = history(run(same, H200), run(0.8, A100), run(0.8, A100))
    assert found.value == pytest.approx(same) and found.chip == H200
    assert found.upper <= 0.8


def test_an_error_is_that_on_the_chip_of_the_run() -> None:
    """Else a right prediction for another chip would be taken for a wrong one."""
    said = replace(smact(0.7, 0.9, A100), raw=0.8)
    told = told_of([said], Quantity.SMACT, H200)
    assert told == {"history": pytest.approx(0.466, abs=0.001)}
    assert told_of([said], Quantity.SMACT, A100) == {"history": 0.8}
