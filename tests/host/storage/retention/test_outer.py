"""Retention of jobs that ran inside jobs of Slurm."""

from __future__ import annotations

from pathlib import Path

from radrm.core.records import OuterJob
from tests.host.storage.retention.test_sweep import Site


def test_slurm_may_give_the_number_of_a_job_that_has_gone_again(tmp_path: Path) -> None:
    site = Site(tmp_path)
    outers = [OuterJob("slurm", "c", str(n), 0, 2, 3, "boot") for n in (1, 2)]
    site.save([site.job(1, 200, outer=outers[0]), site.job(2, 1, outer=outers[1])])
    assert [site.store.job_of_outer(outer.name) for outer in outers] == [1, 2]
    site.sweep()
    assert [site.store.job_of_outer(outer.name) for outer in outers] == [None, 2]
