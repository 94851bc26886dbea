"""The tour that a newcomer takes first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.daemon


def test_the_demo_succeeds_and_leaves_nothing_behind(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "radrm.cli.main", "demo"],
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 of 12 jobs completed" in done.stdout
    assert "RECOVERING" in done.stdout
    assert "it died of GPU out-of-memory, went first in line" in done.stdout
    assert os.listdir(tmp_path) == []
