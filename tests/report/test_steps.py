"""The hook that tells of a program's first optimizer steps (`in_jobs/sitecustomize.py`)."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

import radrm
from tests.standins.pytorch import OPTIMIZER
from tests.waiting import PATIENCE_S

IN_JOBS = Path(radrm.__file__).parent / "in_jobs"

TORCH = """
from torch import compiler, distributed
from torch.optim import optimizer as _hidden
import torch.optim
del torch.optim.optimizer
"""
COMPILER = "compiling = False\ndef is_compiling(): return compiling\n"
DISTRIBUTED = """
rank = None
def is_available(): return True
def is_initialized(): return rank is not None
def get_rank(): return rank
"""


@dataclass
class Program:
    """A Python that has a stand-in `torch`, and a daemon that listens."""

    folder: Path
    listens: socket.socket
    environment: dict[str, str]

    def run(self, text: str, *options: str, path: tuple[Path, ...] = (IN_JOBS,)) -> str:
        """What it prints. Fails if the program does."""
        given = os.pathsep.join(map(str, (self.folder / "lib", *path)))
        done = subprocess.run(
            [sys.executable, "-B", *options, "-c", text],
            env={**self.environment, "PYTHONPATH": given},
            capture_output=True,
            text=True,
            timeout=10 * PATIENCE_S,  # importing PyTorch takes long on a busy machine
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    @property
    def said(self) -> list[str]:
        found = []
        while True:
            try:
                found.append(self.listens.recv(600).decode())
            except BlockingIOError:
                return found


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    torch = tmp_path / "lib" / "torch"
    (torch / "optim").mkdir(parents=True)
    (torch / "__init__.py").write_text(TORCH)
    (torch / "compiler.py").write_text(COMPILER)
    (torch / "distributed.py").write_text(DISTRIBUTED)
    (torch / "optim" / "__init__.py").write_text("")
    (torch / "optim" / "optimizer.py").write_text(OPTIMIZER)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listens:
        folder = os.open(tmp_path, os.O_RDONLY)
        path = f"/proc/self/fd/{folder}/socket"  # that of the fixture may be too long
        listens.bind(path)
        os.close(folder)
        listens.setblocking(False)
        short = Path(os.path.relpath(tmp_path / "socket"))
        yield Program(tmp_path, listens, {"RADRM_PROGRESS": str(short)})


TRAIN = """
import torch, sys
Optimizer = sys.modules["torch.optim.optimizer"].Optimizer
one, two = Optimizer(), Optimizer()
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("for _ in range(9): one.step()", []),
        ("for _ in range(10): one.step()", ["steps=10\n"]),
        ("for _ in range(500): one.step()", ["steps=10\n", "steps=30\n", "steps=100\n"]),
        ("one.step()\nfor _ in range(50): two.step()", []),
        ("for _ in range(15): one.step(); two.step()", ["steps=10\n"]),
        ("torch.compiler.compiling = True\nfor _ in range(50): one.step()", []),
        ("torch.distributed.rank = 1\nfor _ in range(50): one.step()", []),
        ("torch.distributed.rank = 0\nfor _ in range(10): one.step()", ["steps=10\n"]),
    ],
)
def test_the_first_steps_are_told(text: str, said: list[str], program: Program) -> None:
    program.run(TRAIN + text)
    assert program.said == said


@pytest.mark.parametrize(
    ("name", "value", "count"),
    [
        ("RANK", "0", 1),
        ("RANK", "3", 0),
        ("LOCAL_RANK", "1", 0),
        ("RADRM_STEPS", "0", 0),
        ("RADRM_TRACE_FOLDER", "/nowhere", 0),
    ],
)
def test_one_process_tells_it_unless_it_is_traced(
    name: str, value: str, count: int, program: Program
) -> None:
    program.environment[name] = value
    program.run(TRAIN + "for _ in range(10): one.step()")
    assert len(program.said) == count


@pytest.mark.parametrize("flag", ["-I", "-E", "-S"])
def test_isolated_programs_have_no_hook(flag: str, program: Program) -> None:
    assert program.run("import sys; print('sitecustomize' in sys.modules)", flag) == "False\n"


def test_a_program_is_never_disturbed(program: Program) -> None:
    steps = "for _ in range(200): one.step()\nprint('trained')"
    for value in ("/nowhere/socket", "x" * 4000, ""):
        program.environment["RADRM_PROGRESS"] = value
        assert program.run(TRAIN + steps) == "trained\n"
    (program.folder / "lib" / "torch" / "optim" / "optimizer.py").write_text("")
    program.environment["RADRM_PROGRESS"] = "socket"
    assert program.run("import torch; print('old')") == "old\n"


def test_a_daemon_that_does_not_read_stops_nobody(program: Program) -> None:
    import_and_flood = "import os, socket\n" + (
        "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.setblocking(False)\n"
        "try:\n    while True: s.sendto(b'x', os.environ['RADRM_PROGRESS'])\n"
        "except BlockingIOError: pass\n"
    )
    text = import_and_flood + TRAIN + "for _ in range(200): one.step()\nprint('trained')"
    assert program.run(text) == "trained\n"


def test_a_broken_torch_fails_as_it_would(program: Program) -> None:
    (program.folder / "lib" / "torch" / "__init__.py").write_text("1 / 0")
    text = "try:\n    import torch\nexcept ZeroDivisionError: print('as it is')"
    assert program.run(text) == "as it is\n"


@pytest.mark.parametrize("first", [True, False])
def test_the_users_own_is_loaded(first: bool, program: Program) -> None:
    own = program.folder / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import builtins; builtins.mine = 5\n")
    path = (own, IN_JOBS) if first else (IN_JOBS, own)
    shown = program.run("import sitecustomize as s; print(mine, s.__file__)", path=path)
    assert shown == f"5 {own / 'sitecustomize.py'}\n"


def test_a_link_to_the_folder_loads_it_once(program: Program) -> None:
    link = program.folder / "link"
    link.symlink_to(IN_JOBS)
    program.run(TRAIN + "for _ in range(10): one.step()", path=(link, IN_JOBS))
    assert program.said == ["steps=10\n"]


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
def test_a_real_optimizer_is_counted(program: Program) -> None:
    text = """
import torch
layer = torch.nn.Linear(2, 2)
optimizer = torch.optim.AdamW(layer.parameters())
for _ in range(12):
    layer(torch.ones(2)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    (program.folder / "lib").rename(program.folder / "unused")
    program.run(text, "-W", "ignore")
    assert program.said == ["steps=10\n"]
