"""List every setting of a configuration, and find every error in one.

`wiring` checks the settings of rules for the daemon too. It is asked here for one setting at a
time, so that this check accepts nothing that a daemon would refuse.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, replace
from typing import Any

from radrm.config import Config, contradictions, examine_config, resolved
from radrm.config.goals import PUBLISHED, SHARING
from radrm.core.settings import CoreSettings
from radrm.errors import BadConfig
from radrm.wiring import (
    AUTO_CHAIN,
    TABLES,
    asked_by_auto,
    make_estimating,
    make_planner,
    make_rules,
    make_settings,
    rule_of_table,
    settings_of,
    table_of,
)

RULE_TABLES: Mapping[str, str] = {
    "policies": "policy",
    "orders": "order",
    "planners": "planner",
    "estimators": "estimator",
    "recoveries": "recovery",
}
"""From the table of a kind of rules to the key that chooses one of them."""


def registry_of(table: str) -> str:
    """The registry in `wiring` of the rules that a table configures."""
    return next(kind for kind, name in TABLES.items() if name == table)


def chosen_rules(config: Config) -> dict[str, tuple[str, ...]]:
    """The rules that a configuration selects, by the table of their kind."""
    config = resolved(config)
    chosen: dict[str, tuple[str, ...]] = {
        table: (getattr(config, key),) for table, key in RULE_TABLES.items() if key != "planner"
    }
    chosen["planners"] = config.planner
    if config.estimator == "auto":
        try:
            asked = asked_by_auto(config)
        except BadConfig:  # making the estimator says what is wrong
            asked = AUTO_CHAIN
        chosen["estimators"] = ("auto", *asked)
    return chosen


# ------------------------------------------------------------------ the settings


def rule_settings(table: str, name: str) -> dict[str, Any]:
    """The settings of a rule or a table, and their defaults as TOML has them. Raises `BadConfig`
    for an unknown name."""
    settings = settings_of(rule_of_table(registry_of(table), name))
    found = {key: s.default for key, s in settings.items() if s.default is not MISSING}
    made = {k: s.default_factory for k, s in settings.items() if s.default_factory is not MISSING}
    found |= {key: make() for key, make in made.items()}
    return {key: list(each) if isinstance(each, tuple) else each for key, each in found.items()}


def core_settings() -> dict[str, Any]:
    """The settings of `[core]` and their defaults."""
    return {name: each.default for name, each in settings_of(CoreSettings).items()}


def filled(config: Config) -> Config:
    """The configuration with all defaults of the selected rules written out."""
    meant = resolved(config)
    tables: dict[str, Any] = {table: dict(getattr(meant, table)) for table in RULE_TABLES}
    for table, names in chosen_rules(config).items():
        for name in names:
            own = table_of(registry_of(table), name)
            settings = {**rule_settings(table, name), **tables[table].get(own, {})}
            if settings:
                tables[table][own] = settings
    in_force = make_settings(config, cpus=os.cpu_count())
    core = {key: getattr(in_force, key) for key in core_settings()} | dict(config.core)
    return replace(config, core=core, **tables)


def meant_by_auto(config: Config) -> dict[str, Any]:
    """What `auto` means in a configuration, by the top-level key that says it."""
    before, after = config.to_table(), resolved(config).to_table()
    return {key: after[key] for key in RULE_TABLES.values() if before[key] != after[key]}


# ------------------------------------------------------------------ errors


def find_errors(text: str, source: str) -> list[str]:
    """All errors of a configuration text, one line each, source first; empty if there are none.

    These are the errors with which a daemon would not start, and those that it would only warn
    of: unknown rules, contradicting settings.
    """
    examined = examine_config(text, source)
    config, errors = examined.config, list(examined.errors)
    found = list(_rule_errors(config)) + contradictions(config)
    if not errors and not found:
        found = list(_whole_errors(config))
    return errors + [f"{source}: {cause}" for cause in dict.fromkeys(found)]


def _rule_errors(config: Config) -> Iterator[str]:
    for table, chosen in chosen_rules(config).items():
        given: Mapping[str, Mapping[str, Any]] = getattr(config, table)
        rules = {_own_table(table, name): name for name in chosen}
        for own in dict.fromkeys([*rules, *given]):
            name = rules.get(own, PUBLISHED.policy if own == SHARING else own)
            yield from _table_errors(_make_rule(table, name, own), given.get(own, {}))
    yield from _table_errors(_make_core, config.core)


def _whole_errors(config: Config) -> Iterator[str]:
    """The errors of the configuration as a whole, in the order of a daemon's start."""
    makers: tuple[Callable[[Config], object], ...] = (make_rules, make_estimating, make_settings)
    for make in makers:
        cause = _complaint(make, config)
        if cause is not None:
            yield cause


def _table_errors(make: Callable[[Any], object], given: Mapping[str, Any]) -> list[str]:
    """Return the error of each setting alone; without one, the error of all together."""
    whole = _complaint(make, given)
    if whole is None:
        return []
    single = [_complaint(make, {key: value}) for key, value in given.items()]
    return [cause for cause in single if cause is not None] or [whole]


def _own_table(table: str, name: str) -> str:
    """The table of a rule's settings; its name if there is no such rule."""
    try:
        return table_of(registry_of(table), name)
    except BadConfig:
        return name


def _make_rule(table: str, name: str, own: str) -> Callable[[Any], object]:
    """A function that makes one rule from given settings of the table `own`, with defaults for
    everything else."""
    make: Callable[[Config], object] = make_rules
    if table == "estimators":
        make = make_estimating

    def made(settings: Mapping[str, Any]) -> object:
        if table == "planners":  # alone it need not start jobs
            return make_planner(Config(planners={own: settings}, from_text=True), name)
        choice: dict[str, Any] = {RULE_TABLES[table]: name, table: {own: settings}}
        return make(Config(**choice, from_text=True))

    return made


def _make_core(core: Mapping[str, Any]) -> object:
    return make_settings(Config(core=core))


def _complaint(make: Callable[[Any], object], given: Any) -> str | None:
    try:
        make(given)
    except BadConfig as error:
        return str(error)
    except Exception as error:  # a third party's rule may raise anything
        return f"cannot be used: {type(error).__name__}: {error}"
    return None
