"""Fixtures for tests of simulated GPUs."""

from __future__ import annotations

import pytest

from tests.host.simulated.host import Host


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    host = Host(tmp_path_factory.mktemp("driver") / "run")
    yield host
    host.close()


@pytest.fixture
def host(shared):
    """The driver of all tests of a module, without a job."""
    yield shared
    shared.end_jobs()


@pytest.fixture
def own_host(tmp_path):
    """A driver that a test may end."""
    host = Host(tmp_path / "run")
    yield host
    host.close()
