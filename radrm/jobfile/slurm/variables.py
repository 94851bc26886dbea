"""What jobs find of Slurm: variables that repeat an option of sbatch, also a meaningless one.

Source: sbatch(1) of Slurm 25.11, "Output environment variables": those "same as" an option.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from radrm.jobfile.slurm.words import Given

STEPS = ".radrm-steps"
"""The file in a job's folder for checkpoints by which its steps know of each other. It is removed
with the folder."""

_SAME_AS = {
    "account": "SLURM_JOB_ACCOUNT",
    "qos": "SLURM_JOB_QOS",
    "reservation": "SLURM_JOB_RESERVATION",
    "dependency": "SLURM_JOB_DEPENDENCY",
    "distribution": "SLURM_DISTRIBUTION",
    "gpu-bind": "SLURM_GPU_BIND",
    "gpu-freq": "SLURM_GPU_FREQ",
    "gpus-per-socket": "SLURM_GPUS_PER_SOCKET",
    "ntasks-per-core": "SLURM_NTASKS_PER_CORE",
    "ntasks-per-socket": "SLURM_NTASKS_PER_SOCKET",
    "profile": "SLURM_PROFILE",
    "threads-per-core": "SLURM_THREADS_PER_CORE",
    "tres-per-task": "SLURM_TRES_PER_TASK",
}


def repeated(given: Mapping[str, Given]) -> dict[str, str]:
    """Return the variables of these options."""
    found = {_SAME_AS[name]: each.value for name, each in given.items() if name in _SAME_AS}
    return {name: value for name, value in found.items() if value is not None}
