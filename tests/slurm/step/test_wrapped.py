"""The first line that makes a batch script run through the step, and what travels below it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.errors import BadFile, UsageError
from radrm.slurm.scripts import GPUMEM, is_wrapped, unwrap, wrap

FIRST = "#!/usr/bin/env -S radrm slurm-step"

TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=80)


@given(script=TEXT)
def test_a_script_comes_back_as_it_was(script: str) -> None:
    if not is_wrapped(script) and not script.startswith(("#RAD-OPTION ", GPUMEM)):
        assert unwrap(wrap(script)) == (script, {})


@given(value=TEXT.filter(lambda text: "\n" not in text and "\r" not in text))
def test_options_come_back_as_they_were(value: str) -> None:
    script, options = unwrap(wrap("echo\n", ["--gpus=2", f"--env=A={value}", "--requeue"]))
    assert script == "echo\n"
    assert options == {"gpus": "2", "env": [f"A={value}"], "requeue": True}


def test_a_wrapped_script_is_wrapped_once() -> None:
    assert wrap(wrap("echo\n", ["--gpus=2"])) == wrap("echo\n")
    assert unwrap(f"{FIRST}\n{GPUMEM}#RAD-OPTION --gpus=2\necho\n") == ("echo\n", {"gpus": "2"})


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
