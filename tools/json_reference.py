"""The JSON Schema of radrm's documents and their page, made from their declarations.

    python -m tools.json_reference

writes the schema for the package (`make manual`). `tools/site_hooks.py` adds both to the site, the
page as `json.md`. The declarations are in `radrm/documents/`, and of a wing's commands in the
wing's file `documents`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from radrm.documents.answers import ANSWERS
from radrm.documents.base import Document, Words, texts_of
from radrm.wings import wings

ROOT = Path(__file__).parents[1]
SCHEMA = ROOT / "radrm" / "radrm.schema.json"

_OTHERS = "*"
"""The name that stands for all fields that are not declared."""
_SCALARS = {str: "string", float: "number", int: "integer", bool: "boolean"}

_HEAD = """\
# JSON

Every command that reads something takes `--json`: one document on standard output, messages on
standard error. This page is made from the declarations in `radrm/documents/`. The package ships the
same as a JSON Schema: [radrm.schema.json](../radrm/radrm.schema.json). It has an entry for each
command, as `#/$defs/radrm status`, and is tested with real answers.

- A list of things is a list at the top. One thing, or a report, is an object.
- `null` means unknown or not applicable. It never means zero.
- A field marked *optional* is absent while it has nothing to say: it is unknown, empty, zero or no.
- Units are in the names: `_s` seconds, `_at` seconds since the epoch (by the daemon's clock),
  `_mib` MiB, `_j` joules, `_w` watts.
- A later release may add fields: ignore those that you do not know.
"""


@cache
def answers() -> Mapping[str, Any]:
    """What each command answers, by its words. Those of the server come first."""
    found: dict[str, Any] = dict(ANSWERS)
    for name in wings():
        module = f"radrm.{name}.documents"
        if find_spec(module) is not None:
            found |= import_module(module).ANSWERS
    return found


@dataclass(frozen=True)
class Field:
    """A field as the schema and the page show it. `kind`: its type, without null if `null`."""

    name: str
    kind: Any
    null: bool
    optional: bool
    meaning: str


class Reference:
    """The documents of some answers, each after the one that first needs it, and their words.

    Raises `ValueError` for a type that has no place in JSON, a field without a text, and two
    documents with one name.
    """

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = answers
        self.documents: dict[str, type[Document]] = {}
        self.words: dict[str, tuple[str, ...]] = {}
        for kind in answers.values():
            self._note(kind)

    def _note(self, kind: Any) -> None:
        if (words := words_of(kind)) is not None:
            self.words[words.name] = words.values
        elif not _is_document(kind):
            for part in get_args(kind):
                self._note(part)
        elif (name := name_of(kind)) not in self.documents:
            self.documents[name] = kind
            for field in fields_of(kind):
                self._note(field.kind)
        elif self.documents[name] is not kind:
            raise ValueError(f"two documents are called {name}")

    def schema(self) -> dict[str, Any]:
        """The schema of all documents, and of the answer of each command."""
        answers = {f"radrm {name}": schema_of(kind) for name, kind in self.answers.items()}
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "The JSON documents of radrm",
            "$defs": answers | {name: _object(kind) for name, kind in self.documents.items()},
        }

    def page(self) -> str:
        """The page."""
        rows = [
            f"| `radrm {name} --json` | {_shown(kind)} |" for name, kind in self.answers.items()
        ]
        parts = [_HEAD, "| command | document |\n|---|---|\n" + "\n".join(rows)]
        for name, document in self.documents.items():
            lines = [
                f"| {'others' if field.name == _OTHERS else f'`{field.name}`'} | "
                f"{_shown(field.kind)}{' or null' if field.null else ''}"
                f"{', optional' if field.optional else ''} | "
                f"{field.meaning.replace('|', chr(92) + '|')} |"
                for field in fields_of(document)
            ]
            head = f"## {name}\n\n{about(document)}\n\n| field | type | meaning |\n|---|---|---|"
            parts.append(head + "\n" + "\n".join(lines))
        words = [
            f"| {name} | {', '.join(f'`{word}`' for word in values)} |"
            for name, values in sorted(self.words.items())
        ]
        parts.append("## Words\n\n| type | one of |\n|---|---|\n" + "\n".join(words))
        return "\n\n".join(part.rstrip() for part in parts) + "\n"


def name_of(kind: type[Document]) -> str:
    """The name of a document: `gpu_refusal` of `GpuRefusal`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()


def words_of(kind: Any) -> Words | None:
    """The words that a text takes; None for all other types."""
    said = get_args(kind)[1:] if get_origin(kind) is Annotated else ()
    return next((each for each in said if isinstance(each, Words)), None)


def about(kind: type[Document]) -> str:
    """What a document is. Raises `ValueError` if it does not say."""
    text = kind.__dict__.get("__doc__")
    if not text:
        raise ValueError(f"{kind.__name__} has no docstring")
    return " ".join(text.split())


def fields_of(kind: type[Document]) -> Iterator[Field]:
    """The fields of a document; the last one may stand for all that are not declared."""
    hints, texts = get_type_hints(kind, include_extras=True), texts_of(kind)
    for field in msgspec.structs.fields(kind):
        parts = _parts(hints[field.name])
        optional = field.default is not msgspec.NODEFAULT
        # Left out where it is None.
        null = NoneType in parts and field.default is not None
        parts = [each for each in parts if each not in (NoneType, msgspec.UnsetType)]
        if field.name not in texts:
            raise ValueError(f"{kind.__name__}.{field.name} has no text below it")
        yield Field(field.encode_name, _union(parts), null, optional, texts[field.name])
    if kind.OTHERS is not None:
        parts = _parts(kind.OTHERS)
        null, parts = NoneType in parts, [each for each in parts if each is not NoneType]
        yield Field(_OTHERS, _union(parts), null, False, texts["OTHERS"])


def _parts(kind: Any) -> list[Any]:
    if get_origin(kind) is Annotated and words_of(kind) is None:
        kind = get_args(kind)[0]
    return list(get_args(kind)) if get_origin(kind) in (Union, UnionType) else [kind]


def _union(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else Union[tuple(parts)]  # noqa: UP007


def _is_document(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Document)


def schema_of(kind: Any) -> dict[str, Any]:
    """The schema of a type. Raises `ValueError` for one that JSON does not have."""
    origin, parts = get_origin(kind), get_args(kind)
    if (words := words_of(kind)) is not None:
        return {"enum": list(words.values)}
    if kind is Any:
        return {}
    if kind in _SCALARS:
        return {"type": _SCALARS[kind]}
    if _is_document(kind):
        return {"$ref": f"#/$defs/{name_of(kind)}"}
    if origin is tuple and parts[1:] == (...,):
        return {"type": "array", "items": schema_of(parts[0])}
    if origin is dict and parts[0] is str:
        return {"type": "object", "additionalProperties": schema_of(parts[1])}
    if origin in (Union, UnionType):
        return {"anyOf": [schema_of(each) for each in parts]}
    raise ValueError(f"{kind!r} is no type of a document")


def _object(kind: type[Document]) -> dict[str, Any]:
    fields = list(fields_of(kind))
    properties = {
        field.name: {**_or_null(schema_of(field.kind), field.null), "description": field.meaning}
        for field in fields
    }
    rest = properties.pop(_OTHERS, None)
    return {
        "type": "object",
        "description": about(kind),
        "properties": properties,
        "required": [f.name for f in fields if not f.optional and f.name != _OTHERS],
        **({} if rest is None else {"additionalProperties": rest}),
    }


def _or_null(schema: dict[str, Any], null: bool) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]} if null else schema


def _shown(kind: Any) -> str:
    """A type as the page has it."""
    parts = get_args(kind)
    if (words := words_of(kind)) is not None:
        return f"[{words.name}](#words)"
    if kind is Any:
        return "any"
    if kind in _SCALARS:
        return _SCALARS[kind]
    if _is_document(kind):
        return f"[{name_of(kind)}](#{name_of(kind)})"
    if get_origin(kind) is tuple:
        return f"list of {_shown(parts[0])}"
    if get_origin(kind) is dict:
        return f"object of {_shown(parts[1])}"
    return " or ".join(map(_shown, parts))


def reference() -> Reference:
    """All documents of now."""
    return Reference(answers())


def schema_text() -> str:
    """The text of the schema's file."""
    return json.dumps(reference().schema(), indent=1) + "\n"


if __name__ == "__main__":
    SCHEMA.write_text(schema_text(), "utf-8")
    print(f"{SCHEMA}: written", file=sys.stderr)
