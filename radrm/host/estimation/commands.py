"""What is traced of a job: its factory, or its own command, and where it runs."""

from __future__ import annotations

import os

from radrm.config import Config
from radrm.estimators.learning.fingerprint import NEUTRAL, fingerprint, variables_of, with_length
from radrm.host.estimation.tracing import TraceRequest, tracer_arguments
from radrm.host.storage.spool import Envelope
from radrm.jobfile.options import Options
from radrm.jobfile.radfile import JobFile
from radrm.jobfile.relations import PARAM_VARIABLE
from radrm.jobfile.slurm import MARK

_JOB_ID = "0"
"""The job id in the environment of a traced command: its job has not started."""


def may_trace(config: Config, options: Options) -> bool:
    """Return whether the site and the job allow that a factory is traced."""
    return config.estimation.trace and not options.no_trace


def may_run(config: Config, options: Options) -> bool:
    """Return whether the site and the job allow that the job's command is traced."""
    return config.estimation.script and may_trace(config, options) and options.least_gpus > 0


def factory_request(job_file: JobFile, envelope: Envelope) -> TraceRequest:
    """How to trace the factory of a job, as this process's user."""
    return TraceRequest(
        arguments=tracer_arguments(job_file.options),
        cwd=os.path.join(envelope.cwd, job_file.options.chdir or ""),
        environment={**envelope.environment, **dict(job_file.options.env)},
        umask=envelope.umask,
        command=command_of(job_file),
    )


def command_request(job_file: JobFile, envelope: Envelope, index: int | None) -> TraceRequest:
    """How to trace the command of a job, as this process's user. `index`: of an array's element."""
    options = job_file.options
    cwd = os.path.join(envelope.cwd, options.chdir or "", options.snapshot or "")
    return TraceRequest(
        cwd=cwd,
        environment={
            **envelope.environment,
            **_job_variables(job_file, envelope, cwd, index),
            **dict(options.env),
        },
        umask=envelope.umask,
        command=command_of(job_file),
        program=job_file.program(),
        gpus=options.least_gpus,
    )


def _job_variables(
    job_file: JobFile, envelope: Envelope, cwd: str, index: int | None
) -> dict[str, str]:
    """The variables of a job that its script is likely to use."""
    number = "" if index is None else str(index)
    found = {
        "RADRM_JOB_ID": _JOB_ID,
        "RADRM_JOB_NAME": job_file.name,
        "RADRM_ATTEMPT": "1",
        "RADRM_ARRAY_ID": _JOB_ID if number else "",
        "RADRM_ARRAY_TASK_ID": number,
        "RADRM_SUBMIT_DIR": cwd,
        "MASTER_PORT": "29500",
    }
    if envelope.file is not None:
        found["RADRM_SCRIPT"] = envelope.file
    if envelope.environment.get(MARK) == "1":
        names = {"SLURM_JOB_ID": _JOB_ID, "SLURM_JOB_NAME": job_file.name}
        found |= {**names, "SLURM_SUBMIT_DIR": cwd}
        found |= {"SLURM_ARRAY_TASK_ID": number} if number else {}
    return found


# ------------------------------------------------------------------
# The fingerprint of a job: what it runs, from its job file and envelope.


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
