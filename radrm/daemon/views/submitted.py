"""What was submitted as a job: its command or script, folder, options, and where from.

Only the job's user, root and the daemon's user are shown any of it: words and options may hold
secrets.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from radrm.core.records import Job
from radrm.documents.jobs import Environment
from radrm.errors import RadrmError
from radrm.host.storage.store import Store
from radrm.jobfile.options import BY_NAME, HIDDEN, RawOptions

_MOST = 64 * 1024
"""Characters of a command, or of all options, that are shown."""


def submitted(store: Store, job: Job, uid: int) -> dict[str, Any]:
    """Return the values of a job's document that its submission has, as `uid` may see them."""
    if uid not in (job.spec.uid, 0, os.getuid()):
        return {}
    submission = store.submissions.of_job(job.id)
    envelope = submission.envelope
    try:
        found = submission.job_file()
        argv, raw, options = found.argv, found.raw, found.options
        folder, interactive = options.snapshot or options.chdir or "", options.interactive
    except RadrmError:  # it was refused, and has failed for that
        argv, raw, folder, interactive = envelope.command or (), envelope.options, "", False
    if interactive and "--" in argv:
        argv = argv[argv.index("--") + 1 :]  # before that stands the program that connects back
    script = envelope.file if envelope.script is not None else None
    words = argv if envelope.script is None else (script or "-", *envelope.arguments)
    return {
        "command": _within(words),
        "script": None if script is None else _shown(script),
        "folder": _shown(os.path.normpath(os.path.join(envelope.cwd, folder))),
        "options": _within(_options(raw)),
        "submit_host": envelope.host,
        "environment": _environment(envelope.environment),
    }


def _options(raw: RawOptions) -> Iterable[str]:
    """Yield options as a command line has them."""
    for name, value in raw.items():
        option = BY_NAME.get(name)
        if option is not None and HIDDEN not in option.marks:
            for text in value if isinstance(value, list) else [value]:
                yield f"--{name}" if text is True else f"--{name}={text}"


def _environment(variables: Mapping[str, str]) -> Environment:
    """Return the environment that was active: the one whose programs come first in `PATH`."""
    path = variables.get("PATH", "").split(os.pathsep)
    found = []
    for kind, variable in (("venv", "VIRTUAL_ENV"), ("conda", "CONDA_PREFIX")):
        if prefix := variables.get(variable):
            programs = os.path.join(prefix, "bin")
            place = path.index(programs) if programs in path else len(path)
            found.append((place, kind, prefix))
    if not found:
        return Environment(kind="none", name=None)
    _, kind, prefix = min(found, key=lambda each: each[0])
    name = variables.get("CONDA_DEFAULT_ENV") if kind == "conda" else None
    return Environment(kind=kind, name=_shown(name or prefix))


def _within(words: Iterable[str]) -> tuple[str, ...]:
    """Return the first words, as many as are shown."""
    found: list[str] = []
    left = _MOST
    for word in words:
        if len(word) > left:
            return (*found, f"{_shown(word[:left])}…")
        found.append(_shown(word))
        left -= len(word) + 1
    return tuple(found)


def _shown(text: str) -> str:
    """Return a text of Unix as JSON can have it."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
