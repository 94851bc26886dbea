"""Write TOML that people read: tables of settings, with comments behind values.

The text reads back as the same values and holds no control character. This writes only what a
configuration can hold; the standard library reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time
from typing import Any

Path = tuple[str, ...]
"""The keys that lead to a value, outermost first."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def toml_text(table: Mapping[str, Any], remarks: Mapping[Path, str] | None = None) -> str:
    """A table as TOML: first the values, then each subtable under its header.

    `remarks` are one-line comments behind values, by path. Raises `ValueError` for a value that
    TOML cannot hold.
    """
    return "\n".join(_lines(table, (), remarks or {})).strip("\n") + "\n"


def _lines(table: Mapping[str, Any], path: Path, remarks: Mapping[Path, str]) -> Iterator[str]:
    subtables = {k: v for k, v in table.items() if isinstance(v, Mapping)}
    plain = {k: v for k, v in table.items() if k not in subtables}
    if path and (plain or not subtables):
        yield ""
        yield f"[{'.'.join(map(toml_key, path))}]"
    for key, value in plain.items():
        remark = remarks.get((*path, key))
        yield f"{toml_key(key)} = {toml_value(value)}" + (f"  # {remark}" if remark else "")
    for key, value in subtables.items():
        yield from _lines(value, (*path, key), remarks)


def toml_key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _quoted(key)


def toml_value(value: Any) -> str:
    """A value on one line. Raises `ValueError` for a value that TOML cannot hold."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, Mapping):
        pairs = (f"{toml_key(k)} = {toml_value(v)}" for k, v in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(toml_value, value))}]"
    raise ValueError(f"TOML has no {type(value).__name__}")


def _quoted(text: str) -> str:
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    code = ord(character)
    if 0xD800 <= code <= 0xDFFF:
        raise ValueError("TOML has no half of a surrogate pair")
    if character.isprintable():
        return character
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
