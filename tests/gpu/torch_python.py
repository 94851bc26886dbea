"""Which Python has PyTorch. The suite installs nothing: it uses what is there.

RADRM_GPU_TEST_PYTHON     that one, where it is set
PATH                      else the first `python3` or `python` that can import torch
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

VARIABLE = "RADRM_GPU_TEST_PYTHON"
HOW = f"name a Python that has it: {VARIABLE}=/path/to/python make gpu-test"

# Told apart cheaply: to import PyTorch takes seconds, to look for it does not.
_HAS = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
_SEES = "import torch, sys; sys.exit(not torch.cuda.is_available())"
_LIMIT_S = 300.0

Runs = Callable[[str, str], bool]
"""Whether this Python runs this text to a good end."""


@dataclass(frozen=True)
class Found:
    """A Python, or why there is none."""

    python: str | None
    reason: str | None = None


def find(environ: Mapping[str, str], runs: Runs | None = None) -> Found:
    runs = runs or _runs
    named = environ.get(VARIABLE)
    candidates = [named] if named else list(_on_path(environ.get("PATH", "")))
    having = next((python for python in candidates if runs(python, _HAS)), None)
    if having is None:
        where = f"{VARIABLE}={named} has" if named else "no Python on the PATH has"
        return Found(None, f"{where} PyTorch; {HOW}" if not named else f"{where} no PyTorch")
    if not runs(having, _SEES):
        return Found(None, f"the PyTorch of {having} sees no CUDA device; {HOW}")
    return Found(having)


def has_only(python: str, text: str) -> bool:
    """As the usual `Runs`, but believes that PyTorch sees the GPU: to ask takes seconds."""
    return text != _HAS or _runs(python, text)


def _on_path(path: str) -> Iterator[str]:
    for folder in dict.fromkeys(path.split(os.pathsep)):
        for name in ("python3", "python"):
            file = os.path.join(folder, name)
            if folder and os.access(file, os.X_OK):
                yield file


def _runs(python: str, text: str) -> bool:
    try:
        done = subprocess.run(
            [python, "-c", text], capture_output=True, timeout=_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
