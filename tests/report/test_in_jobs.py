"""`from radrm.report import Reporter` in a job, whatever its Python has by the name `radrm`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import radrm

PACKAGE = Path(radrm.__file__).parent
IN_JOBS = PACKAGE / "in_jobs"
REPORTS = "from radrm.report import Reporter; Reporter().progress(step=1); import radrm.elastic"


def said(program: str, *path: Path, cwd: Path) -> str:
    """What a Python without installed packages prints, with these folders on its PYTHONPATH."""
    environment = {"PYTHONPATH": os.pathsep.join(map(str, path))}
    done = subprocess.run(
        [sys.executable, "-S", "-B", "-c", f"import radrm\n{program}"],
        env=environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def package(folder: Path, text: str) -> Path:
    (folder / "radrm").mkdir(parents=True)
    (folder / "radrm" / "__init__.py").write_text(text)
    return folder


def test_without_an_installed_radrm_it_is_the_daemons(tmp_path: Path) -> None:
    shown = said(f"{REPORTS}; print(radrm.__file__)", IN_JOBS, cwd=tmp_path)
    assert shown == str(PACKAGE / "__init__.py")
    (tmp_path / "link").symlink_to(IN_JOBS)
    assert said("print(radrm.__version__)", tmp_path / "link", IN_JOBS, cwd=tmp_path) != ""


@pytest.mark.parametrize("first", [True, False])
def test_a_module_of_the_users_own_stays(first: bool, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "radrm.py").write_text("mine = 5\n")
    path = (own, IN_JOBS) if first else (IN_JOBS, own)
    assert said("print(radrm.mine)", *path, cwd=tmp_path) == "5"


def test_another_release_stays_and_has_what_it_lacks(tmp_path: Path) -> None:
    other = package(tmp_path / "other", "__version__ = 'old'\n")
    (other / "radrm" / "api.py").write_text("here = 'the old one'\n")
    program = f"{REPORTS}; import radrm.api; print(radrm.__version__, radrm.api.here)"
    assert said(program, IN_JOBS, other, cwd=tmp_path) == "old the old one"


def test_nothing_else_is_there(tmp_path: Path) -> None:
    assert said("import report", IN_JOBS, cwd=tmp_path).startswith("ModuleNotFoundError")
