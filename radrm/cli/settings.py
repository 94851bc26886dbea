"""List every setting of a configuration, and find every error in one.

`wiring` checks the settings of rules for the daemon too. It is asked here for one setting at a
time, so that this check accepts nothing that a daemon would refuse.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, replace
from typing import Any

from radrm.config import Config, contradictions, examine_config, resolved
from radrm.core.settings import CoreSettings
from radrm.errors import BadConfig
from radrm.wiring import (
    AUTO_CHAIN,
    TABLES,
    find_rule,
    make_estimating,
    make_planner,
    make_rules,
    make_settings,
    settings_of,
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
        chosen["estimators"] = ("auto", *AUTO_CHAIN)
    return chosen


# ------------------------------------------------------------------ the settings


def rule_settings(table: str, name: str) -> dict[str, Any]:
    """A rule's settings and their defaults. Raises `BadConfig` if there is no such rule."""
    settings = settings_of(find_rule(registry_of(table), name))
    return {key: s.default for key, s in settings.items() if s.default is not MISSING}


def core_settings() -> dict[str, Any]:
    """The settings of `[core]` and their defaults: those that `wiring` accepts there."""
    return {
        f.name: f.default
        for f in fields(CoreSettings)
        if isinstance(f.default, (bool, int, float))
        and _complaint(_make_core, {f.name: f.default}) is None
    }


def filled(config: Config) -> Config:
    """The configuration with all defaults of the selected rules written out."""
    meant = resolved(config)
    tables: dict[str, Any] = {table: dict(getattr(meant, table)) for table in RULE_TABLES}
    for table, names in chosen_rules(config).items():
        for name in names:
            settings = {**rule_settings(table, name), **tables[table].get(name, {})}
            if settings:
                tables[table][name] = settings
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
        for name in dict.fromkeys([*chosen, *given]):
            yield from _table_errors(_make_rule(table, name), given.get(name, {}))
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


def _make_rule(table: str, name: str) -> Callable[[Any], object]:
    """A function that makes one rule from given settings, with defaults for everything else."""
    make: Callable[[Config], object] = make_rules
    if table == "estimators":
        make = make_estimating

    def made(settings: Mapping[str, Any]) -> object:
        if table == "planners":  # alone it need not start jobs
            return make_planner(replace(Config(), planners={name: settings}), name)
        choice: dict[str, Any] = {RULE_TABLES[table]: name, table: {name: settings}}
        return make(replace(Config(), **choice))

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
