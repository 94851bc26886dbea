"""`radrm bench collocate` on a real GPU, with a small matrix product."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from radrm.core.records import Device
from tests.gpu.requirements import missing
from tests.gpu.server import PROGRAMS
from tests.paths import REPOSITORY

pytestmark = pytest.mark.gpu


def test_copies_of_a_small_program(device: Device, python: str, tmp_path: Path) -> None:
    program = [python, str(PROGRAMS / "matmul.py"), "--size", "512", "--memory", "1024"]
    options = ["--json", "--copies", "1,2", "--gpu", device.uuid, "--seconds", "15"]
    options += ["--step-pattern", r"step (\d+)"]
    done = subprocess.run(
        [sys.executable, "-m", "radrm.cli.main", "bench", "collocate", *options, "--", *program],
        env={**os.environ, "PYTHONPATH": _with_repository()},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    if "is managed by the radrm daemon" in done.stderr:
        missing("idle", done.stderr)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["gpu"]["uuid"] == device.uuid
    rounds = document["rounds"]
    assert [r["copies"] for r in rounds][:2] == [1, 2]
    for measured in rounds:
        assert measured["oom"] == 0
        assert measured["step_s"] > 0
        assert measured["memory_mib"] > 1024 * measured["copies"]
        assert measured["smact"] is None or 0 < measured["smact"] <= 1
        assert 0.2 < measured["throughput"] < 3


def _with_repository() -> str:
    paths = [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]
    return os.pathsep.join(filter(None, paths))
