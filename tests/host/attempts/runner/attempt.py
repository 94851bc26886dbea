"""An attempt's folder, made by hand, and a runner on it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from radrm.host.attempts import folder as attempts
from radrm.host.attempts import runner
from radrm.host.processes.tree import attempt_processes
from tests.waiting import wait_until

COMMAND = [sys.executable, "-I", "-S", runner.__file__]


def launch_record(token: str, cwd: Path, /, **changes: Any) -> dict[str, Any]:
    """The record that the daemon writes for a runner, of an attempt of this user."""
    fields = {
        "job_id": 1,
        "attempt": 1,
        "token": token,
        "argv": None,
        "script": None,
        "interpreter": None,
        "cwd": str(cwd),
        "environment": {"PATH": os.environ["PATH"], "RADRM_TOKEN": token},
        "stdout": str(cwd / "out"),
        "stderr": str(cwd / "err"),
        "umask": 0o027,
        "uid": None,
        "gid": None,
        "user": "me",
        "grace_s": changes.get("kill_grace_s", 0.2),
        "kill_grace_s": 0.2,
        "cgroup": None,
    }
    return fields | changes


class Attempt:
    """One attempt's folder, and beside it the folder that its job runs in."""

    def __init__(self, place: Path) -> None:
        self.folder = place / "attempts" / "7"
        self.cwd = place / "work"
        self.folder.mkdir(parents=True)
        self.cwd.mkdir()
        self.token = f"token-{os.getpid()}-{place.name}"
        self.process: subprocess.Popen[bytes] | None = None

    def prepare(self, **changes: Any) -> None:
        fields = launch_record(self.token, self.cwd, **changes)
        attempts.write_record(str(self.folder), attempts.LAUNCH, fields)

    def start(self, *python_options: str, **changes: Any) -> subprocess.Popen[bytes]:
        if changes:
            self.prepare(**changes)
        command = [*COMMAND[:3], *python_options, runner.__file__, str(self.folder)]
        self.process = subprocess.Popen(
            command,
            env={"RADRM_TOKEN": self.token},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        return self.process

    def run(self, **changes: Any) -> dict[str, Any]:
        """Run to the end: its exit record."""
        _, errors = self.start(**changes).communicate(timeout=60)
        assert errors == b"" and self.process is not None and self.process.returncode == 0
        record = self.record("exit.json")
        assert not attempt_processes(self.token, None)
        return {key: record[key] for key in ("code", "signal", "never_started")}

    def record(self, name: str) -> dict[str, Any]:
        fields, damage = attempts.read_record(str(self.folder), name)
        assert fields is not None, damage
        return fields

    def wait_for(self, name: str) -> Path:
        wait_until((self.cwd / name).exists)
        return self.cwd / name

    def text(self, name: str) -> str:
        return (self.cwd / name).read_text()
