"""The reference of docs/configuration.md, made from the docstrings of the settings.

    python -m tools.config_reference

prints it. `tools/site_hooks.py` puts it into the page.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from radrm.cli.settings import RULE_TABLES, core_settings, registry_of, rule_settings
from radrm.cli.toml_text import toml_value
from radrm.config import (
    CheckpointConfig,
    Config,
    DeadlinesConfig,
    EnergyConfig,
    EstimationConfig,
    GpusConfig,
    IdleConfig,
    LimitsConfig,
    MpsConfig,
    NodeConfig,
    NotifyConfig,
    ProgressConfig,
    ReadingsConfig,
    RetentionConfig,
    SlotsConfig,
    SlurmConfig,
    UnmanagedConfig,
    goals_with,
)
from radrm.core.settings import CoreSettings
from radrm.wiring import registry as rules_of
from radrm.wiring import rule_of_table, table_of

Row = tuple[str, ...]
"""The cells of a row, behind its key: the default, the meaning, and who sets it."""

_TABLES: Mapping[str, type] = {
    "gpus": GpusConfig,
    "mps": MpsConfig,
    "readings": ReadingsConfig,
    "estimation": EstimationConfig,
    "unmanaged": UnmanagedConfig,
    "node": NodeConfig,
    "progress": ProgressConfig,
    "checkpoint": CheckpointConfig,
    "deadlines": DeadlinesConfig,
    "energy": EnergyConfig,
    "slots": SlotsConfig,
    "idle": IdleConfig,
    "retention": RetentionConfig,
    "notify": NotifyConfig,
    "limits": LimitsConfig,
    "slurm": SlurmConfig,
}


def reference() -> str:
    """Return the whole reference, as Markdown."""
    whole = Config().to_table()
    return "\n\n".join(
        [
            "### Top level",
            _top_table(whole),
            "### `[core]`: under every rule",
            _settings_table(CoreSettings, core_settings()),
            *(part for table in RULE_TABLES for part in _rules(table)),
            *(part for name, owner in _TABLES.items() for part in _plain_table(name, owner, whole)),
        ]
    )


def _top_table(whole: Mapping[str, Any]) -> str:
    registries = {key: registry_of(table) for table, key in RULE_TABLES.items()}
    rows = []
    for key, default in whole.items():
        if isinstance(default, dict):
            continue
        says = meaning(Config, key)
        if key in registries:
            says += f" Available: {_listed(sorted(rules_of(registries[key])))}."
        rows.append((f"`{key}`", _code(default), says, who_sets(Config, key)))
    return _markdown(rows)


def _plain_table(name: str, owner: type, whole: Mapping[str, Any]) -> Iterator[str]:
    yield f"### `[{name}]`"
    yield _one_line(owner.__doc__ or "")
    if whole[name]:
        yield _settings_table(owner, whole[name])


def _rules(table: str) -> Iterator[str]:
    """Yield a heading and the settings of one kind of rules. A row names all tables that have the
    same setting."""
    yield f"### `[{table}.NAME]`"
    registry = registry_of(table)
    alike: dict[tuple[str, Row], list[str]] = {}
    for name in sorted({table_of(registry, rule) for rule in rules_of(registry)}):
        owner: Any = rule_of_table(registry, name)
        for key, default in rule_settings(table, name).items():
            row = (_of_rule(table, name, key, default), meaning(owner, key), who_sets(owner, key))
            alike.setdefault((key, row), []).append(f"{name}.{key}")
    if alike:
        yield _markdown((_listed(names), *row) for (_, row), names in alike.items())
    else:
        yield "The rules of radrm have no settings here."


def _of_rule(table: str, name: str, key: str, default: Any) -> str:
    """Return the default of a rule's setting, and those of the goals that have another one."""
    of_goals: dict[str, list[str]] = {}
    for goal, value in goals_with(table, name, key).items():
        of_goals.setdefault(_code(value), []).append(goal)
    others = (f"{value} with goal {_listed(goals)}" for value, goals in of_goals.items())
    return "; ".join([_code(default), *others])


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


_OF_THE_MACHINE = {"gpuless_at_once": "the number of CPUs"}
"""Defaults that a daemon finds out."""


def _settings_table(owner: type, settings: Mapping[str, Any]) -> str:
    return _markdown(
        (
            f"`{key}`",
            _OF_THE_MACHINE.get(key, _code(default)),
            meaning(owner, key),
            who_sets(owner, key),
        )
        for key, default in settings.items()
    )


# ------------------------------------------------------------------ what the source says


def meaning(owner: type, key: str) -> str:
    """Return what a setting means: the first paragraph of the docstring behind it.

    Raises `LookupError` if there is none.
    """
    return _paragraphs(owner, key)[0]


def who_sets(owner: type, key: str) -> str:
    """Return who sets it, and why: the second paragraph; "" without one."""
    return "".join(_paragraphs(owner, key)[1:])


def _paragraphs(owner: type, key: str) -> list[str]:
    """Return a field's own docstring, from the class or a base of it."""
    for cls in owner.__mro__[:-1]:
        found = _field_docstrings(cls).get(key)
        if found is not None:
            return [_one_line(part) for part in found.split("\n\n")]
    raise LookupError(f"{key!r} of {owner.__name__} has no meaning; write a docstring behind it")


@cache
def _field_docstrings(cls: type) -> dict[str, str]:
    """Return the string behind each field that has one."""
    try:
        source = inspect.getsource(cls)
    except OSError:
        return {}  # made by a function: it has the fields of its base
    (tree,) = ast.parse(textwrap.dedent(source)).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, after in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
            and isinstance(after.value.value, str)
        ):
            found[field.target.id] = after.value.value
    return found


def _one_line(text: str) -> str:
    return " ".join(text.split())


# ------------------------------------------------------------------ Markdown


def _code(value: Any) -> str:
    return f"`{toml_value(value)}`"


def _markdown(rows: Iterable[Row]) -> str:
    lines = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows]
    head = ["| key | default | meaning | who sets it |", "|---|---|---|---|"]
    return "\n".join([*head, *(f"| {r} |" for r in lines)])


if __name__ == "__main__":
    print(reference())
