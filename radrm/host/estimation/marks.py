"""The fingerprint of a job: what it runs, from its job file and envelope."""

from __future__ import annotations

import os

from radrm.estimators.learning.fingerprint import NEUTRAL, fingerprint, variables_of, with_length
from radrm.host.storage.spool import Envelope
from radrm.jobfile.radfile import JobFile
from radrm.jobfile.relations import PARAM_VARIABLE


def command_of(job_file: JobFile) -> str:
    """The script with its arguments, or the command of a job, as text."""
    return "\n".join([job_file.script or "", *job_file.arguments]) or " ".join(job_file.argv)


def fingerprint_of(job_file: JobFile, envelope: Envelope, gpus: int | None = None) -> str:
    """A digest that equals that of another job if both run the same thing.

    `gpus`: as if the job asked for so many; None: those with which it starts.
    """
    options = job_file.options
    matters: dict[str, object] = {
        "gpus": options.least_gpus if gpus is None else gpus,
        "batch_size": options.batch_size,
        "sequence_length": options.sequence_length,
        "input_shape": options.input_shape,
        "optimizer": options.optimizer,
        "precision": options.precision,
        "mig_profile": options.mig_profile,
        **({} if options.sm_share is None else {"sm_share": options.sm_share}),
        "env": sorted(pair for pair in options.env if not _is_neutral(pair[0])),
    }
    text = "\n".join([job_file.script or "", *job_file.argv, *job_file.arguments])
    matters["cwd"] = os.path.join(envelope.cwd, options.chdir or "")
    matters["variables"] = variables_of(text, envelope.environment)
    command = job_file.argv or command_of(job_file)
    mark = fingerprint(
        command,
        sources=envelope.sources,
        summary=job_file.summary,
        settings=[f"{name}={value}" for name, value in matters.items()],
    )
    return with_length(mark, command)


def _is_neutral(variable: str) -> bool:
    """Whether a variable is a sweep's parameter that cannot change what a job needs."""
    name = variable.removeprefix(PARAM_VARIABLE)
    return name != variable and name.replace("_", "-") in NEUTRAL
