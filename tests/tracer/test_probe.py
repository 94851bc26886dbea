"""The program that makes a CUDA context, with a PyTorch of straw."""

from __future__ import annotations

import runpy
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import radrm

PROBE = Path(radrm.__file__).parent / "tracer" / "probe.py"


class Matrix:
    def __matmul__(self, other: Matrix) -> Matrix:
        return self

    def sum(self) -> float:
        return 1.0


def main(torch: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[float]]:
    """Its exit code, and how long it stayed."""
    stayed: list[float] = []
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(time, "sleep", stayed.append)
    return runpy.run_path(str(PROBE))["main"](), stayed


def test_it_multiplies_on_the_gpu_and_stays_for_the_readings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def ones(*shape: int, device: str) -> Matrix:
        asked.append(device)
        return Matrix()

    cuda = SimpleNamespace(is_available=lambda: True, synchronize=lambda: asked.append("done"))
    code, stayed = main(SimpleNamespace(cuda=cuda, ones=ones), monkeypatch)
    assert (code, asked) == (0, ["cuda", "done"])
    assert len(stayed) == 1 and stayed[0] >= 3, "a reading comes every second"


def test_without_a_gpu_or_pytorch_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cuda = SimpleNamespace(is_available=lambda: False)
    assert main(SimpleNamespace(cuda=cuda), monkeypatch) == (1, [])
    assert "finds no GPU" in capsys.readouterr().err
    assert main(None, monkeypatch) == (1, [])
    assert "cannot import torch" in capsys.readouterr().err
