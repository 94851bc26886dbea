"""One step in its own process: what it records, what it checks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tests.gpu import torch_python
from tests.gpu.server import PROGRAMS

T = TypeVar("T")
REHEARSAL = "RADRM_ACCEPT_REHEARSAL"
"""Set where stand-ins take the place of a GPU: no page may look as if there had been one."""
_PAUSE_S = 0.1
NO_HOME = "/nonexistent"
"""The home of what becomes another user. It begins as root, and Python runs what lies below the
home (`.local/lib/python3.*/site-packages/*.pth`): so it is no folder that others can write to."""


class Failed(Exception):
    """The step does not pass; the text says why."""


class NotHere(Exception):
    """This machine cannot have what the step is for, whatever radrm does; the text says why.

    Only for what a rented machine may lack by its nature: cgroup v2, a driver of R615, root.
    """


class Step:
    """What a running step has: the GPU, a place to keep outputs, and its findings."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.raw = folder / "raw"
        self.raw.mkdir(parents=True, exist_ok=True)
        self.facts: dict[str, Any] = {}
        self.began = time.monotonic()

    # -------------------------------------------------------------- findings

    def record(self, **facts: Any) -> None:
        """Note findings for the report."""
        self.facts.update(facts)
        print(json.dumps(facts, default=str), flush=True)

    def keep(self, name: str, text: str) -> None:
        """Keep an output as a fixture for stand-ins."""
        (self.raw / name).write_text(text)

    def check(self, passes: object, otherwise: str) -> None:
        if not passes:
            raise Failed(otherwise)

    # -------------------------------------------------------------- the GPU

    @property
    def uuid(self) -> str:
        """The GPU of this run: RADRM_ACCEPT_GPU, else the first."""
        named = os.environ.get("RADRM_ACCEPT_GPU")
        return named or self.smi("--query-gpu=uuid", "--format=csv,noheader").split()[0]

    def smi(self, *words: str, timeout_s: float = 20.0) -> str:
        done = self.command(["nvidia-smi", *words], timeout_s=timeout_s)
        self.check(done.returncode == 0, f"nvidia-smi {' '.join(words)}: {said(done)}")
        return done.stdout

    # -------------------------------------------------------------- programs

    def command(
        self, words: Sequence[str], timeout_s: float = 60.0, **given: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end; its output goes into the log too."""
        print("$", *words, flush=True)
        try:
            done = subprocess.run(
                words, capture_output=True, text=True, timeout=timeout_s, check=False, **given
            )
        except FileNotFoundError:
            raise Failed(f"there is no {words[0]}") from None
        except subprocess.TimeoutExpired:
            raise Failed(f"{words[0]} took more than {timeout_s:g} s") from None
        print(done.stdout, done.stderr, sep="", flush=True)
        return done

    def python(self) -> str:
        """A Python that has PyTorch. Step `facts` finds out whether it sees the GPU."""
        found = torch_python.find(os.environ, torch_python.has_only)
        self.check(found.python, str(found.reason))
        return str(found.python)

    def program(self, name: str, *words: object) -> list[str]:
        """The command of one of tests/gpu/programs."""
        return [self.python(), str(PROGRAMS / name), *map(str, words)]

    def radrm(self, *words: str) -> list[str]:
        """The command of this checkout."""
        return [sys.executable, "-m", "radrm.cli.main", *words]

    def until(self, condition: Callable[[], T], what: str, patience_s: float = 40.0) -> T:
        deadline = time.monotonic() + patience_s
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise Failed(f"waited {patience_s:g} s in vain for {what}")
            time.sleep(_PAUSE_S)
        return found


def said(done: subprocess.CompletedProcess[str]) -> str:
    """The last line of what a command has said, or its exit code."""
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return f"{lines[-1][:200] if lines else 'it said nothing'} (exit code {done.returncode})"


def lines_of(text: str) -> list[dict[str, Any]]:
    """The lines of JSON in an output."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def perform(name: str, function: Callable[[Step], str], folder: Path) -> bool:
    """Run a step; write its result. `function` returns one line for the report."""
    step = Step(name, folder)
    here = True
    try:
        line, passes = function(step), True
    except Failed as error:
        line, passes = str(error), False
    except NotHere as error:
        line, passes, here = str(error), True, False
    except Exception as error:
        traceback.print_exc()
        line, passes = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}", False
    result = {"name": name, "passes": passes, "line": line, "facts": step.facts, "here": here}
    (folder / "results").mkdir(exist_ok=True)
    (folder / "results" / f"{name}.json").write_text(json.dumps(result, indent=1, default=str))
    return passes
