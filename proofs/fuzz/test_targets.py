"""Every parser takes its valid inputs, and answers hostile ones with at most one line.

These are some hundred inputs of each parser, the same in every run; `make fuzz` tries other ones.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proofs.fuzz import campaign
from proofs.fuzz.judging import Target
from proofs.fuzz.mutations import as_bytes
from proofs.fuzz.targets import TARGETS

MOST_CHARACTERS = 8192
each_target = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)


def as_given(target: Target, example: Any) -> Any:
    if isinstance(example, tuple):
        return list(example)
    return target.prepared(example if isinstance(example, str) else json.dumps(example))


def test_valid_inputs_are_taken() -> None:
    """Else the hostile ones, which are made from these, would all fail for the same reason."""
    for target in TARGETS:
        for example in target.examples:
            target.call(as_given(target, example))


@each_target
@given(seed=st.integers(0, 2**64))
@settings(max_examples=4, derandomize=True)
def test_a_hostile_input_gets_a_value_or_one_line(target: Target, seed: int) -> None:
    result = campaign.run(target, 50, str(seed), most=MOST_CHARACTERS)
    assert not result.findings, list(result.findings.values())


@given(st.sampled_from(TARGETS), st.text(max_size=200))
@settings(max_examples=100, derandomize=True)
def test_any_text_gets_a_value_or_one_line(target: Target, text: str) -> None:
    given: Any = text.split(" ") if isinstance(target.examples[0], tuple) else text
    found = campaign.try_one(target, as_bytes(text) if target.bytes else given)
    assert found is None, found
