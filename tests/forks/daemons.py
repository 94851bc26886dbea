"""Starts daemons, and runs commands, as forks of a process that has imported them: a start takes a
third of the CPU."""

from __future__ import annotations

import atexit
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.forks import LONGEST
from tests.paths import REPOSITORY
from tests.waiting import PATIENCE_S

_READ_AT_ITS_START = ("PYTHON", "LD_", "LC_", "LANG", "MALLOC_", "GLIBC_")
"""Beginnings of variables that the interpreter and the C library read once: a template for each."""
_TURN_S = 0.1


class Fork:
    """A daemon or command that was started so; what tests use of `subprocess.Popen`."""

    def __init__(self, template: Template, pid: int, words: Sequence[str]) -> None:
        self.args = words
        self.pid = pid
        self.returncode: int | None = None
        self._template = template

    def poll(self) -> int | None:
        self._template.read()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                assert timeout is not None
                raise subprocess.TimeoutExpired(self.args, timeout)
            # Another thread may read what this one waits for.
            self._template.wait(_TURN_S if left is None else min(left, _TURN_S))
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(9)

    def terminate(self) -> None:
        self.send_signal(15)


class Template:
    """The process that forks, and the forks whose end it has not told yet."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._lock = threading.RLock()
        self._running: dict[int, Fork] = {}
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forks.template"],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                cwd=REPOSITORY,
                env=dict(environment),
            )

    def start(self, words: Sequence[str], **asked: Any) -> Fork:
        with self._lock:
            self.read()
            self._socket.send(json.dumps({"words": words, **asked}).encode())
            while True:
                pid = json.loads(self._socket.recv(LONGEST))
                if isinstance(pid, int):
                    break
                self._ended(*pid)
            self._running[pid] = fork = Fork(self, pid, words)
        return fork

    def read(self) -> None:
        """Note each end that was told."""
        with self._lock:
            while self.wait(0):
                said = self._socket.recv(LONGEST)
                if not said:
                    raise AssertionError("the template of daemons has ended")
                self._ended(*json.loads(said))

    def wait(self, seconds: float) -> bool:
        """Wait until something was told, at most so long."""
        return bool(select.select([self._socket], [], [], seconds)[0])

    def _ended(self, pid: int, code: int) -> None:
        self._running.pop(pid).returncode = code

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


_templates: dict[frozenset[tuple[str, str]], Template] = {}


def start(
    words: Sequence[str], environment: Mapping[str, str], log: Path, fixed: bool = False
) -> Fork | None:
    """Start `radrm WORDS` as a fork; None if its environment asks for an interpreter of its own.
    With `fixed` it takes fixed values as settings (`tests/unfixed.py`)."""
    template = _template_for(environment)
    if template is None:
        return None
    given = {"environment": environment, "cwd": os.getcwd(), "fixed": fixed}
    return template.start(words, output=str(log), errors=str(log), **given)


def run(
    words: Sequence[str], environment: Mapping[str, str], cwd: Path, forked: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run `radrm WORDS` to its end, with /dev/null as its input: as a fork where that can be."""
    environment = {"PYTHONPATH": str(REPOSITORY), **environment}
    template = _template_for(environment) if forked else None
    if template is None:
        return subprocess.run(
            [sys.executable, "-m", "radrm.cli.main", *words],
            env=environment,
            cwd=cwd,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE_S,
            check=False,
        )
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("output", "errors")]
        output, errors = map(str, files)
        given = {"environment": environment, "cwd": str(cwd), "fixed": False}
        fork = template.start(words, output=output, errors=errors, **given)
        try:
            code = fork.wait(PATIENCE_S)
        except BaseException:
            fork.kill()
            raise
        said = (file.read_text() for file in files)
        return subprocess.CompletedProcess(["radrm", *words], code, *said)


def _template_for(environment: Mapping[str, str]) -> Template | None:
    if environment.get("PYTHONPATH") != str(REPOSITORY):
        return None  # mostly a test's own packages
    read = frozenset(
        (name, value) for name, value in environment.items() if name.startswith(_READ_AT_ITS_START)
    )
    if read not in _templates:
        plain = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("RADRM_", *_READ_AT_ITS_START))
        }
        _templates[read] = template = Template({**plain, **dict(read)})
        atexit.register(template.close)
    return _templates[read]
