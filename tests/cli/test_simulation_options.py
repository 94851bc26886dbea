"""Options that `simulate`, `compare` and `replay` share."""

from __future__ import annotations

import pytest

from radrm.cli.simulation_options import known_names
from radrm.errors import UsageError


def test_an_error_of_durations_is_a_known_duration() -> None:
    assert known_names(["smact"], "0.3") == known_names(["smact,duration=0.3"], None)
    assert known_names(None, "0") == ["duration=0"]
    assert known_names(None, None) == []


@pytest.mark.parametrize("text", ["-1", "nan", "30%", "4", ""])
def test_a_wrong_error_names_the_option_and_an_example(text: str) -> None:
    with pytest.raises(UsageError, match=rf"--duration-error '{text}': write a number .* as 0.3"):
        known_names(None, text)


def test_durations_are_told_once() -> None:
    with pytest.raises(UsageError, match="leave one out"):
        known_names(["duration"], "0.3")
