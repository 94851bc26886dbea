"""Nobody outside `core/` touches the scheduler's state: all others take a snapshot.

Three things are forbidden there: to import anything of `core.state`, to import `State` or
`DeviceLedger` from elsewhere in `core`, and to read the attribute `state` of a scheduler: of what
has a name that ends in `scheduler`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.test_layers import Code, Module, code_of_radrm, shown

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
    if ".state" not in module.text:
        return  # most modules
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and node.attr == "state":
            value = node.value.func if isinstance(node.value, ast.Call) else node.value
            if _last_name(value).lower().endswith("scheduler"):
                yield node.lineno, f"touches {ast.unparse(node)}"


def _last_name(value: ast.expr) -> str:
    if isinstance(value, ast.Attribute):
        return value.attr
    return value.id if isinstance(value, ast.Name) else ""


def test_nobody_outside_core_touches_the_state() -> None:
    found = errors(code_of_radrm())
    assert not found, shown(found)
