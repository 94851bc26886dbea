"""The words of `radrm submit` for those of `sbatch`: `radrm submit --slurm`."""

from __future__ import annotations

import os
import sys
from socket import gethostname

from radrm.errors import UsageError
from radrm.host.storage.submission import load
from radrm.jobfile.command_line import SUBMIT_FLAGS
from radrm.jobfile.radfile import MAX_BYTES, name_from
from radrm.jobfile.slurm import Given, Slurm, directives, read, translate

_WHERE = "command line"


def translated(words: list[str]) -> list[str]:
    """Return the words of `radrm submit` for options and script of `sbatch`.

    It prints notes about options that are left out, and sets the variables that Slurm's jobs get
    in this process's environment, which the job inherits. Raises `RadrmError`.
    """
    words = [word for word in words if word != "--slurm"]
    options, rest = read(words, _WHERE, SUBMIT_FLAGS)
    given = {each.name: each for each in options}
    wrapped = given.pop("wrap", None)
    if "help" in given:
        return ["--help"]
    options = list(given.values())
    if wrapped is not None:
        if rest:
            raise UsageError(f"{_WHERE}: both --wrap and a script; submit them separately")
        job, named, before = ["--", "/bin/sh", "-c", wrapped.value or ""], "wrap", []
    elif rest:
        before = _directives(rest[0])
        job, named = _job(rest), name_from(os.path.splitext(os.path.basename(rest[0]))[0])
    else:
        path = _from_standard_input()
        before = _directives(path)
        job, named = [path], "sbatch"
    slurm = translate([*before, *options], os.getcwd(), gethostname(), SUBMIT_FLAGS)
    slurm.raw.setdefault("name", named)
    for note in slurm.notes:
        print(f"radrm: note: {note}", file=sys.stderr)
    _set_environment(slurm)
    return ["--slurm", *(f"--{flag}" for flag in sorted(slurm.flags)), *_words(slurm), *job]


def _directives(name: str) -> list[Given]:
    text = load(name)[: MAX_BYTES + 1].decode("utf-8", "replace").replace("\r\n", "\n")
    return directives(text, os.path.basename(name))


def _job(rest: list[str]) -> list[str]:
    """A script; with arguments the command that runs it."""
    if len(rest) == 1:
        return rest
    first = load(rest[0]).partition(b"\n")[0].decode("utf-8", "replace")
    if not first.startswith("#!"):
        raise UsageError(f"{rest[0]}: a script with arguments begins with #!, as #!/bin/bash")
    print(
        f"radrm: note: {rest[0]} has arguments, so it is not copied: change it only once the job "
        "has started",
        file=sys.stderr,
    )
    return ["--", *first[2:].split(None, 1), os.path.abspath(rest[0]), *rest[1:]]


def _from_standard_input() -> str:
    """The path of a copy in memory of the script on standard input."""
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError(f"{_WHERE}: no script; name one: radrm submit --slurm job.sbatch")
    text = sys.stdin.buffer.read(MAX_BYTES + 1)
    if not text.strip():
        raise UsageError("standard input is empty; name a script: radrm submit --slurm job.sbatch")
    handle = os.memfd_create("sbatch", 0)
    os.write(handle, text)
    return f"/proc/self/fd/{handle}"


def _words(slurm: Slurm) -> list[str]:
    found = []
    for name, value in slurm.raw.items():
        texts = value if isinstance(value, list) else [value]
        found += [f"--{name}" if text is True else f"--{name}={text}" for text in texts]
    return found


def _set_environment(slurm: Slurm) -> None:
    if slurm.kept is not None:
        for name in [name for name in os.environ if name not in slurm.kept]:
            if not name.startswith(("SLURM_", "RADRM_")):
                del os.environ[name]
    os.environ.update(slurm.variables)
