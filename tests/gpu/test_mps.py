"""Two jobs as clients of an MPS server that the daemon keeps. The compute mode stays as it is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from radrm.core.records import Device
from tests.gpu.conftest import MakeServer
from tests.gpu.requirements import missing
from tests.gpu.server import RealServer

pytestmark = pytest.mark.gpu

CONTROL = "nvidia-cuda-mps-control"
PACKING = ("policy=first-fit", "policies.sharing.conditions=false")


def servers_of(pipes: str) -> list[str]:
    """The MPS servers of the control daemon behind a pipe directory; none where it is gone."""
    try:
        done = subprocess.run(
            [CONTROL],
            input="get_server_list\n",
            env={**os.environ, "CUDA_MPS_PIPE_DIRECTORY": pipes},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return []
    return [word for word in done.stdout.split() if word.isdecimal()]


def _settled(server: RealServer) -> list[dict[str, Any]]:
    """The row of the GPU's control daemon, once it is up or has given up."""
    rows = [row for row in server.ask("mps") if server.uuid in row["uuids"]]
    return [row for row in rows if row["state"] in ("up", "down")]


@pytest.fixture
def mps(make_server: MakeServer, device: Device) -> Iterator[RealServer]:
    if shutil.which(CONTROL) is None:
        missing("mps", f"no {CONTROL} here")
    server = make_server(*PACKING, f"mps.enabled={json.dumps([device.uuid])}")
    (row,) = server.until(lambda: _settled(server), "MPS to be up, or not")
    if row["state"] != "up":
        missing("mps", f"no MPS server can be had here: {row['fault']}")
    server.until(lambda: server.device()["mps"], "the GPU to be served")
    yield server
    server.radrm("mps", "stop", "--all", "--force")
    assert not servers_of(row["pipes"])


def test_two_jobs_are_clients_of_one_server(mps: RealServer) -> None:
    words = ("matmul.py", "--seconds", 20, "--size", 1024)
    jobs = [mps.run(*words, options=("--collocation=mps",)) for _ in range(2)]
    mps.until(lambda: sorted(mps.device()["jobs"]) == jobs, "both jobs on the GPU")
    (row,) = _settled(mps)
    mps.until(lambda: len(servers_of(row["pipes"])) == 1, "one MPS server for both")
    for job in jobs:
        done = mps.wait_end(job)
        assert (done["state"], done["collocation"]) == ("COMPLETED", "mps"), mps.output(job)
        assert mps.report(job)["mps_pipes"] == row["pipes"]


def test_a_cap_holds(mps: RealServer) -> None:
    """More than the limit is refused by the MPS server: an out-of-memory death like any other."""
    neighbour = mps.run("hold.py", "--memory", 1024, "--until", "go", options=_sharing("4G"))
    mps.until(lambda: "holding" in mps.output(neighbour), "the neighbour to hold its memory")
    greedy = mps.run("hold.py", "--memory", 8192, options=_sharing("4G:4G"))
    mps.wait_state(greedy, "RECOVERING", "COMPLETED")
    assert mps.json("explain", str(greedy))["attempts"][0]["outcome"] == "oom"
    Path(mps.work, "go").touch()
    assert mps.wait_end(greedy)["state"] == "COMPLETED"


def test_time_sliced_jobs_are_no_clients(mps: RealServer) -> None:
    job = mps.run("matmul.py", "--seconds", 5, options=("--collocation=timeslice",))
    assert mps.wait_end(job)["state"] == "COMPLETED"
    assert not servers_of(str(mps.report(job)["mps_pipes"]))


def _sharing(memory: str) -> tuple[str, ...]:
    return ("--collocation=mps", f"--gpu-memory={memory}")
