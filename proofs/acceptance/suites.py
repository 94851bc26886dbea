"""Steps that are tests of tests/gpu. A skipped test has failed."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable

from proofs.acceptance.step import Step
from tests.gpu import requirements
from tests.paths import REPOSITORY

_SUMMARY = re.compile(r"^.*\b(passed|failed|error|skipped|deselected)\b.* in [0-9.]+s.*$", re.M)

_PROGRESS = re.compile(r"[.EFsxX]+ +\[ *[0-9]+%\]$")


def pytest_step(file: str, only: str = "") -> Callable[[Step], str]:
    """A step that runs the tests of a file, or those whose name has `only`."""

    def run(step: Step) -> str:
        command = [sys.executable, "-m", "pytest", "-o", "addopts=", "-q", "-rs"]
        command += ["-p", "no:cacheprovider", "-m", "gpu", f"tests/gpu/{file}"]
        command += ["-k", only] if only else []
        environment = {**os.environ, requirements.VARIABLE: "all"}
        done = step.command(command, timeout_s=600, cwd=REPOSITORY, env=environment)
        found = _SUMMARY.search(done.stdout)
        line = found[0].strip("= ") if found else f"pytest ended with {done.returncode}"
        step.check(done.returncode == 0, _first_reason(done.stdout) or line)
        step.check("skipped" not in line and "passed" in line, line)
        return line

    return run


def _first_reason(text: str) -> str | None:
    """The first line that says why a test failed."""
    for line in text.splitlines():
        if _PROGRESS.match(line):
            continue
        if line.startswith(("E  ", "no ", "ERROR tests", "FAILED tests")) and line[1:].strip():
            return line.removeprefix("E").strip()[:200]
    return None
