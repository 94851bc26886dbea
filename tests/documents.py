"""Compare the JSON documents of commands with the schema that radrm ships."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import msgspec

from radrm.documents.jobs import Job
from tools.json_reference import schema_text

_MOST = 20
"""Elements of a list that are compared: those of a long one are alike."""


def whole(job: Mapping[str, Any]) -> dict[str, Any]:
    """A job's document, with the fields that it leaves out."""
    left_out = {
        field.name: [] if field.default == () else field.default
        for field in msgspec.structs.fields(Job)
        if field.default is not msgspec.NODEFAULT
    }
    return {**left_out, **job}


def errors_of(words: Sequence[str], document: Any) -> list[str]:
    """What is wrong with the answer of `radrm WORDS... --json`. A field that the schema does not
    have is wrong, too. Without jsonschema nothing is; tests/docs/test_json.py fails there."""
    if find_spec("jsonschema") is None:
        return []
    if isinstance(document, list):
        document = document[:_MOST]
    return [
        f"radrm {' '.join(words)}: {'.'.join(map(str, error.absolute_path))}: {error.message[:300]}"
        for error in _validator(_command(words)).iter_errors(document)
    ]


def _command(words: Sequence[str]) -> str:
    """The entry of a command line: `config show`, `compare --advise`, `status`."""
    known = _schema()["$defs"]
    longer = [f"radrm {words[0]} {word}" for word in words[1:]]
    return next((name for name in longer if name in known), f"radrm {words[0]}")


@cache
def _schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(schema_text())
    for each in found["$defs"].values():
        if "properties" in each:
            each.setdefault("additionalProperties", False)
    return found


@cache
def _validator(command: str) -> Any:
    from jsonschema import Draft202012Validator

    whole = _schema()
    assert command in whole["$defs"], f"no ANSWERS names what {command} answers"
    pointer = command.replace(" ", "%20")
    return Draft202012Validator({"$ref": f"#/$defs/{pointer}", "$defs": whole["$defs"]})
