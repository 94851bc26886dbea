"""The variable that tells a daemon that a job was written for Slurm."""

MARK = "RADRM_SLURM"
"""Set to 1 by `radrm submit --slurm`: the attempt gets Slurm's names for its id and element."""
