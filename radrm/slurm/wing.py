"""What Slurm adds to radrm: commands, places to submit to, checks, and steps that run attempts."""

from __future__ import annotations

import os

from radrm.wings import Command, Wing

_HERE, _TITLE = "radrm.slurm.commands", "With Slurm"

WING = Wing(
    commands={
        "slurm": Command(
            *(_TITLE, "Print what a Slurm cluster needs for shared GPUs.", f"{_HERE}.slurm"),
            commands=("setup", "health"),
        ),
        "slurm-step": Command(_TITLE, "Run a job file inside a Slurm job.", f"{_HERE}.slurm_step"),
        "pilot": Command(
            _TITLE, "Run your own jobs, several on one GPU, in one Slurm job.", f"{_HERE}.pilot"
        ),
        "install-slurm-names": Command(
            _TITLE, "Write commands named sbatch, squeue, scancel...", f"{_HERE}.slurm"
        ),
    },
    checks={"slurm": "radrm.slurm.checks:checks_here"},
    targets={
        "cluster": f"{_HERE}.cluster",
        "pilot": f"{_HERE}.pilots",
        "slurm": f"{_HERE}.names",
    },
    runners={"slurm": "radrm.slurm.serving:Steps"},
    programs={"slurm": os.path.join(os.path.dirname(__file__), "programs")},
)
