"""The paths of an attempt's logs."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.daemon.launches import log_paths
from radrm.jobfile.options import Options
from radrm.structs import replace
from tests.world import World, gpus


@pytest.mark.parametrize(
    ("given", "attempt", "paths"),
    [
        ({}, 1, ("/w/radrm-1.out",) * 2),
        ({}, 2, ("/w/radrm-1.attempt2.out",) * 2),
        ({"error": "e"}, 1, ("/w/radrm-1.out", "/w/e")),
        ({"interactive": True}, 1, ("/w/radrm-1.out", "/w/radrm-1.err")),
        ({"output": "log"}, 2, ("/w/log.attempt2", "/w/log.attempt2")),
        ({"output": "%t-%x.log", "error": "/e/%%.log"}, 2, ("/w/2-a_b.log", "/e/%.attempt2.log")),
        ({"output": "/dev/null"}, 2, ("/dev/null", "/dev/null")),
    ],
)
def test_no_attempt_overwrites_anothers_log_and_a_device_keeps_its_name(
    given: dict[str, Any], attempt: int, paths: tuple[str, str]
) -> None:
    job = World(gpus(1)).submit()
    job = replace(job, spec=replace(job.spec, name="a/b"))
    assert log_paths(job, attempt, Options(**given), "/w") == paths


def test_attempts_of_a_job_of_slurm_have_one_log() -> None:
    job = World(gpus(1)).submit()
    given = Options(output="%x-%j.log")
    first, second = (log_paths(job, attempt, given, "/w", as_slurm=True) for attempt in (1, 2))
    assert first == second == (f"/w/{job.spec.name}-1.log",) * 2
