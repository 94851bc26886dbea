"""`radrm config`: what it shows reads back as the same, and what it calls fine is fine."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from datetime import date, datetime, time, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.cli.commands.config import config_document, config_text
from radrm.cli.settings import (
    RULE_TABLES,
    core_settings,
    filled,
    find_errors,
    registry_of,
    rule_settings,
)
from radrm.cli.toml_text import toml_text, toml_value
from radrm.config import (
    Config,
    ConfigFile,
    MpsConfig,
    parse_config,
)
from radrm.wiring import make_estimating, make_rules, make_settings, registry
from tests.cli.runner import invoke
from tests.config.strategies import configs
from tests.documents import errors_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NO_FILE = ConfigFile(None, None)


# ------------------------------------------------------------------ TOML

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
zones = st.none() | st.integers(-23, 23).map(lambda h: timezone(timedelta(hours=h)))
values = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | text
    | st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=zones)
    | st.dates(date(1, 1, 1))
    | st.times(time(0, 0)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(text, values, max_size=4))
def test_toml_reads_back_as_it_was(table: dict[str, Any]) -> None:
    written = toml_text(table)
    assert tomllib.loads(written) == table
    assert all(c.isprintable() for line in written.split("\n") for c in line)


@given(st.dictionaries(text, values, max_size=4))
def test_a_remark_changes_nothing(table: dict[str, Any]) -> None:
    remarks = {(key,): "default" for key in table}
    assert tomllib.loads(toml_text(table, remarks)) == table


def test_toml_has_no_nothing() -> None:
    with pytest.raises(ValueError, match="NoneType"):
        toml_text({"a": None})
    with pytest.raises(ValueError, match="surrogate"):
        toml_value("\udcff")


def test_not_a_number_is_written_too() -> None:
    read = tomllib.loads(f"x = {toml_value(float('nan'))}")["x"]
    assert read != read


# ------------------------------------------------------------------ show


@given(configs)
def test_what_is_shown_reads_back(given: Config) -> None:
    """As the same configuration with its defaults written out, which means the same."""
    shown = parse_config(config_text(given, NO_FILE), "shown")
    assert shown == filled(given)
    assert make_rules(shown) == make_rules(given)
    assert make_estimating(shown) == make_estimating(given)
    assert make_settings(shown, cpus=os.cpu_count()) == make_settings(given, cpus=os.cpu_count())


@given(configs)
def test_filling_changes_nothing_that_was_given(given: Config) -> None:
    whole = filled(given)
    assert filled(whole) == whole
    assert {k: whole.core[k] for k in given.core} == dict(given.core)
    for table in RULE_TABLES:
        for name, settings in getattr(given, table).items():
            kept = getattr(whole, table).get(name, {})
            assert {k: kept[k] for k in settings} == settings
    empty = {table: {} for table in RULE_TABLES}
    assert replace(whole, core={}, **empty) == replace(given, core={}, **empty)


def test_what_is_a_default_is_marked() -> None:
    given = parse_config('policy = "exclusive"\n[core]\ngrace_s = 30.0', "x")
    lines = config_text(given, NO_FILE).splitlines()
    assert 'policy = "exclusive"' in lines
    assert "grace_s = 30.0" in lines
    assert 'order = "auto"  # default, now "fifo"' in lines
    assert "settle_s = 120.0  # default" in lines
    assert "enabled = false  # default" in lines
    document = config_document(given, NO_FILE)
    assert {"policy", "core.grace_s"}.isdisjoint(document["defaults"])
    assert {"order", "core.settle_s", "mps.enabled"} <= set(document["defaults"])


def test_settings_of_rules_that_are_not_chosen_are_shown_as_they_are() -> None:
    given = parse_config('policy = "exclusive"\n[policies.sharing]\nmax_smact = 0.5', "x")
    assert filled(given).policies["sharing"] == {"max_smact": 0.5}


def test_the_document_holds_what_json_does_not() -> None:
    table = {"then": [date(2030, 1, 31)], "much": float("inf"), "in": {"x": time(1, 2)}}
    document = config_document(Config(policies={"mine": table}), NO_FILE)
    told = {"then": ["2030-01-31"], "much": "inf", "in": {"x": "01:02:00"}}
    assert document["config"]["policies"]["mine"] == told
    json.dumps(document, allow_nan=False)


def test_a_hostile_name_cannot_move_the_cursor() -> None:
    given = Config(policies={"\x1b[2J": {"\x9b\u202e": "\x1b]0;x\x07"}})
    shown = config_text(given, ConfigFile(Path("/tmp/\x1b[2J"), ""))
    assert all(c.isprintable() for line in shown.splitlines() for c in line)
    assert parse_config(shown, "x").policies["\x1b[2J"] == given.policies["\x1b[2J"]


# ------------------------------------------------------------------ check

WRONG = """\
polcy = "magm"
order = "lifo"
collocation = "mps"
device_ids = 3

