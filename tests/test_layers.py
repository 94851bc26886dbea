"""The layers hold: imports go down, or to what stands earlier in a folder's own listing.

The rules are read from the docstrings that people read: the layers from `radrm`'s, the
order of a folder's files from its `__init__`, after the words "in the order in which
they may import one another:". A folder without such a listing (a registry of rules)
only has to be free of circles. Every import counts: inside functions and under
TYPE_CHECKING too.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.paths import REPOSITORY

# What reaches out of the process, or gives another answer each time it is asked.
# fmt: off
IMPURE = {
    "asyncio", "builtins", "concurrent", "ctypes", "datetime", "fcntl", "getpass", "glob",
    "grp", "http", "importlib", "io", "locale", "logging", "mmap", "multiprocessing", "os",
    "pathlib", "platform", "pty", "pwd", "queue", "random", "resource", "runpy", "sched",
    "secrets", "select", "selectors", "shelve", "shutil", "signal", "socket", "socketserver",
    "sqlite3", "ssl", "subprocess", "sys", "sysconfig", "syslog", "tempfile", "termios",
    "threading", "time", "tkinter", "tty", "urllib", "uuid", "webbrowser", "zoneinfo",
}
# fmt: on
IMPURE_CALLS = {"open", "print", "input", "exec", "eval", "__import__", "breakpoint"}

_LISTING = re.compile(
    r"in the order in which\s+they may import one another:\n((?:    .*\n?)+)", re.IGNORECASE
)


@dataclass(frozen=True)
class Module:
    name: str
    text: str
    tree: ast.Module
    is_package: bool

    @property
    def docstring(self) -> str:
        return ast.get_docstring(self.tree, clean=False) or ""


class Code:
    """A package's modules, read and never run."""

    def __init__(self, folder: Path) -> None:
        self.package = folder.name
        self.modules = {m.name: m for m in self._read(folder)}

    @staticmethod
    def _read(folder: Path) -> Iterator[Module]:
        for file in sorted(folder.rglob("*.py")):
            words = file.relative_to(folder.parent).with_suffix("").parts
            is_package = words[-1] == "__init__"
            name = ".".join(words[:-1] if is_package else words)
            text = file.read_text("utf-8")
            yield Module(name, text, ast.parse(text, str(file)), is_package)

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """Every module's imports of other modules of the package."""
        inside = f"{self.package}."
        return {
            module.name: {
                target
                for target in self.all_imports(module)
                if (target + ".").startswith(inside) and target != module.name
            }
            for module in self.modules.values()
        }

    def all_imports(self, module: Module) -> set[str]:
        """The full names of all that a module imports, as deep as they name modules."""
        found: set[str] = set()
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = self._absolute(node, module)
                for alias in node.names:
                    deeper = f"{base}.{alias.name}"
                    found.add(deeper if deeper in self.modules else base)
        return found

    def names_imported(self, module: Module) -> set[tuple[str, str]]:
        """Each name that a module imports from another of the package, with where it comes from."""
        return {
            (base, alias.name)
            for node in ast.walk(module.tree)
            if isinstance(node, ast.ImportFrom)
            and (base := self._absolute(node, module)).split(".")[0] == self.package
            for alias in node.names
        }

    @staticmethod
    def _absolute(node: ast.ImportFrom, module: Module) -> str:
        """The full name of what an import names, however many dots it starts with."""
        if not node.level:
            return node.module or ""
        words = module.name.split(".")
        up = node.level - (1 if module.is_package else 0)
        return ".".join([*words[: len(words) - up], *([node.module] if node.module else [])])

    # -------------------------------------------------------------- listings

    def children(self, package: str) -> set[str]:
        depth = package.count(".") + 1
        return {name.split(".")[depth] for name in self.modules if name.startswith(f"{package}.")}

    def listing(self, package: str) -> list[str] | None:
        """A folder's files in the order in which they may import one another."""
        text = self.modules[package].docstring
        if package == self.package:
            layers = re.findall(r"^    \d+  (.+)$", text, re.MULTILINE)
            return [name.strip() for names in layers for name in names.split(",")]
        found = _LISTING.search(text)
        return re.findall(r"^    (\w+)", found[1], re.MULTILINE) if found else None

    # -------------------------------------------------------------- rules

    def listing_errors(self) -> list[str]:
        errors = []
        for package in (m.name for m in self.modules.values() if m.is_package):
            listed, there = self.listing(package), self.children(package)
            for name in sorted({*listed, *there} if listed is not None else ()):
                times = (listed or []).count(name)
                if name not in there:
                    errors.append(f"{package}: '{name}' is listed and is not there")
                elif times != 1:
                    errors.append(f"{package}: '{name}' is there and listed {times} times")
        return errors

    def order_errors(self) -> list[str]:
        """Imports that go up, or to a later file of the same folder."""
        errors = []
        for name, targets in sorted(self.imports.items()):
            for target in sorted(targets):
                package, mine, other = self._fork(name, target)
                listed = self.listing(package) or []
                if mine in listed and other in listed[listed.index(mine) :]:
                    where = f"'{other}' stands after '{mine}' in {package}"
                    errors.append(f"{name} imports {target}, and {where}")
        return errors

    @staticmethod
    def _fork(name: str, target: str) -> tuple[str, str | None, str | None]:
        """The deepest folder that both lie in, and through which of its files each goes.

        None stands for the folder's own `__init__`: a listing says nothing of it.
        """
        mine, other = name.split("."), target.split(".")
        depth = 0
        while depth < min(len(mine), len(other)) and mine[depth] == other[depth]:
            depth += 1
        following = [words[depth] if depth < len(words) else None for words in (mine, other)]
        return ".".join(mine[:depth]), following[0], following[1]

    def crossings(self, one: str, other: str) -> list[str]:
        """Imports between two folders, in either direction."""
        inside = (f"{self.package}.{one}.", f"{self.package}.{other}.")
        return [
            f"{name} imports {target}"
            for name, targets in sorted(self.imports.items())
            for target in sorted(targets)
            for here, there in (inside, inside[::-1])
            if f"{name}.".startswith(here) and f"{target}.".startswith(there)
        ]

    def circle(self) -> list[str] | None:
        try:
            tuple(TopologicalSorter(self.imports).static_order())
        except CycleError as error:
            return list(error.args[1])
        return None

    def impurities(self, folder: str) -> list[str]:
        """What a folder imports or calls that a pure one must not."""
        errors = []
        for module in self.modules.values():
            if not f"{module.name}.".startswith(f"{self.package}.{folder}."):
                continue
            for target in sorted(self.all_imports(module)):
                top = target.split(".")[0]
                if top in IMPURE or top not in {self.package, "msgspec", *sys.stdlib_module_names}:
                    errors.append(f"{module.name} imports {target}")
            for node in ast.walk(module.tree):
                called = node.func if isinstance(node, ast.Call) else None
                if isinstance(called, ast.Name) and called.id in IMPURE_CALLS:
                    errors.append(f"{module.name}:{called.lineno} calls {called.id}()")
        return errors


