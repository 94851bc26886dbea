"""The cluster of three nodes, for the tests of this folder.

Where Slurm cannot run they are skipped; RADRM_SLURM_TEST_REQUIRE=1 makes that a failure.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator

import pytest

from tests.slurm.cluster import MISSING, Cluster, installed

VARIABLE = "RADRM_SLURM_TEST_REQUIRE"


def need_slurm() -> None:
    """Skip the test without Slurm."""
    if not installed():
        pytest.skip(f"{MISSING}, or these tests do not run as root")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get(VARIABLE) == "1":
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome, report.longrepr = "failed", f"{VARIABLE}=1: {why}"
    return report


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
