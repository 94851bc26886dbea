"""`radrm simulate` and `compare` with jobs that change their size: commands as users type them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from radrm.errors import UsageError
from tests.lab.commands.test_simulate import EXAMPLES, run, short

ELASTIC, SERVERS = str(EXAMPLES / "elastic.csv"), str(EXAMPLES / "servers.csv")


def document(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("simulate", *words, "--policy", "exclusive", "--json"))
    return found


def test_the_planner_elastic_runs_beside_strict_and_cpus_limit_how_far_jobs_grow(
    tmp_path: Path,
) -> None:
    trace = short(tmp_path, ELASTIC)
    free, scarce = (
        document(trace, "--planner", "elastic", *more) for more in ([], ["--cpus", "8"])
    )
    assert (free["planner"], free["unfinished"]) == ("strict+elastic", 0) and free["resizes"] > 0
    assert scarce["mean_gpus"] < free["mean_gpus"]


def test_parameter_servers_under_a_published_rule(tmp_path: Path) -> None:
    trace = short(tmp_path, SERVERS)
    more = ("--gpus", "sim:4*1xA100-40GB", "--cpus", "64", "--planner", "dlrover")
    found = document(trace, *more)
    assert found["unfinished"] == 0 and found["cpu_efficiency"] > 0.8
    with pytest.raises(UsageError, match="need --cpus N"):
        document(trace)


def test_a_comparison_shows_sizes_where_jobs_have_several(tmp_path: Path) -> None:
    words = ("compare", "--policy", "exclusive", "--planner", "strict,elastic")
    assert "RESIZES" in run(*words, short(tmp_path, ELASTIC, 4))
