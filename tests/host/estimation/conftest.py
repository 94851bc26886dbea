"""Fixtures for tests of estimation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def python3(tmp_path: Path) -> Iterator[Path]:
    """A file to write a program into that is the user's `python3`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "python3"
    yield program
