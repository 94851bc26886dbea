"""The real `radrun` under a real daemon, and `kill -9` of each of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from proofs import elastic_kills
from tests.daemon.harness import DaemonHome


@pytest.fixture
def home(tmp_path: Path) -> Iterator[DaemonHome]:
    found = elastic_kills.make_home(tmp_path)
    yield found
    found.close()


def test_every_sample_once_whatever_is_killed(home: DaemonHome) -> None:
    """`python -m proofs.elastic_kills` does it fifty times."""
    elastic_kills.one(home, seed=9)  # kills worker, `radrun` and daemon at once
