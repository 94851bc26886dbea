"""The reference in docs/configuration.md, made from the source that reads the settings.

    python -m tools.config_reference

writes it anew between its two markers; a test says when that is due.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from radrm.cli.settings import RULE_TABLES, core_settings, registry_of, rule_settings
from radrm.cli.toml_text import toml_value
from radrm.config import (
    Config,
    DaemonConfig,
    EstimationConfig,
    MpsConfig,
    ReadingsConfig,
    StrangersConfig,
)
from radrm.core.settings import CoreSettings
from radrm.wiring import REGISTRIES, find_rule

DOCUMENT = Path(__file__).parents[1] / "docs" / "configuration.md"
BEGIN, END = "<!-- reference: begin -->", "<!-- reference: end -->"

_KINDS = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    list: "list of texts",
}
_SENTENCE = re.compile(r"(?<=[.])\s+(?=[A-Z`])")


def reference() -> str:
    """The whole reference, as Markdown."""
    return "\n\n".join(
        [
            "### At the top",
            _top_table(),
            "### `[core]`: what holds whatever the rules",
            _settings_table(CoreSettings, core_settings()),
            *(part for table in RULE_TABLES for part in _rules(table)),
            "### `[mps]`",
            _settings_table(MpsConfig, Config().to_table()["mps"]),
            "### `[readings]`",
            _docstring(ReadingsConfig),
            _settings_table(ReadingsConfig, Config().to_table()["readings"]),
            "### `[estimation]`",
            _docstring(EstimationConfig),
            _settings_table(EstimationConfig, Config().to_table()["estimation"]),
            "### `[strangers]`",
            _docstring(StrangersConfig),
            _settings_table(StrangersConfig, Config().to_table()["strangers"]),
            "### `[daemon]`",
            _docstring(DaemonConfig),
        ]
    )


def _top_table() -> str:
    rows = []
    for key, default in Config().to_table().items():
        if isinstance(default, dict):
            continue
        kind = next((k for t, k in _registries() if t == key), None)
        names = ", ".join(f"`{name}`" for name in sorted(REGISTRIES[kind])) if kind else ""
        says = meaning(Config, key) + (f" Here: {names}." if names else "")
        rows.append((f"`{key}`", "text", _code(default), says))
    return _markdown(("key", "kind", "default", "meaning"), rows)


def _registries() -> Iterator[tuple[str, str]]:
    """Each key that chooses a rule, with the registry of its kind."""
    yield from ((key, registry_of(table)) for table, key in RULE_TABLES.items())


def _rules(table: str) -> Iterator[str]:
    """A heading, what each rule is, and a table of what can be set."""
    yield f"### `[{table}.NAME]`: settings of the {RULE_TABLES[table]} NAME"
    rules: dict[str, Any] = {
        name: find_rule(registry_of(table), name) for name in sorted(REGISTRIES[registry_of(table)])
    }
    defaults = {name: rule_settings(table, name) for name in rules}
    yield "\n".join(f"- {_about(n, rule, defaults[n])}" for n, rule in rules.items())
    rows = []
    for key in dict.fromkeys(key for settings in defaults.values() for key in settings):
        takers = [name for name in rules if key in defaults[name]]
        shown = {name: _code(defaults[name][key]) for name in takers}
        meant = {name: meaning(rules[name], key) for name in takers}
        kind = _KINDS[type(defaults[takers[0]][key])]
        rows.append((f"`{key}`", kind, _merged(shown), _merged(meant)))
    if rows:
        yield _markdown(("key", "kind", "default", "meaning"), rows)


def _about(name: str, rule: Any, settings: Iterable[str]) -> str:
    keys = ", ".join(f"`{key}`" for key in settings)
    return f"`{name}`: {_first_line(inspect.getmodule(rule))} Takes {keys or 'no settings'}."


def _merged(words: dict[str, str]) -> str:
    """What most rules say, then what others say instead."""
    most = Counter(words.values()).most_common(1)[0][0]
    others: dict[str, list[str]] = {}
    for name, said in words.items():
        if said != most:
            others.setdefault(said, []).append(f"`{name}`")
    return " ".join([most, *(f"({', '.join(n)}: {said})" for said, n in others.items())])


def _settings_table(owner: type, settings: dict[str, Any]) -> str:
    rows = [
        (f"`{key}`", _KINDS[type(default)], _code(default), meaning(owner, key))
        for key, default in settings.items()
    ]
    return _markdown(("key", "kind", "default", "meaning"), rows)


# ------------------------------------------------------------------ what the source says


def meaning(owner: type, key: str) -> str:
    """What a field's own docstring says; else the first sentence of its class that names it.

    Raises `LookupError` where neither says anything: then the source must.
    """
    classes = [c for c in owner.__mro__ if c is not object]
    for cls in classes:
        found = _field_docstrings(cls).get(key)
        if found is not None:
            return found
    for cls in classes:
        for sentence in _SENTENCE.split(_docstring(cls)):
            if f"`{key}`" in sentence:
                return sentence
    raise LookupError(f"nothing says what {key!r} of {owner.__name__} means; give it a docstring")


def _field_docstrings(cls: type) -> dict[str, str]:
    """The string that stands behind a field, by field."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
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


def _docstring(thing: object) -> str:
    return _one_line(getattr(thing, "__doc__", None) or "")


def _first_line(module: object) -> str:
    return (getattr(module, "__doc__", None) or "").strip().partition("\n")[0]


def _one_line(text: str) -> str:
    return " ".join(text.split())


# ------------------------------------------------------------------ Markdown


def _code(value: Any) -> str:
    return f"`{toml_value(value)}`"


def _markdown(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in lines)


def placed(document: str) -> str:
    """A document with the reference between its markers as it should be now."""
    before, _, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise LookupError(f"the markers {BEGIN} and {END} are not there")
    return f"{before}{BEGIN}\n\n{reference()}\n\n{END}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(placed(DOCUMENT.read_text("utf-8")), "utf-8")
    print(f"{DOCUMENT}: written", file=sys.stderr)
