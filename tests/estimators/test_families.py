"""The kind of model that a trace or a summary shows."""

from __future__ import annotations

import pytest

from radrm.core.records import JobSpec
from radrm.estimators.families import Family, family_named, family_of
from radrm.estimators.interface import Description
from radrm.estimators.memory import Convolution
from radrm.estimators.summary import Summary
from radrm.estimators.trace import Trace
from radrm.estimators.traces import Traced

ATTENTION = ("attention", "matrix products")


def convolution(kernel: int, stride: int, sizes: int = 2) -> Convolution:
    side = (32,) * sizes
    return Convolution(8, 64, 64, side, side, (kernel,) * sizes, (stride,) * sizes)


@pytest.mark.parametrize(
    ("layers", "parts", "benchmark", "family"),
    [
        ([convolution(3, 1)], (), False, Family.CNN),
        ([convolution(3, 1)], (), True, Family.BENCHMARK),
        ([convolution(1, 1), convolution(3, 2)], ATTENTION, False, Family.CNN),
        ([convolution(16, 16)], ATTENTION, False, Family.TRANSFORMER),
        ([convolution(16, 16)], ATTENTION, True, Family.TRANSFORMER),
        ([convolution(3, 1, sizes=1)], ATTENTION, False, Family.CNN),
        ([], (*ATTENTION, "recurrence"), False, Family.TRANSFORMER),
        ([], ("recurrence", "matrix products"), False, Family.RECURRENT),
        ([], ("matrix products",), True, Family.MLP),
        ([], ("something new",), False, Family.OTHER),
        ([], (), False, Family.OTHER),
    ],
)
def test_the_parts_of_a_step_tell_the_family(
    layers: list[Convolution], parts: tuple[str, ...], benchmark: bool, family: Family
) -> None:
    assert family_of(layers, parts, benchmark) is family
    assert family_named(family.value) is family


@pytest.mark.parametrize("word", [None, "", "no family", "cnn"])
def test_an_unknown_word_is_no_family(word: str | None) -> None:
    assert family_named(word) is Family.OTHER
    assert Family.OTHER.known is None


@pytest.mark.parametrize("family", [Family.CNN, Family.TRANSFORMER, Family.OTHER])
def test_a_trace_keeps_its_family_as_text_and_in_the_estimate(family: Family) -> None:
    traced = Traced(100, 100, 0, 1, 1, 1, 1, family=family)
    assert Traced.from_text(traced.to_text()) == traced
    job = Description(JobSpec(name="a", user="ann", uid=1), trace=traced.to_text())
    (estimate,) = Trace().estimate(job)
    assert estimate.family == family.known


def test_a_summary_shows_a_family() -> None:
    table = "Layer (type)  Output Shape  Param #\n====\n{}\n====\nTotal params: 1,024\n"
    for layer, family in (
        ("Linear-1  [-1, 1024]  1024", Family.MLP),
        ("Conv2d-1  [-1, 64, 8, 8]  1024", Family.CNN),
    ):
        job = Description(
            JobSpec(name="a", user="ann", uid=1), summary=table.format(layer), batch_size=8
        )
        (estimate,) = Summary().estimate(job)
        assert estimate.family == family.value
