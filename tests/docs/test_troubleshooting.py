"""docs/troubleshooting.md quotes what radrm says: a reader searches it for what he saw."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.paths import REPOSITORY

DOCUMENT = (REPOSITORY / "docs" / "troubleshooting.md").read_text("utf-8")

_VARYING = re.compile(r"%(?:\.\d)?[sdrf]|\{\w+\}")


# ------------------------------------------------------------------ what the source says


def strings(file: Path) -> Iterator[str]:
    """The strings of a module as people see them, `…` where something is filled in."""
    nodes = list(ast.walk(ast.parse(file.read_text("utf-8"))))
    parts: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            parts.add(id(node.value))  # a docstring
        elif isinstance(node, ast.JoinedStr):
            parts.update(id(part) for part in node.values)
            yield "".join(p.value if isinstance(p, ast.Constant) else "…" for p in node.values)
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield _VARYING.sub("…", node.value)


_END = "\0"
"""Ends each string where many are searched as one."""


@cache
def all_strings() -> str:
    files = sorted((REPOSITORY / "radrm").rglob("*.py"))
    return _END.join(s.replace(_END, " ") for file in files for s in strings(file))


def says(quotation: str, source: str) -> bool:
    """The fixed parts of a quotation stand in one string, in their order. A clause may begin a
    sentence."""
    parts = [re.escape(part) for part in map(str.strip, quotation.split("…")) if part]
    return re.search(f"[^{_END}]*?".join(parts), source, re.IGNORECASE) is not None


# ------------------------------------------------------------------ what the document quotes


def quotations() -> list[str]:
    """The messages in the first cell of each table row; a cell may hold several."""
    cells = re.findall(r"^\| (`.+?`) \| ", DOCUMENT, re.MULTILINE)
    return [message for cell in cells for message in re.findall(r"`([^`]+)`", cell)]


def test_there_is_something_to_check() -> None:
    assert len(quotations()) >= 50
    assert says("a … c; d …", "x a b c; d e")
    assert not says("a … c", "c a")
    assert not says("a … c", f"a{_END}c")
    assert not says("jobs are sometimes …", all_strings())


def test_radrm_says_each_of_them() -> None:
    assert [each for each in quotations() if not says(each, all_strings())] == []
