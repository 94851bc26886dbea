"""The first line that makes a batch script run through the step, and what travels below it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.errors import BadFile, UsageError
from radrm.slurm.wrapped import FIRST, asked_mib, is_wrapped, unwrap, wrap

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=80)


@given(script=TEXT)
def test_a_script_comes_back_as_it_was(script: str) -> None:
    if not is_wrapped(script) and not script.startswith(("#RAD-OPTION ", "#RAD-GPUMEM ")):
        assert unwrap(wrap(script)) == (script, {})


@given(value=TEXT.filter(lambda text: "\n" not in text and "\r" not in text))
def test_options_come_back_as_they_were(value: str) -> None:
    script, options = unwrap(wrap("echo\n", ["--gpus=2", f"--env=A={value}", "--requeue"]))
    assert script == "echo\n"
    assert options == {"gpus": "2", "env": [f"A={value}"], "requeue": True}


@pytest.mark.parametrize("line", ["", "#RAD-GPUMEM 9", "#RAD-GPUMEM x", "#RAD-GPUMEM -1"])
def test_an_amount_is_a_number_below_the_first_line(line: str) -> None:
    assert asked_mib(f"{FIRST}\n{line}\necho\n") == (9 if line.endswith("9") else None)
    assert asked_mib(f"#!/bin/sh\n{line}\n") is None
    assert asked_mib(f"{FIRST}\n#RAD-GPUMEM {'9' * 5000}\n") is None
    assert asked_mib(f"{FIRST}\n#RAD-GPUMEM 0\n") is None


def test_a_wrapped_script_is_wrapped_once() -> None:
    assert wrap(wrap("echo\n", ["--gpus=2"])) == wrap("echo\n")


@pytest.mark.parametrize(
    ("line", "wrapped"),
    [
        (FIRST, True),
        ("#!/opt/radrm/bin/radrm slurm-step", True),
        ("#! /usr/bin/env -S radrm slurm-step  ", True),
        ("#!/bin/bash", False),
        ("# radrm slurm-step", False),
        ("#!/usr/bin/env -S radrm slurm-stepper", False),
        ("radrm slurm-step", False),
    ],
)
def test_what_counts_as_the_first_line(line: str, wrapped: bool) -> None:
    assert is_wrapped(f"{line}\necho\n") is wrapped


@pytest.mark.parametrize("line", ["--nothing=1", "--gpus=two", "gpus=2", "'--gpus=2"])
def test_wrong_options_are_one_line(line: str) -> None:
    with pytest.raises((UsageError, BadFile)) as caught:
        unwrap(f"{FIRST}\n#RAD-OPTION {line}\necho\n")
    assert "\n" not in str(caught.value)
