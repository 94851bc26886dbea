"""The acceptance suite's own parts, tried without a GPU."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from radrm.config import MpsConfig
from radrm.core.records import Device
from radrm.host.mps.control import LONGEST_ADDRESS, LONGEST_SOCKET
from radrm.host.mps.service import MpsService
from radrm.host.storage.paths import paths_for
from tests.gpu import requirements, smi, torch_python
from tests.gpu.server import PROGRAMS, RealServer, short_folder

PRINTED = """\
GPU-aaaa, 0, 143771, 1204, 600, 118.32, Disabled
GPU-bbbb, 1, 143771, [N/A], [N/A], [Not Supported], Enabled
GPU-cccc, 2, 16384, 0, 300, 12.00, [N/A]

an odd line
"""


def test_what_nvidia_smi_prints_is_read() -> None:
    found = smi.rows(PRINTED)
    assert found["GPU-aaaa"] == smi.Row("GPU-aaaa", 0, 143771, 1204, 600, 118.32, mig=False)
    assert found["GPU-bbbb"] == smi.Row("GPU-bbbb", 1, 143771, None, None, None, mig=True)
    assert not found["GPU-cccc"].mig
    assert len(found) == 3


def runs(*good: tuple[str, str]) -> torch_python.Runs:
    """Pythons that have PyTorch, and those of them that see a GPU."""

    def run(python: str, text: str) -> bool:
        return (python, "sees" if "is_available" in text else "has") in good

    return run


def test_else_the_first_on_the_path_that_has_it(tmp_path: Path) -> None:
    pythons = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        python = tmp_path / name / "python3"
        python.touch(0o755)
        pythons.append(str(python))
    environ = {"PATH": f"{tmp_path}/first:{tmp_path}/none:{tmp_path}/second"}
    good = runs((pythons[1], "has"), (pythons[1], "sees"))
    assert torch_python.find(environ, good).python == pythons[1]


@pytest.mark.parametrize(
    ("environ", "good", "said"),
    [
        ({"PATH": ""}, runs(), "no Python on the PATH has PyTorch; name a Python that has it"),
        ({"RADRM_GPU_TEST_PYTHON": "/py"}, runs(), "RADRM_GPU_TEST_PYTHON=/py has no PyTorch"),
        ({"RADRM_GPU_TEST_PYTHON": "/py"}, runs(("/py", "has")), "sees no CUDA device"),
    ],
)
def test_without_one_it_is_said_how(
    environ: dict[str, str], good: torch_python.Runs, said: str
) -> None:
    found = torch_python.find(environ, good)
    assert found.python is None
    assert said in str(found.reason)


def test_the_folder_of_a_server_is_short_enough_for_mps() -> None:
    folder = short_folder()
    try:
        uuid = "GPU-01234567-89ab-cdef-0123-456789abcdef"
        server = RealServer(folder / "0", uuid, sys.executable)
        run = paths_for(server.environment, os.getuid()).run
        mps = MpsService(MpsConfig(enabled=True), run)
        mps.listed((Device(uuid, 0, "NVIDIA H100 80GB HBM3", 81559),))
        pipes = [row["pipes"] for row in mps.rows()]
        assert pipes
        for path in pipes:
            assert len(os.fsencode(f"{path}/{LONGEST_SOCKET}")) <= LONGEST_ADDRESS
    finally:
        shutil.rmtree(folder)


# ------------------------------------------------------------------ what must be there


@pytest.mark.parametrize(
    ("words", "ends"),
    [("", "Skipped"), ("gpm", "Skipped"), ("gpm, mps", "Failed"), ("all", "Failed")],
)
def test_what_must_be_there_and_is_not_fails(
    words: str, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(requirements.VARIABLE, words)
    with pytest.raises(BaseException, match="no control daemon") as caught:
        requirements.missing("mps", "no control daemon here")
    assert type(caught.value).__name__ == ends


def program(name: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / name), *words, "--cpu"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_load_runs_without_a_gpu() -> None:
    printed = program("matmul.py", "--steps", "5", "--print-every", "0")
    assert printed.startswith("step 1\nstep 2\n")
    assert json.loads(printed.splitlines()[-1])["steps"] == 5


def test_memory_is_held_without_a_gpu(tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    assert program("hold.py", "--memory", "3", "--until", str(tmp_path / "go")) == "holding 3 MiB\n"
