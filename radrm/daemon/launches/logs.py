"""The paths of an attempt's logs: the patterns of `--output` and `--error`."""

from __future__ import annotations

import os

from radrm.core.records import Job
from radrm.jobfile.options import Options


def log_paths(job: Job, attempt: int, options: Options, cwd: str) -> tuple[str, str]:
    """The paths of an attempt's standard output and error. `--output` alone is for both.

    From the second attempt on, a pattern without `%t` gets the attempt's number before its
    suffix, so that no attempt overwrites another's log. A device, as /dev/null, keeps its name.
    """
    stem = "radrm-%j" if job.array is None else "radrm-%A_%a"
    output = options.output or f"{stem}.out"
    error = options.error or (options.output if options.output else f"{stem}.err")
    return _log_path(output, job, attempt, cwd), _log_path(error, job, attempt, cwd)


def _log_path(pattern: str, job: Job, attempt: int, cwd: str) -> str:
    appends = job.outer is not None  # Slurm has one log for all of them
    if attempt > 1 and "%t" not in pattern and not pattern.startswith("/dev/") and not appends:
        stem, suffix = os.path.splitext(pattern)
        pattern = f"{stem}.attempt%t{suffix}"
    values = {
        "j": str(job.id),
        "x": job.spec.name,
        "u": job.spec.user,
        "A": str(job.array.array_id if job.array is not None else job.id),
        "a": str(job.array.index if job.array is not None else 0),
        "t": str(attempt),
        "%": "%",
    }
    parts = pattern.split("%")
    text = parts[0]
    rest = iter(parts[1:])
    for part in rest:
        if part == "":  # `%%`
            text += "%" + next(rest, "")
        elif part[0] in values:
            # A name or user must not lead out of the folder that the pattern names.
            text += values[part[0]].replace("/", "_") + part[1:]
        else:
            text += "%" + part
    return os.path.join(cwd, text)
