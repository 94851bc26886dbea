"""Break rules of radrm on purpose, and check that the tests fail: `make mutants`.

    python -m tools.mutants [NAME ...] [--tests PATH ...]

Each row of `tools/defects/` puts a defect into one file of a copy of the package, and runs the
tests on it. A row whose old text does not occur exactly once fails: the rule has moved, and you
must change the row. The exit code is 1 if the tests miss a defect.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.defects import (
    capacity,
    deadline,
    due_times,
    durations,
    elasticity,
    energy,
    planners,
    ranges,
    resizes,
    rules,
    saving,
    servers,
    sharing,
    state,
)
from tools.defects.mutant import Mutant

ROOT = Path(__file__).parents[1]
TESTS = (
    *("tests/core", "tests/policies", "tests/orders", "tests/planners", "tests/jobfile"),
    *("tests/daemon/due/test_lateness.py", "tests/daemon/due/test_expected_end.py"),
    "tests/contract/times",
    *("tests/deadlines", "tests/estimators/test_profile.py"),
    *("tests/estimators/test_chips.py", "tests/contract/mps/test_passing.py"),
    *("tests/host/storage/test_energy_book.py", "tests/daemon/answers/test_energy.py"),
    *("tests/host/gpus/nvml/test_activity.py"),
    *("tests/contract/systems/test_andreas.py", "tests/contract/systems/test_andreas_lives.py"),
    *("tests/contract/systems/test_dlrover.py", "tests/contract/systems/test_nearchus.py"),
    *("tests/radrun/shards/test_book.py", "tests/radrun/shards/test_boundary.py"),
)
LIMIT_S = 300.0
"""Seconds for one run of the tests. A longer run on a busy machine proves nothing."""

MUTANTS = (
    *(*state.MUTANTS, *rules.MUTANTS, *saving.MUTANTS, *planners.MUTANTS),
    *deadline.MUTANTS,
    *due_times.MUTANTS,
    *durations.MUTANTS,
    *energy.MUTANTS,
    *capacity.MUTANTS,
    *elasticity.MUTANTS,
    *resizes.MUTANTS,
    *ranges.MUTANTS,
    *servers.MUTANTS,
    *sharing.MUTANTS,
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants")
    parser.add_argument("names", nargs="*", help="mutants whose name has one of these words")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="what is to notice them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at a time")
    args = parser.parse_args()
    wanted = [m for m in MUTANTS if not args.names or any(n in m.name for n in args.names)]
    sound = verdict_on(None, args.tests)
    if sound is not None:
        print(f"FAIL  the tests fail without any mutant: {sound}")
        return 1
    alive = not wanted
    with ThreadPoolExecutor(args.jobs) as pool:
        verdicts = pool.map(lambda mutant: verdict_on(mutant, args.tests), wanted)
        for mutant, verdict in zip(wanted, verdicts, strict=True):
            alive = alive or verdict is not None
            said = f"FAIL  {mutant.name}: {verdict}" if verdict else f"ok    {mutant.name}"
            print(said, flush=True)
    return 1 if alive else 0


def verdict_on(mutant: Mutant | None, tests: Sequence[str]) -> str | None:
    """The error of a row; None if the tests notice the defect. Without a mutant, the failure of
    the unchanged tests."""
    with tempfile.TemporaryDirectory(prefix="radrm-mutant-") as folder:
        copy = Path(folder)
        for path in ROOT.iterdir():
            if path.is_dir() and not path.name.startswith("."):
                shutil.copytree(path, copy / path.name, ignore=_CACHES)
            elif path.is_file():
                shutil.copy(path, copy)
        if mutant is None:
            passed, said = _run(copy, tests)
            return None if passed else said
        file = copy / "radrm" / "core" / mutant.file
        text = file.read_text()
        if (count := text.count(mutant.old)) != 1:
            return f"radrm/core/{mutant.file} has its old text {count} times; move the row"
        file.write_text(text.replace(mutant.old, mutant.new))
        passed, said = _run(copy, tests)
        if said == _NO_END:
            return said
        return f"no test of {' '.join(tests)} notices it" if passed else None


_NO_END = f"no end within {LIMIT_S:.0f} s; run it alone"
_CACHES = shutil.ignore_patterns("__pycache__")


def _run(copy: Path, tests: Sequence[str]) -> tuple[bool, str]:
    """Whether the tests pass on a copy, and the end of their output."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired:
        return False, _NO_END
    return done.returncode == 0, (done.stdout + done.stderr).strip()[-300:]


if __name__ == "__main__":
    sys.exit(main())
