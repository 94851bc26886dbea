"""From TOML to a checked `Config`, and contradictory settings.

This checks keys, types and choices: each setting has its check beside it (`shapes`).
`radrm.wiring` checks whether a rule exists, and its settings.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from radrm.config import values as v
from radrm.config.goals import AUTO, PUBLISHED, SHARING, resolved
from radrm.config.shapes import Config, checks_of
from radrm.core.words import Collocation
from radrm.errors import BadConfig
from radrm.toml import parse_toml


class Examined(Struct, frozen=True):
    """The usable part of a configuration, and one line on each error."""

    config: Config
    errors: tuple[str, ...] = ()

    def accepted(self) -> Config:
        """Return the configuration. Raises `BadConfig` for an error."""
        if self.errors:
            raise BadConfig(self.errors[0])
        return self.config


def parse_config(text: str, source_name: str) -> Config:
    """Read TOML text. Every error begins with `source_name`. Raises `BadConfig`."""
    return examine_config(text, source_name).accepted()


def parse_table(table: v.Table, source_name: str) -> Config:
    """Return the configuration of a table, as `Config.to_table` makes it. Raises `BadConfig`."""
    return _examined(table, source_name).accepted()


def examine_config(text: str, source_name: str) -> Examined:
    """Read TOML text and find all its errors. Raises `BadConfig` for too deep nesting."""
    try:
        table = parse_toml(text)
    except RecursionError:
        raise BadConfig(f"{source_name}: not TOML: nested too deeply") from None
    except ValueError as error:
        return Examined(Config(), (f"{source_name}: not TOML: {error}",))
    return _examined(table, source_name)


def toml_value(text: str) -> Any:
    """Return the value of a TOML text; the text itself if it is not TOML."""
    try:
        read = parse_toml(f"value = {text}")
    except (ValueError, RecursionError):  # one that is nested too deeply is none, either
        return text
    return read["value"] if len(read) == 1 else text


def _examined(table: v.Table, source: str) -> Examined:
    if v.too_deep(table):
        raise BadConfig(f"{source}: nested too deeply")
    place = v.Place(source, [])
    config = Config(**v.known(table, checks_of(Config), place), from_text=True)
    return Examined(config, tuple(place.errors))


_CHOOSE_THEMSELVES = frozenset({"andreas", "deadline"})
"""The planners that have jobs give way by an order of their own."""


def contradictions(config: Config) -> list[str]:
    """Return one line for each pair of contradictory settings."""
    found = _unused_tables(config)
    if config.collocation is Collocation.MPS and not config.mps.enabled:
        found.append(
            "collocation = 'mps' while mps.enabled is false: jobs would be time-sliced; "
            "set mps.enabled = true, or collocation = 'auto'"
        )
    if config.readings.smact == "gpm" and config.readings.source == "nvidia-smi":
        found.append(
            "readings.smact = 'gpm' while readings.source = 'nvidia-smi', which cannot read GPM; "
            "set readings.source = 'auto'"
        )
    own = [name for name in config.planner if name in _CHOOSE_THEMSELVES]
    if config.slots.length_s > 0 and own:
        found.append(
            f"slots.length_s = {config.slots.length_s:g} while planner {own[0]!r} chooses itself "
            "who gives way: a job could start again at once; set slots.length_s = 0"
        )
    if {"andreas", "elastic"} <= set(config.planner):
        found.append(
            "planner 'elastic' beside 'andreas', which chooses the numbers of GPUs itself: each "
            "would undo what the other did; leave one of them out"
        )
    return found


def _unused_tables(config: Config) -> list[str]:
    """Return one line for each table of a policy or an order that `auto` does not choose."""
    meant, found = resolved(config), []
    tables_of = {meant.policy, *([SHARING] if meant.policy == PUBLISHED.policy else [])}
    turns = meant.order == "smallest-work"  # its users take turns by the weights of `fair`
    for key, tables, used in (
        ("policy", config.policies, tables_of),
        ("order", config.orders, {meant.order, "fair"} if turns else {meant.order}),
    ):
        if getattr(config, key) == AUTO:
            for name in tables.keys() - used:
                chosen = getattr(meant, key)
                found.append(
                    f"{key} = 'auto' means {chosen!r}, so the settings of {name!r} are not used; "
                    f"set {key}, or remove them"
                )
    return sorted(found)
