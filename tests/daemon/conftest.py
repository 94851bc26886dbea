"""A daemon per test, ended and cleaned up whatever the test does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.harness import DaemonHome


@pytest.fixture
def home(tmp_path: Path) -> Iterator[DaemonHome]:
    """A place for a daemon that is not started yet."""
    place = DaemonHome(tmp_path)
    yield place
    place.close()


@pytest.fixture
def daemon(home: DaemonHome) -> DaemonHome:
    """A running daemon with two modelled GPUs."""
    home.start()
    return home
