"""The table `[slots]`: what it makes, and what it refuses."""

from __future__ import annotations

import pytest

from radrm.cli.settings import find_errors
from radrm.config import Config, contradictions, parse_config, with_set
from radrm.errors import BadConfig
from radrm.planners.slots import Slots
from radrm.wiring import make_rules


def slots_of(text: str) -> list[Slots]:
    found = make_rules(parse_config(text, "test")).planners
    return [each for each in found if isinstance(each, Slots)]


def test_there_are_no_slots_by_default() -> None:
    assert not slots_of("") and not slots_of("[slots]\nlength_s = 0\nwarn_s = 5")


def test_they_run_behind_the_configured_planners_with_their_policy() -> None:
    text = 'policy = "lug"\nplanner = ["specon", "strict"]\n[slots]\nlength_s = 3600'
    rules = make_rules(parse_config(text, "test"))
    assert [each.name for each in rules.planners] == ["specon", "strict", "slots"]
    (slots,) = slots_of(text)
    assert (slots.length_s, slots.warn_s, slots.policy.name) == (3600.0, 600.0, "lug")


def test_one_setting_at_a_time_can_change() -> None:
    config = with_set(with_set(Config(), "slots.length_s=300"), "slots.warn_s=30")
    assert make_rules(config).planners[-1].name == "slots"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[slots]\nlength_s = 600", "slots.warn_s = 600 is not less than slots.length_s = 600"),
        ('planner = ["strict", "slots"]', "write [slots] length_s = 43200"),
        ("[planners.slots]\nlength_s = 5", "write [slots] length_s = 43200"),
        ("[slots]\nlength_s = 59", "0 (none) or seconds from 60 to a year"),
        ("[slots]\nlength_s = nan", "slots.length_s"),
        ("[slots]\nlength_s = true", "seconds from 60"),
        ("[slots]\nwarn_s = -1", "from 0 to"),
        ('[slots]\n"länge" = 1', "unknown key"),
        ('planner = "andreas"\n[slots]\nlength_s = 3600', "chooses itself who gives way"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(text: str, said: str) -> None:
    (line,) = find_errors(text, "test")
    assert said in line and "\n" not in line


@pytest.mark.parametrize("key", ["energy.price", "slots.length_s", "energy.wait_for_cheap"])
@pytest.mark.parametrize(
    "value",
    [
        "x" * 5000,
        "0x" + "f" * 5000,
        "[" * 5000,
        "{a=" * 3000,
        '{"00:00"=nan}',
        '{"' + "9" * 999 + '"=1}',
    ],
    ids=["long", "huge", "deep list", "deep table", "nan", "long time"],
)
def test_any_value_of_a_set_gives_one_short_line(key: str, value: str) -> None:
    with pytest.raises(BadConfig) as error:
        with_set(Config(), f"{key}={value}")
    said = str(error.value).removeprefix(f"--set {key}={value}")
    assert len(said) < 400 and "\n" not in said


def test_a_name_of_a_planner_is_refused_by_the_daemon_too() -> None:
    with pytest.raises(BadConfig, match="not chosen as a planner"):
        make_rules(Config(planner=("strict", "slots")))
    assert not contradictions(with_set(Config(), "slots.length_s=3600"))
