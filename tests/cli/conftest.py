"""Commands that run in the process of the tests leave its signals as they were."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _signals_as_they_were() -> Iterator[None]:
    """A step of Slurm blocks all signals; what this process starts later would not hear TERM."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
