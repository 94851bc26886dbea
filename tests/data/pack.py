"""Packs the daemon, the runner and `radrun` of a release for the tests of upgrades.

    git archive 0fe1df5 radrm | tar x -C FOLDER
    python -m tests.data.pack FOLDER tests/data/radrm-0.1.0.tar.xz

Only modules that a daemon on simulated GPUs and its jobs import are taken, without docstrings and
comments; the code is that of the release.
"""

from __future__ import annotations

import ast
import io
import sys
import tarfile
from pathlib import Path

ROOTS = (
    "radrm.daemon.main",
    "radrm.host.attempts.start_runner",
    "radrm.host.attempts.runner",
    "radrm.host.attempts.saved",
    "radrm.host.attempts.elastic.acting",
    "radrm.host.estimation.worker",
    "radrm.host.simulated.driver",
    "radrm.radrun.__main__",
    "radrm.radrun.workers.standby",
    "radrm.elastic",
    "radrm.report",
    # The rules that the test configures: a registry names them.
    "radrm.orders.fifo",
    "radrm.policies.exclusive",
    "radrm.planners.order_policy",
    "radrm.recovery.exclusive",
    "radrm.estimators.none",
)


def main(folder: Path, target: Path) -> None:
    wanted: dict[Path, bytes] = {}
    todo = [*ROOTS]
    while todo:
        path = _file(folder, todo.pop())
        if path is None or path in wanted:
            continue
        tree = ast.parse(path.read_text())
        todo += _imports(tree)
        todo += _packages(path.relative_to(folder))
        wanted[path] = _bare(tree)
    with tarfile.open(target, "w:xz", preset=9) as archive:
        for path in sorted(wanted):
            entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
            entry.size = len(wanted[path])
            archive.addfile(entry, io.BytesIO(wanted[path]))
    print(f"{target}: {len(wanted)} modules, {target.stat().st_size} bytes")


def _file(folder: Path, name: str) -> Path | None:
    base = folder.joinpath(*name.split("."))
    found = [base.with_suffix(".py"), base / "__init__.py"]
    return next((path for path in found if path.is_file()), None)


def _packages(path: Path) -> list[str]:
    """The packages that are imported before a module."""
    return [".".join(parent.parts) for parent in path.parents if parent.parts]


def _imports(tree: ast.AST) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
    return [name for name in found if name.split(".")[0] == "radrm"]


def _bare(tree: ast.Module) -> bytes:
    """The code without docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            kept = [n for n in node.body if not _is_text(n)]
            node.body = kept or ([] if isinstance(node, ast.Module) else [ast.Pass()])
    return ast.unparse(tree).encode()


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
