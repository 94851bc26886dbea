"""The job of a step: from the Slurm job and its script to an envelope."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from radrm.host.storage.spool import Envelope
from radrm.host.storage.submission import envelope_of, load
from radrm.jobfile.options import RawOptions
from radrm.jobfile.radfile import JobFile, read_job_file, wrap_command
from radrm.slurm.outer import SlurmJob
from radrm.slurm.wrapped import is_gpumem_asked, unwrap


def make_envelope(job: SlurmJob, file: str, arguments: Sequence[str]) -> tuple[JobFile, Envelope]:
    """The job of a step, and its envelope. Raises `RadrmError`."""
    script = load(file).decode("utf-8", "surrogateescape")
    text, typed = unwrap(script)
    raw: RawOptions = {**_of_slurm(job), **typed}
    data = text.encode("utf-8", "surrogateescape")
    job_file = read_job_file(data, job.name or "job", raw)
    need_mib = needed_mib(job, job_file) if is_gpumem_asked(script) else None
    if need_mib is not None:
        raw["gpu-memory"] = f"{need_mib}M"
        job_file = read_job_file(data, job.name or "job", raw)
    if arguments:
        # Slurm's own copy of the script lasts as long as its job.
        words = [*(job_file.interpreter_words() or ("/bin/bash",)), os.path.abspath(file)]
        job_file = wrap_command([*words, *arguments], {**job_file.raw, "name": job_file.name})
        envelope = envelope_of(job_file, None, None, job_file.raw)
    else:
        envelope = envelope_of(job_file, None, data, raw)
    return job_file, Envelope(**{**envelope.as_dict(), "outer": job.fields})


def needed_mib(job: SlurmJob, job_file: JobFile) -> int | None:
    """Return the need of each GPU, in MiB, of a job that declares none, from what its user has
    asked of Slurm for all its GPUs; None: nothing follows from that."""
    options = job_file.options
    if "gpu-memory" in job_file.raw or options.role or not options.least_gpus:
        return None
    return (job.gpumem_mib or 0) // options.least_gpus or None


def _of_slurm(job: SlurmJob) -> RawOptions:
    """The options that follow from the Slurm job: its name, and its logs."""
    found: dict[str, Any] = {"name": job.name} if job.name else {}
    for option, fd in (("output", 1), ("error", 2)):
        path = os.readlink(f"/proc/self/fd/{fd}")
        if path.startswith("/") and os.path.exists(path):
            found[option] = path.replace("%", "%%")
    return found
