"""Processes that are killed and started again, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.elastic.radrun.shards.farm import Farm


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Farm]:
    found = Farm(tmp_path)
    yield found
    found.close()
