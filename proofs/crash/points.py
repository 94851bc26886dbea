"""All fault points that the source names, and those that no daemon on simulated GPUs crosses.

A point of the source is the literal in its call of `crossed`. Some points are crossed for several
files or actions; each kind of action counts by itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from radrm.core import actions
from tests.paths import REPOSITORY

RECORD = Path(__file__).with_name("points.txt")
"""The points that the last complete run of the matrix has crossed; `--record` writes it."""
_CALL = "crossed"
_ACTION = "action "
"""How the points begin that each kind of action crosses."""
_NOT_SIMULATED = frozenset({"RaiseCaps"})
"""The kinds of action that simulated GPUs cannot carry out: their driver caps no memory.
`tests/daemon/gpus/test_memory_caps.py` kills a daemon of the stand-in of NVML before one."""
_ONLY_ASKED = frozenset({"TakeReadings"})
"""The kinds of action that only ask the monitor for readings, in one request for all of a step."""

_OF_SLURM = frozenset({"attempt handed over"})
"""The points that only jobs of a Slurm cross; `tests/slurm/test_step.py` kills a daemon there."""


def points_of(folder: Path) -> set[str]:
    """The fault points in the Python files below a folder. Raises `ValueError` for a call without
    a literal."""
    return {point for path in sorted(folder.rglob("*.py")) for point in _in_file(path)}


def _in_file(path: Path) -> Iterator[str]:
    text = path.read_text("utf-8")
    for node in ast.walk(ast.parse(text)) if f"{_CALL}(" in text else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == _CALL:
            point = node.args[0]
            if not isinstance(point, ast.Constant) or not isinstance(point.value, str):
                raise ValueError(f"{path}:{node.lineno} crosses a point without a name")
            yield point.value


def kinds_of_action() -> set[str]:
    """The names of the kinds of actions that the daemon carries out."""
    classes = [each for each in vars(actions).values() if isinstance(each, type)]
    found = {each for each in classes if issubclass(each, actions.Action)}
    kinds = {each.__name__ for each in found if not any(each in o.__bases__ for o in found)}
    return kinds - _NOT_SIMULATED - _ONLY_ASKED


def all_points() -> set[str]:
    """What a complete run of the matrix crosses."""
    found = points_of(REPOSITORY / "radrm")
    of_actions = {point for point in found if point.startswith(_ACTION)}
    each = {f"{point} {kind}" for point in of_actions for kind in kinds_of_action()}
    return (found - of_actions - _OF_SLURM) | each


def never_reached(names: Iterable[str]) -> list[str]:
    """The points that none of these names, as `watcher.name_of` makes them, stands for."""
    crossed = [name.partition(": ")[2] for name in names]
    return sorted(p for p in all_points() if not any(f"{c} ".startswith(f"{p} ") for c in crossed))
