"""The description of a job for estimators, from its job file."""

from __future__ import annotations

from collections.abc import Mapping

from radrm.estimators.interface import Description
from radrm.jobfile.radfile import JobFile


def describe(job_file: JobFile, environment: Mapping[str, str] | None = None) -> Description:
    """Return the description of a job file for estimators; `environment` is its submitter's."""
    options = job_file.options
    variables = {**(environment or {}), **dict(options.env)}
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
        module_loading=variables.get("CUDA_MODULE_LOADING", "")[:20] or None,
    )
