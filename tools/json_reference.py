"""The JSON Schema of radrm's documents and their page, made from json_documents.toml.

    python -m tools.json_reference

writes the schema, which is committed: the package ships it. `tools/site_hooks.py` adds the page to
the site as `json.md`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
TABLE = Path(__file__).with_name("json_documents.toml")
SCHEMA = ROOT / "radrm" / "radrm.schema.json"

_SCALARS = frozenset({"string", "number", "integer", "boolean"})
_OTHERS = "*"
"""The key that stands for all fields without a line."""
_FIELD = re.compile(r"(?P<type>[^:]+?)(?P<null> or null)?: (?P<meaning>.+)")

_HEAD = """\
# JSON

Every command that reads something takes `--json`: one document on standard output, messages on
standard error. This page is made from the table `tools/json_documents.toml`. The package ships the
same as a JSON Schema: [radrm.schema.json](../radrm/radrm.schema.json). It has an entry for each
command, as `#/$defs/radrm status`, and is tested with real answers.

- `null` means unknown or not applicable. It never means zero.
- Units are in the names: `_s` seconds, `_at` seconds since the epoch (by the daemon's clock),
  `_mib` MiB, `_j` joules, `_w` watts.
- A field marked *optional* may be absent. A later release may add fields: ignore those that you
  do not know.
"""


class Table:
    """The table: commands, lists of words, and documents by name. Raises `ValueError` for a line
    that it cannot read."""

    def __init__(self, text: str) -> None:
        found = tomllib.loads(text)
        self.commands: Mapping[str, str] = found.pop("commands")
        self.words: Mapping[str, list[str]] = found.pop("words")
        self.documents: Mapping[str, Mapping[str, str]] = found

    def fields(self, name: str) -> Iterator[tuple[str, bool, str, bool, str]]:
        """Each field of a document: name, optional, type, may be null, meaning."""
        for key, line in self.documents[name].items():
            if key == "_":
                continue
            match = _FIELD.fullmatch(line)
            if match is None:
                raise ValueError(f"{name}.{key}: {line!r} is not 'TYPE: meaning'")
            optional = key.endswith("?")
            yield (
                *(key.removesuffix("?"), optional),
                *(match["type"], match["null"] is not None, match["meaning"]),
            )

    def schema_of(self, kind: str) -> dict[str, Any]:
        """The schema of a type. Raises `ValueError` if the table does not have it."""
        if kind[0] + kind[-1] == "[]":
            return {"type": "array", "items": self.schema_of(kind[1:-1])}
        if kind[0] + kind[-1] == "{}":
            return {"type": "object", "additionalProperties": self.schema_of(kind[1:-1])}
        if kind in _SCALARS:
            return {"type": kind}
        if kind in self.words:
            return {"enum": self.words[kind]}
        if kind in self.documents:
            return {"$ref": f"#/$defs/{kind}"}
        if kind == "any":
            return {}
        raise ValueError(f"{kind!r} is no type")

    def schema(self) -> dict[str, Any]:
        """The schema of all documents, and of the answer of each command."""
        found = {name: self._object(name) for name in self.documents}
        answers = {f"radrm {name}": self.schema_of(kind) for name, kind in self.commands.items()}
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "The JSON documents of radrm",
            "$defs": answers | found,
        }

    def _object(self, name: str) -> dict[str, Any]:
        fields = list(self.fields(name))
        properties = {
            key: {**_or_null(self.schema_of(kind), null), "description": meaning}
            for key, _, kind, null, meaning in fields
        }
        rest = properties.pop(_OTHERS, None)
        return {
            "type": "object",
            **({"description": about} if (about := self.documents[name].get("_")) else {}),
            "properties": properties,
            "required": [key for key, optional, *_ in fields if not optional and key != _OTHERS],
            **({} if rest is None else {"additionalProperties": rest}),
        }


def _or_null(schema: dict[str, Any], null: bool) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]} if null else schema


def table() -> Table:
    """The table of now."""
    return Table(TABLE.read_text("utf-8"))


# ------------------------------------------------------------------ the page


def page(table: Table) -> str:
    """The page."""
    rows = [f"| `radrm {name} --json` | {_shown(kind)} |" for name, kind in table.commands.items()]
    parts = [_HEAD, "| command | document |\n|---|---|\n" + "\n".join(rows)]
    for name, document in table.documents.items():
        about = f"\n{document['_']}\n" if "_" in document else ""
        lines = [
            f"| {'others' if key == _OTHERS else f'`{key}`'} | "
            f"{_shown(kind)}{' or null' if null else ''}{', optional' if optional else ''} | "
            f"{meaning.replace('|', chr(92) + '|')} |"
            for key, optional, kind, null, meaning in table.fields(name)
        ]
        parts.append(f"## {name}\n{about}\n| field | type | meaning |\n|---|---|---|")
        parts[-1] += "\n" + "\n".join(lines)
    words = [f"| {name} | {', '.join(f'`{w}`' for w in all_)} |" for name, all_ in _sorted(table)]
    parts.append("## Words\n\n| type | one of |\n|---|---|\n" + "\n".join(words))
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _sorted(table: Table) -> list[tuple[str, list[str]]]:
    return sorted(table.words.items())


def _shown(kind: str) -> str:
    if kind[0] == "[":
        return f"list of {_shown(kind[1:-1])}"
    if kind[0] == "{":
        return f"object of {_shown(kind[1:-1])}"
    if kind.isupper():
        return f"[{kind}](#words)"
    return kind if kind in _SCALARS or kind == "any" else f"[{kind}](#{kind})"


def schema_text() -> str:
    """The text of the schema's file."""
    return json.dumps(table().schema(), indent=1) + "\n"


if __name__ == "__main__":
    SCHEMA.write_text(schema_text(), "utf-8")
    print(f"{SCHEMA}: written", file=sys.stderr)
