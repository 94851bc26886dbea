"""The table of all targets. A new parser is one row in the file of its area.

job_files   what users submit, and what their jobs print
settings    the configuration
summaries   model summaries
traces      traces of jobs
monitors    what programs print that measure GPUs
kernel      /proc and control groups
attempts    what attempts leave
workers     what `radrun` reads
slurm       what Slurm prints, and what is written for it
requests    requests and answers of other processes
storage     what lies on disk
"""

from __future__ import annotations

from proofs.fuzz.judging import Target
from proofs.fuzz.targets import (
    attempts,
    job_files,
    kernel,
    monitors,
    requests,
    settings,
    slurm,
    storage,
    summaries,
    traces,
    workers,
)

TARGETS: tuple[Target, ...] = (
    *job_files.TARGETS,
    *settings.TARGETS,
    *summaries.TARGETS,
    *traces.TARGETS,
    *monitors.TARGETS,
    *kernel.TARGETS,
    *attempts.TARGETS,
    *workers.TARGETS,
    *slurm.TARGETS,
    *requests.TARGETS,
    *storage.TARGETS,
)
BY_NAME = {target.name: target for target in TARGETS}
assert len(BY_NAME) == len(TARGETS), "two targets have the same name"