[policies.sharing]
max_smat = 1
margin_mib = "3"

[policies.mgam]
x = 1

[orders.shortest]
max_wait_s = -1

[estimators.auto]
x = 1

[core]
grace = 3
grace_s = "long"
settle_s = true
"""

MISTAKES = [
    ("'polcy'", "did you mean 'policy'"),
    ("'lifo'", "orders", "fifo"),
    ("collocation = 'mps'", "mps.enabled is false", "set mps.enabled = true"),
    ("device_ids", "uuid", "3"),
    ("max_smat", "did you mean max_smact"),
    ("margin_mib", "2048"),
    ("'mgam'", "among policies"),
    ("max_wait_s", "below zero"),
    ("estimators.auto", "quantile"),
    ("grace'", "did you mean 'grace_s'"),
    ("core.grace_s", "a number"),
    ("settle_s", "120.0"),
    ("settings of 'sharing' are not used", "set policy, or remove"),
    ("settings of 'mgam' are not used",),
]


def test_every_trouble_is_one_line_with_the_file() -> None:
    errors = find_errors(WRONG, "site.toml")
    assert all(t.startswith("site.toml: ") and "\n" not in t for t in errors)
    for words in MISTAKES:
        assert any(all(w in cause for w in words) for cause in errors), words
    assert len(errors) == len(MISTAKES)


@given(configs)
def test_a_sound_configuration_has_no_trouble(given: Config) -> None:
    given = replace(given, mps=MpsConfig(True))
    assert find_errors(config_text(given, NO_FILE), "x") == []


@pytest.mark.parametrize("text", ["policy = ", "policy = 'a'\npolicy = 'b'", "\0"])
def test_what_is_no_toml_is_one_trouble(text: str) -> None:
    (cause,) = find_errors(text, "x.toml")
    assert cause.startswith("x.toml: not TOML")


def test_a_number_that_no_float_holds_is_a_trouble() -> None:
    (cause,) = find_errors(f"[core]\ngrace_s = {'9' * 400}", "x")
    assert "core.grace_s" in cause


def test_only_rules_know_their_settings() -> None:
    """What belongs to a rule itself, its name say, is nobody's setting."""
    for table in RULE_TABLES:
        for name in registry(registry_of(table)):
            assert {"name", "version", "whole_device"}.isdisjoint(rule_settings(table, name))
    assert rule_settings("policies", "magm")["max_smact"] == 0.80
    assert "collocation" not in core_settings()


# ------------------------------------------------------------------ the commands


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the file in force lies, for this test."""
    path = tmp_path / "radrm.toml"
    monkeypatch.setenv("RADRM_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("RADRM_CONFIG", str(path))
    return path


def run(*words: str) -> tuple[int, str]:
    done = invoke("config", *words)
    if "--json" in words:
        assert errors_of(["config", *words], json.loads(done.stdout)) == []
    return done.exit_code, done.stdout


def test_show(place: Path) -> None:
    place.write_text('policy = "exclusive"')
    code, shown = run("show", "--set", "core.grace_s=7")
    assert code == 0
    assert shown.startswith(f"# What a daemon started now would use: {place}\n")
    read = parse_config(shown, "shown")
    assert (read.policy, read.core["grace_s"]) == ("exclusive", 7)
    code, shown = run("show", "--json")
    document = json.loads(shown)
    assert (document["file"], document["found"]) == (str(place), True)
    assert document["config"]["policy"] == "exclusive"


def test_show_without_a_file(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RADRM_CONFIG")
    where = place.parent / "xdg" / "radrm" / "radrm.toml"
    code, shown = run("show")
    assert code == 0
    assert f"it would be {where}" in shown.splitlines()[0]
    code, shown = run("check")
    assert (code, str(where) in shown) == (0, True)
    code, shown = run("check", "--json")
    assert json.loads(shown) == {"file": str(where), "found": False, "errors": []}


def test_check(place: Path, tmp_path: Path) -> None:
    place.write_text('policy = "exclusive"')
    assert run("check") == (0, f"{place}: fine\n")
    other = tmp_path / "other.toml"
    other.write_text(WRONG)
    code, said = run("check", str(other))
    assert code == 1
    assert len(said.splitlines()) == len(MISTAKES)
    code, said = run("check", str(other), "--json")
    assert code == 1
    assert len(json.loads(said)["errors"]) == len(MISTAKES)


def test_check_of_what_cannot_be_read(place: Path, tmp_path: Path) -> None:
    assert run("check") == (1, f"{place}: no such file; correct RADRM_CONFIG, or unset it to use "
                               "the defaults\n")  # fmt: skip
    code, said = run("check", str(tmp_path / "gone.toml"))
    assert (code, "gone.toml: no such file" in said) == (1, True)
    code, said = run("check", str(tmp_path))
    assert (code, "cannot be read" in said) == (1, True)
