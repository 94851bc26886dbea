"""Fixtures for tests of the host."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.host.processes.programs import PYTHON, Run


@pytest.fixture
def run() -> Iterator[Run]:
    """Start Python processes that end with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(code: str, *args: str, token: str | None = None) -> subprocess.Popen[bytes]:
        environment = {"RADRM_TOKEN": token} if token else {}
        started.append(subprocess.Popen([*PYTHON, code, *args], env=environment))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
