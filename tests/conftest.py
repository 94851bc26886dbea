"""Fixtures for every folder of tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.harness import DaemonHome
from tests.standins.nvml_library import (
    nvml,
    nvml_driver,
    nvml_library,
    old_nvml,
    old_nvml_library,
)

__all__ = ["nvml", "nvml_driver", "nvml_library", "old_nvml", "old_nvml_library"]


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
