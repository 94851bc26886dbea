"""A daemon for programs that find it as every program does: by the environment."""

from __future__ import annotations

import pytest

from tests.daemon.harness import DaemonHome


@pytest.fixture
def found_daemon(shared_daemon: DaemonHome, monkeypatch: pytest.MonkeyPatch) -> DaemonHome:
    """The module's daemon, which RADRM_HOME names."""
    monkeypatch.chdir(shared_daemon.work)
    for name in ("RADRM_HOME", "PYTHONPATH", "PATH"):
        monkeypatch.setenv(name, shared_daemon.environment[name])
    return shared_daemon
