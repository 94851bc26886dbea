"""Fixtures for tests of simulated GPUs."""

from __future__ import annotations

import pytest

from tests.host.simulated.host import Host


@pytest.fixture
def host(tmp_path):
    host = Host(tmp_path / "run")
    yield host
    host.close()