def shown(errors: list[str]) -> str:
    return "\n" + "\n".join(errors)


# ------------------------------------------------------------------ radrm itself


@cache
def code_of_radrm() -> Code:
    """Read once for all who ask in a process: to parse it takes seconds."""
    return Code(REPOSITORY / "radrm")


@pytest.fixture
def radrm() -> Code:
    return code_of_radrm()


def test_every_file_is_listed_where_its_folder_lists_files(radrm: Code) -> None:
    errors = radrm.listing_errors()
    assert not errors, shown(errors)


def test_core_and_host_list_their_files(radrm: Code) -> None:
    assert radrm.listing("radrm.core")
    assert radrm.listing("radrm.host")


def test_imports_go_down_or_to_earlier_files(radrm: Code) -> None:
    errors = radrm.order_errors()
    assert not errors, shown(errors)


def test_host_and_simulator_never_import_each_other(radrm: Code) -> None:
    assert {"radrm.host.clock", "radrm.lab.simulator.engine"} <= set(radrm.modules)
    errors = radrm.crossings("host", "lab.simulator")
    assert not errors, shown(errors)


def test_programs_that_start_without_site_packages_need_none(radrm: Code) -> None:
    programs = [each.name for each in radrm.modules.values() if "sys.path.append(" in each.text]
    lines = [
        f"import sys; sys.path.append({str(REPOSITORY)!r})",
        *(f"import {name}" for name in programs),
    ]
    done = subprocess.run([sys.executable, "-I", "-S", "-c", "\n".join(lines)], check=False)
    assert len(programs) > 5 and done.returncode == 0


def test_no_circles(radrm: Code) -> None:
    circle = radrm.circle()
    assert circle is None, " -> ".join(circle or [])


def test_core_is_pure(radrm: Code) -> None:
    errors = radrm.impurities("core")
    assert not errors, shown(errors)
