"""A job that is submitted inside a job has its own values."""

from __future__ import annotations

import pytest

from tests.daemon.harness import DaemonHome

pytestmark = pytest.mark.daemon

NAMES = ("OMP_NUM_THREADS", "XLA_PYTHON_CLIENT_PREALLOCATE", "SLURM_ARRAY_TASK_ID", "RADRM_SLURM")
INNER = f"""#!/bin/bash
#RAD --name=inner --gpus=1 --collocation=exclusive
for name in {" ".join(NAMES)} MINE; do echo $name=${{!name-unset}}; done
"""
OUTER = """#!/bin/bash
#SBATCH --gres=gpu:1 --cpus-per-task=1 --array=7-7 --job-name=outer
radrm submit inner.rad
MINE=1 OMP_NUM_THREADS=9 radrm submit --name=chosen inner.rad
"""


def test_it_does_not_inherit_what_radrm_has_set(guest: DaemonHome) -> None:
    guest.file("inner.rad", INNER)
    guest.radrm("submit", "--slurm", str(guest.file("outer.sbatch", OUTER)))
    assert guest.wait_end("outer")["state"] == "COMPLETED"
    unset = dict.fromkeys(NAMES, "unset")
    expected = {
        "inner": unset | {"MINE": "unset"},
        "chosen": unset | {"OMP_NUM_THREADS": "9", "MINE": "1"},
    }
    for name, its in expected.items():
        job = guest.wait_end(name)
        lines = guest.output(job["id"]).split()
        assert dict(line.split("=") for line in lines) == its
