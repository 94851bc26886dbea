"""Configuration files: what is read, where from, and what is refused in which words."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from radrm.config import (
    Config,
    MpsConfig,
    config_path,
    contradictions,
    examine_config,
    find_config,
    load_config,
    parse_config,
    with_set,
)
from radrm.core.words import Collocation
from radrm.errors import BadConfig, plain
from tools import config_reference as reference

FULL = """
goal = "published"
policy = "best-fit"
order = "sjf"
planner = "other"
estimator = "declared"
recovery = "double"
collocation = "mps"
device_ids = "index"

[policies.best-fit]
max_smact = 0.9

[policies.magm]
margin = "3G"

[recoveries.double]
factor = 2

[core]
grace_s = 30

[mps]
enabled = true

"""


def test_an_empty_file_gives_the_defaults() -> None:
    config = parse_config("", "x.toml")
    assert config == Config()
    assert (config.policy, config.order, config.planner) == ("auto", "auto", ("auto",))
    assert (config.estimator, config.recovery, config.device_ids) == ("auto", "exclusive", "uuid")
    assert config.collocation is Collocation.AUTO
    assert not config.mps.enabled


def test_every_key_is_read() -> None:
    config = parse_config(FULL, "x.toml")
    assert config == Config(
        goal="published",
        policy="best-fit",
        order="sjf",
        planner=("other",),
        estimator="declared",
        recovery="double",
        collocation=Collocation.MPS,
        device_ids="index",
        policies={"best-fit": {"max_smact": 0.9}, "magm": {"margin": "3G"}},
        recoveries={"double": {"factor": 2}},
        core={"grace_s": 30},
        mps=MpsConfig(enabled=True),
    )


def test_every_field_can_be_set_by_a_file() -> None:
    """No field of `Config` without a key: the error for an unknown key lists all keys."""
    with pytest.raises(BadConfig) as error:
        parse_config("zzzzzzzzz = 1", "x")
    keys = str(error.value).partition("known are: ")[2].split(", ")
    assert keys == [f.name for f in dataclasses.fields(Config) if f.name != "from_text"]


WRONG = [
    # text, words that the error must have
    ("polcy = 'magm'", ("'polcy'", "did you mean 'policy'")),
    ("[policy]\nx = 1", ("policy", "a name")),
    ("policy = 3", ("policy", "a name", "3")),
    ("policy = ''", ("policy", "a name")),
    ("collocation = 'mpz'", ("collocation", "timeslice", "did you mean 'mps'")),
    ("collocation = 'mig'", ("collocation", "timeslice")),
    ("collocation = 4", ("collocation", "timeslice", "4")),
    ("collocation = ['mps']", ("collocation", "timeslice")),
    ("device_ids = 'uid'", ("device_ids", "did you mean 'uuid'")),
    ("policies = 1", ("policies", "a table")),
    ("[policies]\nmagm = 1", ("policies.magm", "a table", "1")),
    ("[policy.magm]\nx = 1", ("policy", "a name")),
    ("planner = []", ("planner", 'as in ["strict", "mine"]')),
    ("planner = 3", ("planner", "a list of names")),
    ("planner = ['strict', 3]", ("planner", "a name", "3")),
    ("planner = ['a', 'a']", ("planner", "names 'a' twice")),
    ("planner = 'a+'", ("planner", "a name")),
    ("planner = 'a,b'", ("planner", "'a,b'", "+ joins planners")),
    ("planner = ['a+b']", ("planner", "'a+b'", "+ joins planners")),
    (f"planner = {[str(n) for n in range(17)]}", ("planner", "a list of names")),
    ("[core]\ngrace_s = '3'", ("core.grace_s", "a number", "'3'")),
    ("[core]\ngrace_s = nan", ("core.grace_s", "finite")),
    ("[core]\ngrace_s = inf", ("core.grace_s", "finite")),
    ("[mps]\nenabled = 1", ("mps.enabled", "true or false")),
    ("[mps]\nenable = true", ("mps.enable", "did you mean 'enabled'")),
    ("mps = true", ("mps", "a table")),
    ("[[policies.magm]]\nx = 1", ("policies.magm", "a table")),
    ("policy = ", ("not TOML",)),
    ("order = 'fifo'\npolicy = magm\n", ("not TOML", "line 2")),
    ("policy = 'a'\npolicy = 'b'", ("not TOML",)),
    (f"core = {'9' * 5000}", ("not TOML",)),
    (f"[policies{'.a' * 300}]\nb = 1", ("nested too deeply",)),
    (f"planner = ['{'a' * 3000}+b']", ("is no planner's name",)),
    (f"[energy]\nprice = {{ '{'9' * 5000}:00' = 1 }}", ("energy.price", "no time of the day")),
]


@pytest.mark.parametrize(("text", "words"), WRONG)
def test_a_wrong_file_is_one_clear_line(text: str, words: tuple[str, ...]) -> None:
    with pytest.raises(BadConfig) as error:
        parse_config(text, "site.toml")
    message = str(error.value)
    assert message.startswith("site.toml: ")
    assert "\n" not in message and len(message) < 500
    for word in words:
        assert word in message


def test_planners_are_a_name_a_list_or_a_word() -> None:
    for value in ('["strict", "mine"]', '"strict+mine"'):
        config = parse_config(f"planner = {value}", "x")
        assert config.planner == ("strict", "mine") and config.planners_joined == "strict+mine"
        assert with_set(Config(), f"planner={value}") == config
        assert config.to_table()["planner"] == ["strict", "mine"]
    assert with_set(Config(), "planner=strict+mine").planner == ("strict", "mine")
    assert Config().to_table()["planner"] == "auto"


def test_all_that_is_wrong_is_found_and_the_rest_is_kept() -> None:
    text = """
