"""Every program of docs/api.md runs."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.daemon.harness import DaemonHome
from tests.paths import REPOSITORY
from tests.waiting import PATIENCE_S

pytestmark = [
    pytest.mark.daemon,
    pytest.mark.skipif(
        not all(map(find_spec, ("hydra", "submitit"))), reason="pip install 'radrm[hydra]'"
    ),
]
_BLOCK = re.compile(r"^```(python|sh)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.nightly
def test_the_programs_of_the_page_run(shared_daemon: DaemonHome) -> None:
    blocks = _BLOCK.findall((REPOSITORY / "docs" / "api.md").read_text("utf-8"))
    shared_daemon.file("train.rad", "true\n")
    printed = ""
    for i, (language, name, text) in enumerate(blocks):
        path = shared_daemon.file(name or f"program-{i}.py", text)
        if name:
            continue
        command = [sys.executable, str(path)] if language == "python" else ["sh", "-e", str(path)]
        done = subprocess.run(
            command,
            cwd=shared_daemon.work,
            env=shared_daemon.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        printed += done.stdout
    for said in (
        *("1 COMPLETED 0\nloss 0.1\n", "{'lr': '0.01'} COMPLETED", "can never run"),
        *("0.05 ", "[0.05, 0.005, 0.0005]", "12\n[11, 22]"),
    ):
        assert said in printed, printed
    assert len(blocks) == 6
