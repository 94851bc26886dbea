"""The cluster of three nodes, for the tests of this folder.

Where Slurm cannot run they are skipped; RADRM_SLURM_TEST_REQUIRE=1 makes that a failure.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.slurm.cluster import MISSING, Cluster, installed

VARIABLE = "RADRM_SLURM_TEST_REQUIRE"


def need_slurm() -> None:
    """End the test as skipped, or as failed where Slurm must be there."""
    if installed():
        return
    if os.environ.get(VARIABLE) == "1":
        pytest.fail(f"{MISSING}, or these tests do not run as root", pytrace=False)
    pytest.skip(MISSING)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A running cluster that a module's tests share; it starts in about a second."""
    need_slurm()
    place = Cluster()
    try:
        place.start()
        yield place
    finally:
        place.stop()
