"""Fixtures for tests of the intake."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.daemon.intake.place import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
