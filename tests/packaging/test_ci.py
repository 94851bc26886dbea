"""The files of CI: they can be read, call only what is there, and have few rights."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.paths import REPOSITORY

yaml = pytest.importorskip("yaml", reason="pip install pyyaml")

GITHUB = REPOSITORY / ".github" / "workflows" / "ci.yml"
NIGHTLY = GITHUB.with_name("nightly.yml")
GITLAB = REPOSITORY / ".gitlab-ci.yml"
_TARGET = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


def lines(path: Path) -> Iterator[str]:
    """Every shell line of a file of CI."""
    document = read(path)
    for job in (document.get("jobs") or document).values():
        if isinstance(job, dict):
            for step in job.get("steps") or ():
                yield from step.get("run", "").splitlines()
            yield from job.get("script") or ()


@pytest.mark.parametrize("path", [GITHUB, NIGHTLY, GITLAB], ids=lambda path: path.name)
def test_it_calls_only_what_is_there(path: Path) -> None:
    targets = set(_TARGET.findall((REPOSITORY / "Makefile").read_text()))
    called = set()
    for line in lines(path):
        program, *words = line.split()
        called.add(program)
        if program == "make":
            assert set(words) <= targets, line
        elif program != "apt-get":
            assert (REPOSITORY / program).stat().st_mode & 0o100, line
    assert called >= ({"make"} if path == NIGHTLY else {".ci/run", "make"})


@pytest.mark.parametrize("path", [GITHUB, NIGHTLY], ids=lambda path: path.name)
def test_a_workflow_may_only_read(path: Path) -> None:
    document = read(path)
    assert document["permissions"] == {"contents": "read"}
    steps = [step for job in document["jobs"].values() for step in job["steps"]]
    for step in steps:
        if "uses" in step:
            assert re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"])
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False
    assert all("timeout-minutes" in job for job in document["jobs"].values())
    assert "${{" not in "".join(lines(path))  # no text of a pull request in a shell


def test_both_check_the_pythons_that_the_package_names() -> None:
    text = (REPOSITORY / "pyproject.toml").read_text()
    named = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)
    github = read(GITHUB)["jobs"]["check"]["strategy"]["matrix"]["python"]
    (gitlab,) = read(GITLAB)["check"]["parallel"]["matrix"]
    assert named == github == gitlab["PYTHON"]
