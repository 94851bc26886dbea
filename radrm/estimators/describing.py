"""The description of a job for estimators, from its job file."""

from __future__ import annotations

from radrm.estimators.interface import Description
from radrm.jobfile.radfile import JobFile


def describe(job_file: JobFile) -> Description:
    """Return the description of a job file for estimators."""
    options = job_file.options
    named = {
        "measured": job_file.measured,
        "horus": job_file.horus,
        "faketensor": job_file.faketensor,
        "gpumemnet": job_file.gpumemnet,
    }
    return Description(
        spec=job_file.spec(user="", uid=-1),
        declared_mib=options.gpu_memory_mib,
        declared_smact=options.smact,
        smact_type=str(job_file.raw.get("smact", "")).partition("@")[2] or None,
        declared_duration_s=options.duration_s,
        published={name: mib for name, mib in named.items() if mib is not None},
        summary=job_file.summary,
        batch_size=options.batch_size,
        sequence_length=options.sequence_length,
        input_shape=options.input_shape,
        optimizer=options.optimizer,
        precision=options.precision,
    )
