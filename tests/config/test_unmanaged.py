"""The table `[unmanaged]`: what may stand there, and what it means for the core."""

from __future__ import annotations

import pytest

from radrm.config import (
    Config,
    UnmanagedConfig,
    examine_config,
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


# ------------------------------------------------------------------ its old name


def test_the_old_table_name_is_accepted_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    old = parse_config(WHOLE.replace("[unmanaged]", "[strangers]"), "x.toml")
    assert old == parse_config(WHOLE, "x.toml")
    (warning,) = caplog.messages
    assert warning == (
        "x.toml: the table [strangers] is now called [unmanaged]; this release accepts both "
        "names, the next one does not; rename the table"
    )


def test_set_accepts_the_old_name(caplog: pytest.LogCaptureFixture) -> None:
    changed = with_set(Config(), "strangers.action=warn")
    assert changed.unmanaged == UnmanagedConfig("warn")
    (warning,) = caplog.messages
    assert warning == (
        "--set strangers.action=warn: the table [strangers] is now called [unmanaged]; this "
        "release accepts both names, the next one does not; rename the table"
    )
    with_set(Config(), "unmanaged.action=warn")
    assert len(caplog.messages) == 1


def test_both_names_are_an_error() -> None:
    text = '[strangers]\naction = "warn"\n[unmanaged]\naction = "drain"\n'
    examined = examine_config(text, "x.toml")
    assert examined.errors == (
        "x.toml: [strangers] and [unmanaged] are two names of one table; keep [unmanaged]",
    )
    assert examined.notices == ()
    with pytest.raises(BadConfig, match="two names of one table"):
        parse_config(text, "x.toml")


def test_an_examined_file_has_its_notices_and_logs_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    examined = examine_config('[strangers]\naction = "warn"\n', "x.toml")
    assert examined.errors == ()
    assert examined.config.unmanaged.action == "warn"
    (notice,) = examined.notices
    assert "[strangers] is now called [unmanaged]" in notice
    assert caplog.messages == []


def test_an_error_in_the_old_table_is_still_an_error(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(BadConfig, match=r"unmanaged\.grace_s must be seconds"):
        parse_config("[strangers]\ngrace_s = -1\n", "x")
    assert "is now called [unmanaged]" in caplog.messages[0]
