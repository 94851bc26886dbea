"""Nobody outside `core/` touches the scheduler's state: all others take a snapshot.

Three things are forbidden there: to import anything of `core.state`, to import `State` or
`DeviceLedger` from elsewhere in `core`, and to read the attribute `state` of a scheduler. What
is a scheduler, the syntax tells: an expression whose last name ends in `scheduler`, and a
variable that is annotated as `Scheduler`, or assigned from such an expression or from a call of
`Scheduler`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_layers import Code, Module, code, code_of_radrm, shown

OWN = {"State", "DeviceLedger"}
"""The classes of `core.state` that hold what a step changes."""


def errors(code: Code) -> list[str]:
    """What modules outside `core` know of its state."""
    return [
        f"{module.name}:{line} {what}"
        for name, module in sorted(code.modules.items())
        if not f"{name}.".startswith(f"{code.package}.core.")
        for line, what in (*_imports(code, module), *_reads(module))
    ]


def _imports(code: Code, module: Module) -> Iterator[tuple[int, str]]:
    core = f"{code.package}.core"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            targets = {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = code._absolute(node, module)
            targets = {f"{base}.{alias.name}" for alias in node.names}
        else:
            continue
        for target in sorted(targets):
            own = target.startswith(f"{core}.") and target.split(".")[-1] in OWN
            if own or f"{target}.".startswith(f"{core}.state."):
                yield node.lineno, f"imports {target}"


def _reads(module: Module) -> Iterator[tuple[int, str]]:
    if "state" not in module.text:
        return  # most modules: to look for what is a scheduler takes longest
    schedulers = _schedulers(module.tree) if "cheduler" in module.text else set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and node.attr == "state":
            if _is_scheduler(node.value, schedulers):
                yield node.lineno, f"touches {ast.unparse(node)}"
        elif isinstance(node, ast.Call) and _last_name(node.func) in ("getattr", "attrgetter"):
            words = [each.value for each in node.args if isinstance(each, ast.Constant)]
            if "state" in words:
                yield node.lineno, f"touches {ast.unparse(node)}"


def _schedulers(tree: ast.Module) -> set[str]:
    """The variables and attributes that hold a scheduler, and have another name."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and _names_scheduler(node.annotation):
            found.add(node.arg)
        elif isinstance(node, ast.AnnAssign) and _names_scheduler(node.annotation):
            found.add(_last_name(node.target))
        elif isinstance(node, ast.Assign) and _is_scheduler(node.value, found):
            found.update(_last_name(target) for target in node.targets)
        elif isinstance(node, ast.NamedExpr) and _is_scheduler(node.value, found):
            found.add(_last_name(node.target))
    return found - {""}


def _names_scheduler(annotation: ast.expr | None) -> bool:
    return annotation is not None and "Scheduler" in ast.unparse(annotation)


def _is_scheduler(value: ast.expr, known: set[str]) -> bool:
    if isinstance(value, ast.Call):
        return _last_name(value.func) == "Scheduler"
    name = _last_name(value)
    return name in known or name.endswith("scheduler")


def _last_name(value: ast.expr) -> str:
    if isinstance(value, ast.Attribute):
        return value.attr
    return value.id if isinstance(value, ast.Name) else ""


def test_nobody_outside_core_touches_the_state() -> None:
    found = errors(code_of_radrm())
    assert not found, shown(found)


# ------------------------------------------------------------------ the test's own test

SOUND = {
    "core/__init__": "",
    "core/state/__init__": "",
    "core/state/state": "class State: ...",
    "core/scheduler": "from app.core.state.state import State\nclass Scheduler: state: State",
    "core/edits": "def look(scheduler): return scheduler.state",
    "host/x": "def look(scheduler, job): return scheduler.snapshot, job.state",
}


def test_a_sound_tree(tmp_path: Path) -> None:
    assert errors(code(tmp_path, **SOUND)) == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("from app.core.state.state import State", "imports app.core.state.state.State"),
        ("import app.core.state.ledger", "imports app.core.state.ledger"),
        ("from app.core import state", "imports app.core.state"),
        ("from ..core.state import ledger", "imports app.core.state.ledger"),
        ("def f():\n    from app.core.state import x", "imports app.core.state.x"),
        ("if TYPE_CHECKING:\n    import app.core.state", "imports app.core.state"),
        ("from app.core.scheduler import Rules, State", "imports app.core.scheduler.State"),
        ("from app.core.view import DeviceLedger", "imports app.core.view.DeviceLedger"),
        ("jobs = loop.scheduler.state.jobs", "touches loop.scheduler.state"),
        ("class A:\n    def f(self): self._scheduler.state.jobs", "touches self._scheduler.state"),
        ("scheduler.state = None", "touches scheduler.state"),
        ("s = loop.scheduler\ns.state", "touches s.state"),
        ("mind = Scheduler(rules)\nmind.state", "touches mind.state"),
        ("def f(mind: Scheduler): return mind.state", "touches mind.state"),
        (
            "class A:\n    mind: 'Scheduler | None'\n    def f(self): self.mind.state",
            "self.mind.state",
        ),
        ("getattr(anything, 'state')", "touches getattr(anything, 'state')"),
        ("attrgetter('state')(scheduler)", "touches attrgetter('state')"),
    ],
)
def test_what_is_found(tmp_path: Path, text: str, error: str) -> None:
    (found,) = errors(code(tmp_path, **{**SOUND, "host/y": text}))
    assert found.startswith("app.host.y:") and error in found
