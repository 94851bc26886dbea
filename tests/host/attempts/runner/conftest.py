"""Fixtures for tests of the runner."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from radrm.host.processes.tree import attempt_processes
from tests.host.attempts.runner.attempt import Attempt


@pytest.fixture
def attempt(tmp_path: Path) -> Iterator[Attempt]:
    attempt = Attempt(tmp_path)
    yield attempt
    if attempt.process is not None:
        attempt.process.kill()
        attempt.process.communicate()
    for pid in attempt_processes(attempt.token, None):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def open_attempt() -> Iterator[Attempt]:
    """In a place that every user may pass through."""
    place = Path(tempfile.mkdtemp(prefix="radrm-test-"))
    place.chmod(0o755)
    attempt = Attempt(place)
    attempt.cwd.chmod(0o777)
    yield attempt
    shutil.rmtree(place)
