"""What a submission cannot mean: a program, a folder or a value that is not there.

Theory of operation. This process is the submitter on the server of the job, so it sees what the job
will see, with the same rights. What can never work is refused. A job that starts later by its
own options (`--after`, `--begin`, `--hold`) may find what is missing now, and a folder of logs may
be made meanwhile: then there is a note. All that is looked at here is looked at again when the job
starts. `radrm submit` imports this file, so it imports almost nothing.
"""

from __future__ import annotations

import os
import sys

from radrm.errors import CannotRun, NoProgram, UsageError
from radrm.host.storage.sources import MAX_SCRIPT, text_of
from radrm.jobfile.radfile import JobFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ENV = "env"
_OWN_PREFIX = "rad"


def look_over(
    job_file: JobFile, folder: str, environment: Mapping[str, str], where: str
) -> JobFile:
    """Return a job file with notes on what is probably a mistake.

    `folder`: the one in which the job was submitted; `environment`: the job's. Raises `UsageError`
    for what can never work; `NoProgram` or `CannotRun` for its program.
    """
    asked = job_file.options
    if asked.adopt is not None:
        return job_file  # its process runs already
    notes = _of_sweep(job_file, os.path.join(folder, asked.chdir or ""))
    later = next((f"--{n}" for n in ("after", "begin", "hold") if n in job_file.raw), None)
    try:
        notes += _of_places(job_file, folder, environment, where)
    except UsageError as error:
        if later is None:
            raise
        notes.append(f"{str(error).removeprefix(f'{where}: ')} (before {later} lets it start)")
    return with_notes(job_file, notes)


def with_notes(job_file: JobFile, notes: Sequence[str]) -> JobFile:
    """Return a job file with more lines for its user."""
    if not notes:
        return job_file
    return JobFile(**{**job_file.as_dict(), "notes": (*job_file.notes, *notes)})


def _of_places(
    job_file: JobFile, folder: str, environment: Mapping[str, str], where: str
) -> list[str]:
    asked = job_file.options
    copied = asked.snapshot is not None
    cwd = os.path.join(folder, asked.chdir or "")
    if asked.chdir is not None and not copied and not os.path.isdir(cwd):
        cause = "is not a folder" if os.path.exists(cwd) else "does not exist"
        raise UsageError(
            f"{where}: the folder {cwd} {cause}; make it, or name another with --chdir"
        )
    _check_program(job_file, cwd, {**environment, **dict(asked.env)}, where, copied)
    missing: dict[str, str] = {}
    for option, path in (("output", asked.output), ("error", asked.error)):
        if path is not None and (path.startswith("/") or not copied):
            logs = os.path.dirname(_plain(os.path.join(cwd, path)))
            if not os.path.isdir(logs):
                missing.setdefault(logs, option)
    return [
        f"the folder of --{option}, {logs}, does not exist; make it before the job starts"
        for logs, option in missing.items()
    ]


def _plain(path: str) -> str:
    """Return a path up to its first pattern or parameter, of which only the job knows the value."""
    ends = [path.find(mark) for mark in ("%", "{") if mark in path]
    return path[: min(ends)] if ends else path


def _of_sweep(job_file: JobFile, cwd: str) -> list[str]:
    if not job_file.options.param and job_file.table is None:
        return []
    from radrm.jobfile.sweeps import likely_mistakes  # few submissions are sweeps

    words = job_file.argv or (job_file.script or "")[:MAX_SCRIPT].split()
    return likely_mistakes(job_file, text_of(words, cwd))


# ------------------------------------------------------------------ the program


def _check_program(
    job_file: JobFile, cwd: str, environment: Mapping[str, str], where: str, copied: bool
) -> None:
    """Raise `NoProgram` or `CannotRun` if nothing can run the job's command or script."""
    words: Sequence[str] = job_file.argv
    if job_file.script is not None:
        words = _behind_env(job_file.interpreter_words())
    elif job_file.options.interactive and "--" in words:
        words = words[words.index("--") + 1 :]  # the command that `radrm run` runs
    program = words[0] if words else ""
    relative = "/" in program and not program.startswith("/")
    if not program or "{" in program or (copied and relative):
        return
    what = f"{where}: cannot run {_shown(program)}"
    if job_file.script is not None:
        what = f"{where}: the interpreter {_shown(program)} of the script cannot run"
    found = [path for path in _candidates(program, cwd, environment) if os.path.lexists(path)]
    if any(os.path.isfile(path) and os.access(path, os.X_OK) for path in found):
        return
    step = "correct the first line" if job_file.script is not None else "correct its name"
    if not any(map(os.path.exists, found)):
        path = "" if "/" in program else " or the PATH"
        raise NoProgram(f"{what}: there is no such program; {step}{path}")
    is_folder = all(os.path.isdir(path) for path in found)
    cause = "it is a folder" if is_folder else f"it is not executable; chmod +x {found[0]}"
    raise CannotRun(f"{what}: {cause}{f'; {step}' if is_folder else ''}")


def _behind_env(words: Sequence[str]) -> Sequence[str]:
    """Return the program of `#!/usr/bin/env NAME`, if `env` does nothing but look for it."""
    if len(words) == 2 and words[0].rpartition("/")[2] == _ENV and os.access(words[0], os.X_OK):
        rest = words[1].split()
        return rest if rest and not rest[0].startswith("-") and "=" not in rest[0] else words
    return words


def _candidates(program: str, cwd: str, environment: Mapping[str, str]) -> list[str]:
    """Where the job looks for its program. At the end of its PATH are radrm's own programs."""
    if "/" in program:
        return [os.path.join(cwd, program)]
    folders = (environment.get("PATH") or os.defpath).split(os.pathsep)
    if program.startswith(_OWN_PREFIX):
        folders += [os.path.dirname(os.path.abspath(sys.argv[0])), os.path.dirname(sys.executable)]
    return [os.path.join(cwd, folder, program) for folder in folders]


def _shown(program: str) -> str:
    return program if program.isprintable() else repr(program)
