"""`radrm summarize` with a real PyTorch: its file is read by the routes that it is for. At night:
on a push test_tracer has the traces, and tests/cli/usage/test_summarize.py the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from radrm.estimators.summaries.read import read_summary
from radrm.estimators.traces import Traced
from tests.documents import errors_of
from tests.paths import REPOSITORY

PYTHON = os.environ.get("RADRM_TEST_TORCH_PYTHON") or sys.executable
NETS = """
import torch

def make(batch_size):
    print("so it says")
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(16 * 32 * 32, 10),
    )
"""
SAYS = """
import json, os, sys
output = next(word for word in sys.argv if word.startswith("--output="))
document = {"version": 1, "error": "ValueError: no data folder"}
with open(output[9:], "w") as file:
    json.dump(document, file)
"""


@pytest.fixture(scope="module", autouse=True)
def torch() -> None:
    look = "import sys, importlib.util; sys.exit(importlib.util.find_spec('torch') is None)"
    if subprocess.run([PYTHON, "-c", look]).returncode:
        pytest.skip(f"{PYTHON} has no PyTorch (RADRM_TEST_TORCH_PYTHON names another Python)")


def summarize(folder: Path, *words: str, python: str = PYTHON) -> subprocess.CompletedProcess[str]:
    (folder / "nets.py").write_text(NETS)
    command = [sys.executable, "-m", "radrm.cli.main", "summarize", *words, "--python", python]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.nightly
def test_summary_and_trace_stand_in_one_file(tmp_path: Path) -> None:
    done = summarize(tmp_path, "nets:make", "--batch-size=8", "--input-shape=3x32x32", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert errors_of(["summarize"], told) == []
    assert told["file"] == "make.model" and told["batch_size"] == 8
    assert 0 < told["need_mib"] <= told["memory_mib"]
    text = (tmp_path / "make.model").read_text()
    summary = read_summary(text)
    assert [layer.kind for layer in summary.layers] == ["Conv2d", "ReLU", "Flatten", "Linear"]
    assert summary.parameters == 164_298 and summary.batch_size == 8 and not summary.problems
    assert Traced.from_text(text).batch_size == 8
    assert "so it says" in done.stderr
    again = summarize(tmp_path, "nets:make", "--batch-size=8", "--input-shape=3x32x32")
    assert again.returncode == 1 and "--force" in again.stderr


def one_line(done: subprocess.CompletedProcess[str], folder: Path) -> str:
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("radrm: ")]
    assert not list(folder.glob("*.model"))
    return line


@pytest.mark.parametrize(
    ("program", "why"), [(SAYS, "no data folder"), ("raise SystemExit(7)", "exit code 7")]
)
def test_how_the_tracer_fails_is_told_in_one_line(tmp_path: Path, program: str, why: str) -> None:
    """Without PyTorch: test_tracer has what the tracer says, and a factory that ends it."""
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\n{program}")
    python.chmod(0o755)
    assert why in one_line(summarize(tmp_path, "nets:make", python=str(python)), tmp_path)
