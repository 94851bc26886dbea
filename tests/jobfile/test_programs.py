"""Which jobs may train a model, as far as their text shows."""

from __future__ import annotations

import pytest

from radrm.jobfile.programs import may_train
from radrm.jobfile.radfile import read_job_file, wrap_command

NEVER = [
    ["sleep", "10"],
    ["nvidia-smi"],
    ["/usr/bin/sleep", "5"],
    ["env", "A=1", "nice", "-n", "5", "sleep", "3"],
    ["timeout", "60", "sleep", "3"],
    ["sh", "-c", "true && sleep 3"],
    ["bash", "-lc", "sleep 1; exec radrm-simjob --gpu-memory 3G"],
]
PERHAPS = [
    ["python", "train.py"],
    ["python3.11", "-m", "pkg.train"],
    ["torchrun", "--nproc-per-node=2", "train.py"],
    ["./a.out"],
    ["bash", "run.sh"],
    ["bash", "-c", "sleep 1; conda run -n a python t.py"],
    ["conda", "run", "-n", "a", "python", "t.py"],
    ["env", "A=1", "yolo", "train"],
    ["make", "train"],
]


@pytest.mark.parametrize("command", NEVER)
def test_a_command_of_well_known_programs_cannot_train(command: list[str]) -> None:
    assert not may_train(wrap_command(command, {}))


@pytest.mark.parametrize("command", PERHAPS)
def test_what_is_not_known_may_train(command: list[str]) -> None:
    assert may_train(wrap_command(command, {}))


@pytest.mark.parametrize(
    ("text", "perhaps"),
    [
        ("#!/bin/bash\nset -e\nsource ~/.bashrc\nconda activate x\nsleep 5\n", False),
        ("#!/bin/bash\nfor i in 1 2; do\n  echo $i\ndone\nif [ -f x ]; then sleep 5; fi\n", False),
        ("#!/bin/bash\n# python train.py\ncat <<E\npython train.py\nE\nsleep 3 &\nwait\n", False),
        ("#!/bin/bash\nsource venv/bin/activate\npython train.py\n", True),
        ("#!/bin/bash\nsource run.sh\n", True),
        ("#!/bin/bash\nsleep 3 && exec ./train\n", True),
        ("#!/usr/bin/env python3\nprint('hello')\n", True),
        ("sleep 3\n", False),
    ],
)
def test_scripts(text: str, perhaps: bool) -> None:
    assert may_train(read_job_file(text.encode(), "a.rad", {})) == perhaps
