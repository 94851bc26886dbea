"""Run a command of radrm on another server: `radrm -H user@box status`.

Theory of operation. The system's `ssh` does it all: keys, agents, jump hosts and names from its
own configuration. It joins words by spaces for the other side's shell, so the command is quoted
for a shell here. A job file is read here and sent as standard input, since it is no file there.

RADRM_SSH is another program with its options, such as `ssh -p 2222`. RADRM_REMOTE is the program
on the other side, for a radrm that is not in PATH there.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

from radrm.errors import Refused, UsageError
from radrm.host.storage.submission import load
from radrm.jobfile.command_line import STDIN, SUBMIT_FLAGS, parse_submit
from radrm.jobfile.radfile import read_job_file
from radrm.jobfile.record import Record
from radrm.jobfile.values import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from radrm.jobfile.options import RawOptions

SSH, REMOTE = "RADRM_SSH", "RADRM_REMOTE"
_LONGEST_HOST = 255


def on_host(words: Sequence[str]) -> int:
    """Run `HOST COMMAND...` and return the exit code. Raises `RadrmError`.

    A command without job files takes the place of this process.
    """
    if len(words) < 2:
        raise UsageError("-H takes a host and a command, as: radrm -H ada@box status")
    host, command = words[0], list(words[1:])
    if command[0] == "submit":
        jobs = jobs_of(command[1:])
        if jobs and jobs[0].script is not None:
            return max(send(host, job) for job in jobs)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    line = ssh_words(host, command, terminal)
    try:
        os.execvp(line[0], line)
    except OSError as error:
        raise no_ssh(line[0], error) from None


def ssh_words(host: str, command: Sequence[str], terminal: bool = False) -> list[str]:
    """Return the command line of ssh that runs radrm with these words on `host`.

    Raises `UsageError` for what ssh would take for an option, and what is no host.
    """
    plain = host.isprintable() and not any(mark in host for mark in " '\"\\")
    if not host or host.startswith("-") or not plain or len(host) > _LONGEST_HOST:
        raise UsageError(f"{shown(host)} is not a host; write box or ada@box")
    ssh = shlex.split(os.environ.get(SSH, "")) or ["ssh"]
    remote = shlex.split(os.environ.get(REMOTE, "")) or ["radrm"]
    # ERROR: without it, ssh tells the end of each connection that has a terminal.
    with_terminal = ["-t", "-o", "LogLevel=ERROR"] if terminal else []
    return [*ssh, *with_terminal, "--", host, shlex.join([*remote, *command])]


class Sent(Record):
    """A submission: the words of `radrm` on the other side, and the script on standard input."""

    words: tuple[str, ...]
    script: bytes | None


def jobs_of(words: Sequence[str]) -> list[Sent]:
    """Return what `radrm submit WORDS...` submits; nothing for its help. Raises `RadrmError`.

    Job files are read here, and their errors are shown here.
    """
    before = words[: words.index("--") if "--" in words else None]
    if "--slurm" in before:
        raise UsageError("a script for Slurm is not sent; copy it, and submit it there")
    request = parse_submit(words)
    if request.help:
        return []
    if request.lines or "params" in request.raw_options:
        raise UsageError("a table of a sweep is not sent; use --param, or submit there")
    flags = [word for word in before if word[:2] == "--" and word[2:] in SUBMIT_FLAGS]
    if request.command:
        line = ("submit", *flags, *_options(request.raw_options), "--", *request.command)
        return [Sent(line, None)]
    found = []
    for name in request.files:
        data, raw = load(name), dict(request.raw_options)
        raw.setdefault("name", read_job_file(data, "job" if name == STDIN else name, raw).name)
        found.append(Sent(("submit", *flags, *_options(raw), STDIN), data))
    return found


def _options(raw: RawOptions) -> list[str]:
    found = []
    for option, value in raw.items():
        texts = value if isinstance(value, list) else [value]
        found += [f"--{option}" if text is True else f"--{option}={text}" for text in texts]
    return found


def send(host: str, job: Sent) -> int:
    """Submit a job there. Returns the exit code."""
    line = ssh_words(host, job.words)
    try:
        return subprocess.run(line, input=job.script or b"", check=False).returncode
    except OSError as error:
        raise no_ssh(line[0], error) from None


def no_ssh(program: str, error: OSError) -> Refused:
    return Refused(f"cannot run {program}: {error.strerror}; install ssh, or set {SSH}")
