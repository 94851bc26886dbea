"""The job of a step: from the Slurm job and its script to an envelope."""

from __future__ import annotations

import os

from radrm.errors import UsageError
from radrm.host.storage.spool import Envelope
from radrm.host.storage.submission import envelope_of, load
from radrm.jobfile.radfile import read_job_file
from radrm.jobfile.sweeps import sweep_of
from radrm.slurm.scripts import is_gpumem_asked, unwrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from radrm.jobfile.options import RawOptions
    from radrm.jobfile.radfile import JobFile
    from radrm.slurm.outer import SlurmJob


def make_envelope(
    job: SlurmJob, file: str, arguments: Sequence[str], told: Mapping[str, Any]
) -> Envelope:
    """The envelope of a step's job. `told`: what the daemon says that Slurm says of its job. Raises
    `RadrmError`."""
    script = load(file).decode("utf-8", "surrogateescape")
    text, typed = unwrap(script)
    name = job.name or told.get("name") or ""
    raw: RawOptions = {**_of_slurm(name), **typed}
    if told.get("limit_s") is not None:
        raw["time"] = f"{told['limit_s']:.0f}s"  # Slurm's limit rules
    data = text.encode("utf-8", "surrogateescape")
    job_file = read_job_file(data, name or "job", raw, arguments=arguments)
    if sweep_of(job_file) is not None:
        raise UsageError("a sweep does not go into a job of Slurm; make one job for each value")
    need_mib = needed_mib(told.get("gpumem_mib"), job_file) if is_gpumem_asked(script) else None
    if need_mib is not None:
        raw["gpu-memory"] = f"{need_mib}M"
        job_file = read_job_file(data, name or "job", raw, arguments=arguments)
    envelope = envelope_of(job_file, None, data, raw)
    return Envelope(**{**envelope.as_dict(), "outer": job.fields})


def needed_mib(asked_mib: int | None, job_file: JobFile) -> int | None:
    """Return the need of each GPU, in MiB, of a job that declares none, from what its user has
    asked of Slurm for all its GPUs; None: nothing follows from that."""
    options = job_file.options
    if "gpu-memory" in job_file.raw or options.role or not options.least_gpus:
        return None
    return (asked_mib or 0) // options.least_gpus or None


def _of_slurm(name: str) -> RawOptions:
    """The options that follow from the Slurm job: its name, and its logs."""
    found: dict[str, Any] = {"name": name} if name else {}
    for option, fd in (("output", 1), ("error", 2)):
        path = os.readlink(f"/proc/self/fd/{fd}")
        if path.startswith("/") and os.path.exists(path):
            found[option] = path.replace("%", "%%")
    return found
