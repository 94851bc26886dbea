"""Commands that go on until a test ends them."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

from tests.daemon.harness import DaemonHome

RADRM = [sys.executable, "-m", "radrm.cli.main"]


@contextlib.contextmanager
def started(home: DaemonHome, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A command that goes on, with pipes for its output; ended by its pid."""
    process = subprocess.Popen(
        [*RADRM, *words],
        env=home.environment,
        cwd=home.work,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
