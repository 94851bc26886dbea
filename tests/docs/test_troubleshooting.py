"""docs/troubleshooting.md quotes what radrm says: every quotation must stand in the source,
and every reason for which a job may wait must stand in the document."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

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
    """The fixed parts of a quotation stand in one string, in their order."""
    parts = [re.escape(part) for part in map(str.strip, quotation.split("…")) if part]
    return re.search(f"[^{_END}]*?".join(parts), source) is not None


# ------------------------------------------------------------------ what the document quotes


def quotations() -> list[str]:
    """The messages in the first cell of each table row; a cell may hold several."""
    cells = re.findall(r"^\| (`.+?`) \| ", DOCUMENT, re.MULTILINE)
    return [message for cell in cells for message in re.findall(r"`([^`]+)`", cell)]


def test_there_is_something_to_check() -> None:
    assert len(quotations()) >= 140
    assert says("a … c; d …", "x a b c; d e")
    assert not says("a … c", "c a")
    assert not says("a … c", f"a{_END}c")
    assert not says("jobs are sometimes …", all_strings())


@pytest.mark.parametrize("quotation", quotations())
def test_radrm_says_so(quotation: str) -> None:
    fixed = re.sub(r"[^A-Za-z]", "", quotation)
    assert len(fixed) > 4, "too little is quoted to be found again"
    assert says(quotation, all_strings())


# ------------------------------------------------------------------ the other way round

WAITING = (
    "core/constraints/*.py",
    "core/state/ledger.py",
    "core/state/load.py",
    "core/state/readings.py",
    "core/planning/assembly.py",
    "policies/*.py",
)
"""Files whose sentences are reasons for which a job waits."""

NOT_OF_WAITING_JOBS = re.compile(
    # What a planner is told whose wish cannot be granted, ...
    r"does not exist or has ended|is not waiting to start|is not running|it can neither save"
    r"|it has no way to save its work|is under way|radrm did not start"
    r"|a task that stays|a resize cannot"
    r"|it has this size now|its host memory (?:can grow|has no range)"
    r"|its size cannot change while it runs|only CPU and SM"
    r"|an SM fraction|a CPU (?:cap|weight)|no such device|the job would share|other jobs are on it"
    r"|role .* runs with|the job has no role|task .* of role|would be (?:reserved|booked)"
    r"|a limit of host memory|all shares of a task|it is not on node"
    # ... and what is wrong with a setting.
    r"|is not a fraction"
)


def reasons() -> list[str]:
    files = [file for pattern in WAITING for file in sorted((REPOSITORY / "radrm").glob(pattern))]
    files = [file for file in files if file.name != "reserve.py"]  # only planners propose that
    found = {s for file in files for s in strings(file) if s.count(" ") >= 2}
    return sorted(s for s in found if not NOT_OF_WAITING_JOBS.search(s))


def test_every_reason_is_explained() -> None:
    found = reasons()
    assert len(found) >= 50
    missing = [s for s in found if not any(says(quotation, s) for quotation in quotations())]
    assert not missing, f"explain {missing} in docs/troubleshooting.md, 'My job stays PENDING'"
