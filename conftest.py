"""Fixtures for every folder of tests."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.daemon.harness import DaemonHome
from tests.examples import AT_NIGHT, some
from tests.standins.nvml_library import (
    nvml,
    nvml_driver,
    nvml_library,
)

__all__ = ["nvml", "nvml_driver", "nvml_library"]

# How long an example takes is the machine's affair: speed is judged by benchmarks. A push tries the
# same examples each time, so that it fails over what it brings; each night tries others.
settings.register_profile("ours", deadline=None, max_examples=some(50), derandomize=not AT_NIGHT)
settings.load_profile("ours")

# Imports are most of what a daemon's start costs.
DaemonHome.forked = True

# Ten thousand collected tests are no garbage. Looking for it after every 700 objects takes a
# fifth of the time that collecting them takes, and half of that in which sources are parsed.
gc.set_threshold(20_000, 20, 50)

# They take longest, up to a minute each. Begun late, they would be all that runs at the end.
_LONGEST = (
    *("test_a_short_matrix_loses", "test_a_pilot_that_dies", "test_a_pilot_runs"),
    *("test_the_commands_of_the_page", "test_planners_that_fail", "test_the_demo_succeeds"),
    "test_an_everyday_script",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.name.startswith(_LONGEST))


def pytest_collection_finish() -> None:
    """What is collected stays to the end: each look for garbage would take half a second in it."""
    gc.freeze()


# Stand-ins begin with `#!/usr/bin/env python3`: this Python. Where a version manager's script comes
# first, each start of a stand-in costs four times as much.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

# A shell ignores SIGINT in its background jobs, and programs under test would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[DaemonHome]:
    """A place for a daemon that is not started yet."""
    place = DaemonHome(tmp_path)
    yield place
    place.close()


@pytest.fixture(scope="module")
def shared_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonHome]:
    """A running daemon for tests that leave it as it was, whatever they do to it: starting one
    is most of what such a test costs."""
    place = DaemonHome(tmp_path_factory.mktemp("shared"))
    place.start()
    yield place
    place.close()


@pytest.fixture
def guest(shared_daemon: DaemonHome, tmp_path: Path) -> Iterator[DaemonHome]:
    """The module's daemon, with a working folder of one's own. Jobs that a test leaves are
    cancelled after it. The ids of its jobs depend on the tests before."""
    place = shared_daemon.for_guest(tmp_path / "work")
    yield place
    assert shared_daemon.process is not None and shared_daemon.process.poll() is None
    place.clear()


@pytest.fixture
def daemon(home: DaemonHome) -> DaemonHome:
    """A running daemon with two simulated GPUs."""
    home.start()
    return home


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets the local time zone, until the end of the test."""
    with monkeypatch.context() as context:

        def choose(name: str) -> None:
            context.setenv("TZ", name)
            time.tzset()

        yield choose
    time.tzset()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB, for root on a system that lets it mount."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16m", "radrm-test", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("a small file system cannot be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
