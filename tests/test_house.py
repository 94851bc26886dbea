"""Every file fits its reader: at most 800 lines a file, at most 20 files a folder.

A file that is too long holds several matters: give each a file of its own. A folder that is too
full holds several groups: give one a folder. Tables of data are no code: keep them in data files.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.paths import REPOSITORY

MOST_LINES = 800
MOST_FILES = 20

FOLDERS = ("radrm", "tests", "benchmarks", "tools")
CODE = {".py", ".c", ".h", ""}
"""Suffixes of code; the stand-ins of programs have none."""

ONE_EACH = {"radrm/cli/commands"}
"""Folders with as many files as there are things of one kind: here, commands."""


def files_of(root: Path) -> list[Path]:
    """All files of the repository's folders, without what Python and tools leave there."""
    found = [path for folder in FOLDERS for path in (root / folder).rglob("*") if path.is_file()]
    words = {path: path.relative_to(root).parts for path in found}
    return sorted(
        path
        for path in found
        if "__pycache__" not in words[path] and not any(w.startswith(".") for w in words[path])
    )


def too_long(root: Path) -> list[str]:
    errors = []
    for path in files_of(root):
        if path.suffix in CODE:
            lines = len(path.read_text("utf-8").splitlines())
            name = path.relative_to(root).as_posix()
            if lines > MOST_LINES:
                errors.append(f"{name}: {lines} lines, at most {MOST_LINES}")
    return errors


def too_full(root: Path) -> list[str]:
    counts: dict[str, int] = {}
    for path in files_of(root):
        folder = path.parent.relative_to(root).as_posix()
        counts[folder] = counts.get(folder, 0) + (path.name != "__init__.py")
    return [
        f"{folder}: {count} files, at most {MOST_FILES}"
        for folder, count in sorted(counts.items())
        if count > MOST_FILES and folder not in ONE_EACH
    ]


def test_no_file_is_too_long() -> None:
    errors = too_long(REPOSITORY)
    assert not errors, "\n" + "\n".join(errors)


def test_no_folder_is_too_full() -> None:
    errors = too_full(REPOSITORY)
    assert not errors, "\n" + "\n".join(errors)


# ------------------------------------------------------------------ the test's own test


def tree(root: Path, lines: dict[str, int]) -> Path:
    """A repository that holds files of so many lines."""
    for name, count in lines.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n" * count)
    return root


@pytest.mark.parametrize(
    ("name", "lines", "wrong"),
    [
        ("radrm/core/step.py", 800, False),
        ("radrm/core/step.py", 801, True),
        ("tests/test_step.py", 801, True),
        ("tests/standins/bin/docker", 801, True),
        ("tests/standins/nvml/state.c", 801, True),
        ("benchmarks/data/measured.csv", 401, False),
        ("radrm/__pycache__/step.py", 401, False),
        ("docs/step.py", 401, False),
    ],
)
def test_a_long_file_is_found(tmp_path: Path, name: str, lines: int, wrong: bool) -> None:
    assert bool(too_long(tree(tmp_path, {name: lines}))) is wrong


@pytest.mark.parametrize(
    ("folder", "count", "wrong"),
    [
        ("radrm/core", 20, False),
        ("radrm/core", 21, True),
        ("radrm/cli/commands", 16, False),
        ("tests", 21, True),
    ],
)
def test_a_full_folder_is_found(tmp_path: Path, folder: str, count: int, wrong: bool) -> None:
    names = [f"{folder}/f{n}.py" for n in range(count)] + [f"{folder}/__init__.py"]
    assert bool(too_full(tree(tmp_path, dict.fromkeys(names, 1)))) is wrong
