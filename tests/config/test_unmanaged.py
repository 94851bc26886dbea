"""The table `[unmanaged]`: what may stand there, and what it means for the core."""

from __future__ import annotations

import pytest

from radrm.config import (
    Config,
    UnmanagedConfig,
    parse_config,
    with_set,
)
from radrm.errors import BadConfig
from radrm.wiring import make_settings

WHOLE = """\
[unmanaged]
action = "signal"
grace_s = 600
spare = ["ollama", "python3.10"]
spare_users = ["triton"]
"""


def test_all_of_it() -> None:
    found = parse_config(WHOLE, "x").unmanaged
    assert found == UnmanagedConfig(
        "signal", 600.0, spare=("ollama", "python3.10"), spare_users=("triton",)
    )
    assert parse_config("", "x").unmanaged == UnmanagedConfig()
    assert with_set(Config(unmanaged=found), "order=fifo").unmanaged == found, "it reads back"
    assert with_set(Config(), 'unmanaged.spare=["a"]').unmanaged.spare == ("a",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("action = 'sginal'", "did you mean 'signal'"),
        ("action = 1", "unmanaged.action must be one of"),
        ("grace_s = -1", "unmanaged.grace_s must be seconds from 0"),
        ("grace_s = true", "unmanaged.grace_s must be seconds from 0"),
        ("grace_s = '5m'", "unmanaged.grace_s"),
        ("grace_s = nan", "unmanaged.grace_s"),
        ("grace_s = 1e300", "unmanaged.grace_s must be seconds from 0 to a year"),
        ("spare = 'Xorg'", "a list of names"),
        ("spare = ['/usr/bin/Xorg']", "a list of names"),
        ("spare = ['']", "a list of names"),
        ("spare = [1]", "a list of names"),
        ('spare_users = ["a\\u001b"]', "a list of names"),
        ("sparing = []", "did you mean 'spare'"),
    ],
)
def test_bad_words(text: str, said: str) -> None:
    with pytest.raises(BadConfig) as caught:
        parse_config(f"[unmanaged]\n{text}", "x")
    assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("action", ["count", "warn", "signal", "drain"])
def test_drain_is_the_cores_business(action: str) -> None:
    settings = make_settings(Config(unmanaged=UnmanagedConfig(action)))
    assert settings.yield_to_unmanaged is (action == "drain")
