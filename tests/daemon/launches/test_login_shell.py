"""A script of a login shell finds Slurm's commands, though its profile sets the PATH anew."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from radrm.daemon.slurm_variables import COMMANDS, login_shell

LOGIN = [["/bin/bash", "-l"], ["/bin/bash", "--login"], ["/bin/bash", "-el"], ["/bin/sh", "-l"]]


@pytest.mark.parametrize("interpreter", LOGIN, ids=" ".join)
def test_its_commands_come_first(tmp_path: Path, interpreter: list[str]) -> None:
    (tmp_path / "bin").mkdir()
    srun = tmp_path / "bin/srun"
    srun.write_text("#!/bin/sh\necho step\n")
    srun.chmod(0o755)
    (tmp_path / ".profile").write_text("PATH=/usr/bin:/bin; of_profile() { echo function; }\n")
    script = tmp_path / "script"
    script.write_text('srun; of_profile; echo "$0 $1 $#"; timeout 60 srun; exit 3\n')
    words = login_shell(interpreter)
    done = subprocess.run(
        [*words, script, "a b", "c"], text=True, capture_output=True, timeout=60,
        env={**os.environ, "HOME": str(tmp_path), COMMANDS: str(tmp_path / "bin")},
    )  # fmt: skip
    lines = ["step", "function", f"{script} a b 2", "step"]
    assert (done.stdout.splitlines(), done.returncode) == (lines, 3), done.stderr


@pytest.mark.parametrize("words", [[], ["/bin/bash"], ["/bin/bash", "-e"], ["/bin/env", "-l"]])
def test_others_begin_as_they_are(words: list[str]) -> None:
    assert login_shell(words) is None
