"""Fixtures for tests of MPS."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.host.mps.controls import Place
from tests.paths import STANDINS


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    made = Place(tmp_path)
    search = f"{STANDINS / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", search)
    monkeypatch.setenv("MPS_STANDIN_STATE", str(made.state))
    yield made
    made.close()