policy = "lug"
order = 3
ordr = "x"
[policies.lug]
max_smact = 0.5
[policies]
magm = 1
[core]
grace_s = 5
settle_s = "long"
[mps]
enabled = true
enable = true
"""
    examined = examine_config(text, "x")
    config, errors = examined.config, examined.errors
    assert config == Config(
        policy="lug",
        policies={"lug": {"max_smact": 0.5}},
        core={"grace_s": 5},
        mps=MpsConfig(enabled=True),
    )
    wrong = ("x: order must", "'ordr'", "policies.magm must", "core.settle_s must", "'mps.enable'")
    assert len(errors) == len(wrong)
    for cause, words in zip(errors, wrong, strict=True):
        assert words in cause
    with pytest.raises(BadConfig) as error:
        parse_config(text, "x")
    assert str(error.value) == errors[0]


def test_a_number_that_no_float_holds() -> None:
    (cause,) = examine_config(f"[core]\ngrace_s = {'9' * 400}", "x").errors
    assert cause.startswith("x: core.grace_s must be a number that is finite")


def test_two_planners_that_choose_numbers_of_gpus_contradict() -> None:
    (line,) = contradictions(Config(planner=("andreas", "elastic")))
    assert "leave one of them out" in line
    assert contradictions(Config(planner=("dlrover", "elastic"))) == []


def test_contradictions() -> None:
    assert contradictions(Config()) == []
    mps = Config(collocation=Collocation.MPS)
    (cause,) = contradictions(mps)
    assert "mps.enabled" in cause
    assert contradictions(dataclasses.replace(mps, mps=MpsConfig(True))) == []


# ------------------------------------------------------------------ --set


SET = [
    # setting, path of the field, value
    ("policy=lug", ("policy",), "lug"),
    ('policy="lug"', ("policy",), "lug"),
    ("policies.magm.max_smact=0.9", ("policies", "magm", "max_smact"), 0.9),
    ("policies.first-fit.max_smact=1", ("policies", "first-fit", "max_smact"), 1),
    ("policies.magm.margin=2 GiB", ("policies", "magm", "margin"), "2 GiB"),
    ("policies.magm.names=[1, 2]", ("policies", "magm", "names"), [1, 2]),
    ("policies.magm.broken=[1", ("policies", "magm", "broken"), "[1"),
    ("policies.magm.note=a=b", ("policies", "magm", "note"), "a=b"),
    ("policies.magm.note=", ("policies", "magm", "note"), ""),
    ("policies.magm.note=1\nother = 2", ("policies", "magm", "note"), "1\nother = 2"),
    ("policies.magm.conditions=false", ("policies", "magm", "conditions"), False),
    ("core.grace_s = 30", ("core", "grace_s"), 30),
    ("mps.enabled=true", ("mps", "enabled"), True),
    ("collocation=exclusive", ("collocation",), "exclusive"),
]


@pytest.mark.parametrize(("setting", "path", "expected"), SET)
def test_set(setting: str, path: tuple[str, ...], expected: object) -> None:
    found: object = with_set(Config(), setting).to_table()
    for key in path:
        assert isinstance(found, dict)
        found = found[key]
    assert found == expected


def test_set_changes_one_thing_and_not_the_original() -> None:
    before = parse_config(FULL, "x")
    after = with_set(with_set(before, "policies.best-fit.max_smact=0.5"), "order=fifo")
    assert before == parse_config(FULL, "x")
    assert after.policies == {"best-fit": {"max_smact": 0.5}, "magm": {"margin": "3G"}}
    assert dataclasses.replace(after, policies=before.policies, order=before.order) == before


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("policy", ("KEY=VALUE",)),
        ("=3", ("KEY=VALUE",)),
        ("policies..x=3", ("KEY=VALUE",)),
        ("polcies.magm.x=3", ("'polcies'", "did you mean 'policies'")),
        ("policy.magm=3", ("'policy' is one value",)),
        ("policies.magm=3", ("policies.magm", "a table")),
        ("core.grace_s=soon", ("core.grace_s", "a number", "'soon'")),
        ("mps.enabled=yes", ("mps.enabled", "true or false", "'yes'")),
        ("collocation=mpz", ("did you mean 'mps'",)),
        ("policy=\udcff", ("not UTF-8",)),
        ("mps.a\nb=1", ("unknown key 'mps.a\ufffdb'",)),
        (f"energy{'.a' * 300}=1", ("nested too deeply",)),
    ],
)
def test_a_wrong_set_is_one_clear_line(setting: str, words: tuple[str, ...]) -> None:
    with pytest.raises(BadConfig) as error:
        with_set(Config(), setting)
    message = str(error.value)
    assert message.startswith(f"--set {plain(setting)[:50]}") and len(message) < 500
    for word in words:
        assert word in message


# ------------------------------------------------------------------ where


@pytest.mark.parametrize(
    ("environ", "system", "expected"),
    [
        ({}, True, "/etc/radrm/radrm.toml"),
        ({"HOME": "/root", "XDG_CONFIG_HOME": "/c"}, True, "/etc/radrm/radrm.toml"),
        ({"RADRM_CONFIG": "/my.toml"}, True, "/my.toml"),
        ({"RADRM_CONFIG": "/my.toml", "HOME": "/h"}, False, "/my.toml"),
        ({"RADRM_CONFIG": "", "HOME": "/h"}, False, "/h/.config/radrm/radrm.toml"),
        ({"HOME": "/h", "XDG_CONFIG_HOME": "/c"}, False, "/c/radrm/radrm.toml"),
        ({"HOME": "/h", "XDG_CONFIG_HOME": "relative"}, False, "/h/.config/radrm/radrm.toml"),
        ({}, False, None),
    ],
)
def test_where(environ: dict[str, str], system: bool, expected: str | None) -> None:
    assert config_path(environ, system) == (Path(expected) if expected else None)


def test_a_missing_default_file_is_fine(tmp_path: Path) -> None:
    assert load_config({"HOME": str(tmp_path)}, False) == Config()
    assert load_config({}, False) == Config()


def test_a_missing_named_file_is_not(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"gone\.toml: no such file.*RADRM_CONFIG"):
        load_config({"RADRM_CONFIG": str(tmp_path / "gone.toml")}, False)


def test_a_default_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "radrm" / "radrm.toml"
    file.parent.mkdir()
    file.write_text('policy = "mug"', encoding="utf-8")
    assert load_config({"XDG_CONFIG_HOME": str(tmp_path)}, False).policy == "mug"


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text('policy = "mug"\r\n', encoding="utf-8-sig")
    assert load_config({"RADRM_CONFIG": str(file)}, False).policy == "mug"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="cannot be read: Is a directory"):
        load_config({"RADRM_CONFIG": str(tmp_path)}, False)
    binary = tmp_path / "x.toml"
    binary.write_bytes(b"policy = '\xff'")
    with pytest.raises(BadConfig, match="not UTF-8"):
        load_config({"RADRM_CONFIG": str(binary)}, False)


def test_what_was_found_is_told_apart(tmp_path: Path) -> None:
    place = {"XDG_CONFIG_HOME": str(tmp_path)}
    file = tmp_path / "radrm" / "radrm.toml"
    found = find_config(place, False)
    assert (found.path, found.text) == (file, None)
    file.parent.mkdir()
    file.write_text("polcy = 1", encoding="utf-8")
    found = find_config(place, False)
    assert (found.path, found.text) == (file, "polcy = 1")
    assert find_config({}, False).path is None


# ------------------------------------------------------------------ its reference


def test_every_key_is_in_the_reference() -> None:
    shown = reference.reference()
    for key in Config().to_table():
        assert f"`{key}`" in shown or f"[{key}" in shown


def test_each_setting_says_who_sets_it_and_why() -> None:
    """What nobody sets is a constant beside its reason (`fixed`)."""
    rows = [line for line in reference.reference().splitlines() if line.startswith("| `")]
    without = [row for row in rows if not re.search(r"\| (A|Who|The) [^|]+\. \|$", row)]
    assert without == []
    settings = [key for row in rows for key in re.findall(r"`([^`]+)`", row.split(" | ")[0])]
    assert len(settings) <= 120


def test_a_setting_without_a_meaning_is_found() -> None:
    @dataclasses.dataclass
    class Base:
        inherited: int = 1
        """From the base."""

    @dataclasses.dataclass
    class Rule(Base):
        """It has `silent` here, and no docstring behind it."""

        told: int = 1
        """By itself."""
        silent: int = 3

    assert reference.meaning(Rule, "told") == "By itself."
    assert reference.meaning(Rule, "inherited") == "From the base."
    with pytest.raises(LookupError, match="silent"):
        reference.meaning(Rule, "silent")


def test_a_wrong_choice_names_all_choices_once() -> None:
    (error,) = examine_config("goal = 'nonsense'", "c").errors
    assert error.count("turnaround") == 1 and "did you mean" not in error
    (error,) = examine_config("goal = 'turnarond'", "c").errors
    assert error.endswith("; did you mean 'turnaround'?")
