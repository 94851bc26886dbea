"""A job on a simulated GPU that is not its own: what people and programs see, over a restart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.harness import DaemonHome, simjob
from tests.waiting import wait_until

pytestmark = pytest.mark.daemon


def test_it_is_named_where_people_look_and_cancelled_if_the_site_wants(
    home: DaemonHome, tmp_path: Path
) -> None:
    home.gpus = "sim:2xA100-40GB"
    home.settings = ["gpus.misplaced=notify"]
    home.start()
    # Processes that have left the job's tree belong to it all the same.
    command = " ".join(simjob(6, 0.4, 900_000))
    script = tmp_path / "stray.sh"
    script.write_text(f"#!/bin/sh\nexport CUDA_VISIBLE_DEVICES=0\nsetsid {command} &\nwait\n")
    job = home.submit("--gpu-memory=8G", "--prefer-gpus=1", "--", "sh", str(script))

    def misplaced() -> dict[str, Any] | None:
        """What the job has there, once that is all of it."""
        found: list[dict[str, Any]] = home.job(job).get("misplaced") or []
        return found[0] if [(u["index"], u["used_mib"]) for u in found] == [(0, 6 * 1024)] else None

    use = wait_until(misplaced, "all of its memory on the other GPU")
    for command in ("status", "explain"):
        assert "it uses GPU 0, and was given GPU 1" in home.radrm(command, str(job)).stdout
    first, second = json.loads(home.radrm("gpus", "--json").stdout)
    assert (first["unmanaged_mib"], first["unmanaged"], first["misplaced"]) == (0, [], [use])
    assert first["free_mib"] < second["total_mib"] - use["used_mib"]
    assert f"job {job} of " in home.radrm("gpus").stdout
    there, own = json.loads(home.radrm("gpus", "--mine", "--json").stdout)
    (process,) = there["processes"]
    assert (process["kind"], process["job"], process["used_mib"]) == ("job", str(job), 6 * 1024)
    assert "radrm-simjob" in process["command"] and own["processes"] == []
    home.kill()
    home.settings = ["gpus.misplaced=cancel"]
    home.start()
    assert home.wait_end(job)["state"] == "CANCELLED"
    assert home.job(job)["reason"] == "it used 6.0G of GPU 0, and was given GPU 1 (gpus.misplaced)"
