"""Host memory that grows while a job runs, and after a death at its limit; with `radrun`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from radrm.host.processes.controllers import prepare
from tests.daemon.elastic.home import ElasticHome, elastic_home

TRAIN = """
import os, sys, time
at_once = sys.argv[1] == "at-once" and os.environ["RADRM_ATTEMPT"] == "1"
held = [bytearray((500 if at_once else 80) << 20)]
for _ in range(25):
    held.append(bytearray(4 << 20))
    time.sleep(0.25 if sys.argv[1] == "slowly" else 0)
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[ElasticHome]:
    if prepare().memory is None:
        pytest.skip("no control group of memory can be made here")
    with elastic_home(tmp_path) as found:
        program = found.folder / "programs" / "radrun"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m radrm.elastic.radrun "$@"\n')
        yield found


@pytest.mark.parametrize(("how", "attempts"), [("slowly", 1), ("at-once", 2)])
def test_a_job_gets_more_host_memory(home: ElasticHome, how: str, attempts: int) -> None:
    if how == "at-once":
        home.settings[-1] = "progress.interval_s=1000"  # its limit does not grow in time
    home.start()
    home.file("train.py", TRAIN)
    options = ["--gpus=1-2", "--gpu-memory=2G", "--memory=150M-1G"]
    job = home.submit(*options, "--", "radrun", "--max-restarts=0", "train.py", how)
    found = home.wait_end(job)
    assert (found["state"], found["attempts"]) == ("COMPLETED", attempts), home.said()
