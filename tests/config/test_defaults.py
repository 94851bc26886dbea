"""Each setting has one default: in the rule that is made, as shown, and in the reference."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import Any

import pytest

from radrm.cli.commands.config import config_document, config_text
from radrm.cli.settings import RULE_TABLES, chosen_rules, registry_of, rule_settings
from radrm.config import GOALS, Config, ConfigFile, parse_config, resolved
from radrm.config.checks import toml_value
from radrm.core.settings import CoreSettings
from radrm.wiring import (
    make_estimating,
    make_rules,
    make_settings,
    registry,
    table_of,
)
from tools.config_reference import reference

NO_FILE = ConfigFile(None, None)
EXPLICIT = ("", *GOALS)
"""Goals, and no goal: the rules are named."""


def config_of(goal: str) -> Config:
    """The configuration with a goal; without one, with the rules of the default goal by name."""
    if goal:
        return Config(goal=goal)
    meant = resolved(Config())
    return Config(policy=meant.policy, order=meant.order, planner=meant.planner)


def rows() -> dict[str, str]:
    """The default of each setting of a rule in the reference, by `rule.key`."""
    found = {}
    for line in reference().splitlines():
        names, _, rest = line.removeprefix("| ").partition(" | ")
        for name in re.findall(r"`([\w-]+\.\w+)`", names):
            found[name] = rest.partition(" | ")[0]
    return found


def in_reference(cell: str, goal: str) -> Any:
    """What a cell says is the default with this goal."""
    first, *others = cell.split("; ")
    for other in others:
        value, _, goals = other.partition(" with goal ")
        if goal in re.findall(r"`([\w-]+)`", goals):
            return read(value)
    return read(first)


def read(code: str) -> Any:
    return toml_value(code.strip("`"))


@pytest.mark.parametrize("goal", EXPLICIT)
def test_rule_show_and_reference_have_one_default(goal: str) -> None:
    config = config_of(goal)
    rules = make_rules(config)
    (planner,) = [each for each in rules.planners if each.starts_jobs]
    estimator: Any = make_estimating(config).estimator
    made: dict[str, Any] = {
        "policies": getattr(planner, "policy", None),
        "orders": rules.order,
        "planners": planner,
        "recoveries": rules.recovery,
        "estimators": estimator,
    }
    shown, told = parse_config(config_text(config, NO_FILE), "shown").to_table(), rows()
    checked = 0
    for table, (name, *_) in chosen_rules(config).items():
        own = table_of(registry_of(table), name)
        for key in rule_settings(table, name):
            value = getattr(made[table], key)
            value = list(value) if isinstance(value, tuple) else value
            checked += 1
            assert shown[table][own][key] == value, f"{name}.{key}"
            if f"{own}.{key}" in told:
                assert in_reference(told[f"{own}.{key}"], goal) == value, f"{name}.{key}"
    assert checked > 5


def test_every_setting_of_every_goal_is_one_that_the_reference_has() -> None:
    told = rows()
    for goal, meant in GOALS.items():
        for table in ("policies", "orders", "planners"):
            for name, settings in getattr(meant, table).items():
                for key, value in settings.items():
                    assert in_reference(told[f"{name}.{key}"], goal) == value
                    own = rule_settings(table, name)[key]
                    assert own != value, f"{goal}: {name}.{key} is the rule's own default"


def test_every_rule_is_named_with_its_own_defaults() -> None:
    told, checked = rows(), 0
    for table in RULE_TABLES:
        kind = registry_of(table)
        for name in {table_of(kind, rule) for rule in registry(kind)}:
            for key, value in rule_settings(table, name).items():
                if f"{name}.{key}" in told:
                    checked += 1
                    assert in_reference(told[f"{name}.{key}"], "") == value, f"{name}.{key}"
    assert checked > 20


@pytest.mark.parametrize("goal", GOALS)
def test_what_the_goal_sets_is_shown_as_the_goal_s(goal: str) -> None:
    lines = config_text(Config(goal=goal), NO_FILE).splitlines()
    of_goal = [line for line in lines if f'# default of goal "{goal}"' in line]
    meant = GOALS[goal]
    tables = (meant.policies, meant.orders, meant.planners)
    assert len(of_goal) == sum(len(own) for table in tables for own in table.values())
    given = Config(goal=goal, policies={"packing": {"max_demand": 1.8}})
    assert "policies.packing.max_demand" not in config_document(given, NO_FILE)["defaults"]


def test_the_core_s_own_defaults_are_those_of_the_configuration() -> None:
    own, made = CoreSettings(), make_settings(Config())
    follows = {"honours_slowdown", "whole_devices", "overcommit", "trial_floor_mib"}  # the policy
    for field in fields(CoreSettings):
        if field.name not in follows:
            assert getattr(made, field.name) == getattr(own, field.name), field.name


def test_naming_the_rules_of_a_goal_gives_their_own_defaults() -> None:
    named = make_rules(config_of(""))
    assert named == make_rules(replace(Config(goal="turnaround")))
