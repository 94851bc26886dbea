"""A job beside one that changes its size: it keeps its memory, its reservation and its speed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.daemon.elastic.home import ElasticHome, elastic_home
from tests.daemon.harness import simjob
from tests.waiting import wait_until


def speeds(home: ElasticHome, job: int) -> list[float]:
    return [float(found) for found in re.findall(r"speed\s+([0-9.]+)", home.output(job))]


@pytest.mark.nightly
def test_ten_resizes_leave_a_neighbour_alone(tmp_path: Path) -> None:
    with elastic_home(tmp_path, scale=20.0) as home:
        home.gpus = "sim:2xA100-40GB"
        home.settings += ['policy="magm"', "policies.sharing.max_smact=1"]
        home.settings += ["core.settle_s=1e6"]
        home.start()
        job = home.train("--smact=0.1")
        (uuid,) = home.job(job)["devices"]
        other = home.submit("--gpu-memory=30G", "--smact=0.2", "--", *simjob(30, 0.2, 100_000))
        home.wait_state(other, "RUNNING")
        (beside,) = home.job(other)["devices"]
        assert beside != uuid

        def reserved_mib() -> int:
            (gpu,) = [gpu for gpu in home.ask("gpus") if gpu["uuid"] == beside]
            found: int = gpu["reserved_mib"]
            return found

        wait_until(lambda: max(home.contexts()) > 30_000, "all of its memory")
        before = reserved_mib()
        for gpus in (2, 1) * 5:
            home.resize(job, gpus)
            home.wait_held(job, gpus)
            assert reserved_mib() == before + (2356 if gpus == 2 else 0)  # 2 GiB and 15 %
            assert max(home.contexts()) > 30_000
        assert home.job(other)["state"] == "RUNNING" and home.job(other)["attempts"] == 1
        # Each is a mean since its start: it counts all ten resizes.
        assert min(speeds(home, other)) >= 0.9, "they share the GPU half of the time"
