"""`radrm slurm-step`: the batch step of a Slurm job."""

from __future__ import annotations

from radrm.cli.parameters import COMMAND, Parameter

SLURM_STEP_PARAMETERS = (
    Parameter(
        *("words", COMMAND, "A job file and arguments for it; without one, standard input."),
        "FILE [ARGUMENT...]",
    ),
)


def slurm_step(words: list[str]) -> int:
    """Run a job file inside a Slurm job.

    It is the batch script of a Slurm job, also as the first line of one: `#!/usr/bin/env -S radrm
    slurm-step`. It submits the job to the radrm daemon of the node, waits until that starts it on a
    GPU that jobs share, and runs it as a part of the Slurm job. The exit code is the job's.

    \b
    Examples:
      sbatch -p shared --gres=gpumem:12000 --wrap 'radrm slurm-step train.rad'
    """
    from radrm.slurm.step.main import main

    return main(words[0] if words else "-", words[1:])
