"""The benchmarks under Slurm run, and say what they measured. How fast is not asked here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from benchmarks.cluster import kills
from benchmarks.cluster.place import running_cluster
from tests.slurm.cluster import Cluster
from tests.slurm.conftest import need_slurm


@pytest.fixture(scope="module")
def served() -> Iterator[Cluster]:
    """A cluster with a daemon on each node."""
    need_slurm()
    with running_cluster() as place:
        yield place


@pytest.mark.daemon
def test_killed_daemons_lose_and_double_no_job(served: Cluster) -> None:
    # A controller that is ended each second starts no job on a slow machine.
    rows = kills.measure(served, jobs=4, most_pause_s=0.5, most_ends=12)
    assert [row.measured for row in rows] == [0, 0, 0, 0]
    assert "4 jobs in" in rows[0].detail


def test_what_must_not_be_is_counted() -> None:
    ended = kills.Ended(
        starts=Counter({0: 1, 1: 2, 3: 1}),
        slurm={0: 0, 1: 1, 2: 2, 3: None},
        radrm={0: 0, 1: 1, 2: 2},
        seconds=1.0,
        killed=Counter({"slurmctld": 2}),
    )
    assert [row.measured for row in ended.rows(4)] == [1, 1, 1, 1]
