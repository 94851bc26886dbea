"""The reference of docs/configuration.md, made from the docstrings of the settings.

    python -m tools.config_reference

prints it. `tools/site_hooks.py` puts it into the page.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
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
from radrm.wiring import REGISTRIES, find_rule

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
            says += f" Available: {_listed(sorted(REGISTRIES[registries[key]]))}."
        rows.append((f"`{key}`", _code(default), says))
    return _markdown(rows)


def _plain_table(name: str, owner: type, whole: Mapping[str, Any]) -> Iterator[str]:
    yield f"### `[{name}]`"
    yield _one_line(owner.__doc__ or "")
    if whole[name]:
        yield _settings_table(owner, whole[name])


def _rules(table: str) -> Iterator[str]:
    """Yield a heading and the settings of one kind of rules.

    Rules that take the same settings share the rows. Otherwise each row names its rules.
    """
    yield f"### `[{table}.NAME]`"
    registry = registry_of(table)
    rules: dict[str, Any] = {n: find_rule(registry, n) for n in sorted(REGISTRIES[registry])}
    defaults = {name: rule_settings(table, name) for name in rules}
    keys = dict.fromkeys(key for settings in defaults.values() for key in settings)
    takers = {key: tuple(name for name in rules if key in defaults[name]) for key in keys}
    if len(set(takers.values())) == 1:
        yield f"For {_listed(next(iter(takers.values())))}."
    rows = []
    for key, names in takers.items():
        if len(set(takers.values())) == 1:
            shown = _merged({n: _of_rule(table, n, key, defaults[n][key]) for n in names})
            rows.append((f"`{key}`", shown, _merged({n: meaning(rules[n], key) for n in names})))
        else:
            alike: dict[tuple[str, str], list[str]] = {}
            for name in names:
                shown = _of_rule(table, name, key, defaults[name][key])
                said = (shown, meaning(rules[name], key))
                alike.setdefault(said, []).append(f"{name}.{key}")
            rows += [(_listed(some), *said) for said, some in alike.items()]
    yield _markdown(rows)


def _of_rule(table: str, name: str, key: str, default: Any) -> str:
    """Return the default of a rule's setting, and those of the goals that have another one."""
    of_goals: dict[str, list[str]] = {}
    for goal, value in goals_with(table, name, key).items():
        of_goals.setdefault(_code(value), []).append(goal)
    others = (f"{value} with goal {_listed(goals)}" for value, goals in of_goals.items())
    return "; ".join([_code(default), *others])


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _merged(words: Mapping[str, str]) -> str:
    """Return the text of most rules, then the different texts with their rules."""
    most = Counter(words.values()).most_common(1)[0][0]
    others: dict[str, list[str]] = {}
    for name, said in words.items():
        if said != most:
            others.setdefault(said, []).append(name)
    return " ".join([most, *(f"({_listed(n)}: {said})" for said, n in others.items())])


_OF_THE_MACHINE = {"gpuless_at_once": "the number of CPUs"}
"""Defaults that a daemon finds out."""


def _settings_table(owner: type, settings: Mapping[str, Any]) -> str:
    return _markdown(
        (f"`{key}`", _OF_THE_MACHINE.get(key, _code(default)), meaning(owner, key))
        for key, default in settings.items()
    )


# ------------------------------------------------------------------ what the source says


def meaning(owner: type, key: str) -> str:
    """Return a field's own docstring, from the class or a base of it.

    Raises `LookupError` if there is none.
    """
    for cls in owner.__mro__[:-1]:
        found = _field_docstrings(cls).get(key)
        if found is not None:
            return found
    raise LookupError(f"{key!r} of {owner.__name__} has no meaning; write a docstring behind it")


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
            found[field.target.id] = _one_line(after.value.value)
    return found


def _one_line(text: str) -> str:
    return " ".join(text.split())


# ------------------------------------------------------------------ Markdown


def _code(value: Any) -> str:
    return f"`{toml_value(value)}`"


def _markdown(rows: Iterable[tuple[str, str, str]]) -> str:
    lines = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows]
    return "\n".join(["| key | default | meaning |", "|---|---|---|", *(f"| {r} |" for r in lines)])


if __name__ == "__main__":
    print(reference())
