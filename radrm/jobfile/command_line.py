"""The arguments of `radrm submit` and `run`: options, flags, files and commands."""

from __future__ import annotations

from radrm.errors import UsageError
from radrm.jobfile.options import OF_ARRAYS, RawOptions
from radrm.jobfile.parsing import (
    DASHES,
    is_option,
    raise_unknown,
    spelled_out,
    take_option,
    typed,
)
from radrm.jobfile.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

STDIN = "-"
"""The name of a job file that comes from standard input."""
SUBMIT_FLAGS = {
    "dry-run": "show what would be submitted; submit nothing",
    "wait": "wait, exit with the jobs' code; show the output of a single one",
    "parsable": "print only the tickets, one per line",
    "json": "print one JSON document",
    "slurm": "the options and the file are those of sbatch",
    "cluster": "submit to Slurm, whose nodes share their GPUs by radrm",
    "pilot": "submit to your own pilots in Slurm: see radrm pilot",
    "help": "show the options that most jobs need",
    "help-all": "show all options, in groups",
}


RUN_FLAGS = {
    "jupyter": "start JupyterLab, and show its address and the ssh line for a laptop",
    "pty": "give the command a terminal, for a shell or an editor",
    "help": "show the options that most jobs need",
    "help-all": "show all options, in groups",
}
LINES = "lines"
"""The option that names a file of command lines. It is the command line's only: it is the job."""


class SubmitRequest(Record):
    """The arguments of one `radrm submit`: one of `files`, `command` and `lines` is not empty.

    `arguments` are those of the only file, from behind `--`; `contents` is its text, if it was
    read already.
    """

    raw_options: RawOptions
    files: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    lines: str = ""
    dry_run: bool = False
    wait: bool = False
    parsable: bool = False
    json: bool = False
    slurm: bool = False
    cluster: bool = False
    pilot: bool = False
    help: bool = False
    help_all: bool = False
    arguments: tuple[str, ...] = ()
    contents: bytes | None = None


def parse_submit(argv: Sequence[str]) -> SubmitRequest:
    """Read the arguments of `radrm submit`. If a help is asked for, nothing else was checked."""
    where = "command line"
    words = list(argv)
    cut = words.index("--") if "--" in words else len(words)
    ours, command = words[:cut], tuple(words[cut + 1 :])
    if (whole := "--help-all" in ours) or "--help" in ours or "-h" in ours:
        return SubmitRequest({}, help=True, help_all=whole)
    raw: RawOptions = {}
    files: list[str] = []
    flags: set[str] = set()
    rest = map(spelled_out, ours)
    lines = ""
    for word in rest:
        if is_option(word):
            take_option(word, rest, where, raw)
        elif word.partition("=")[0] == f"--{LINES}":
            lines = word.partition("=")[2] or next(rest, "")
            if not lines or lines.startswith("--"):
                raise UsageError(f"{where}: --{LINES} needs a file, or - for standard input")
        elif word.startswith("--") and word[2:] in SUBMIT_FLAGS:
            flags.add(word[2:].replace("-", "_"))
        elif word == STDIN:
            files.append(word)
        elif word.startswith(("-", *DASHES)) or not word:
            raise_unknown(word, where, (*SUBMIT_FLAGS, LINES), files[0] if files else None)
        else:
            files.append(word)
    if cut < len(words) and not command:
        raise UsageError(f"{where}: no command after --; write one, or leave out the --")
    if len(files) > 1 and command:
        raise UsageError(
            f"{where}: what stands after -- is for one job file, and here are {len(files)}; "
            "submit them separately"
        )
    if lines and (files or command):
        what = "a command after --" if command else "job files"
        raise UsageError(f"{where}: both --{LINES} and {what}; submit them separately")
    if lines and raw.keys() & {"array", "param", "params"}:
        raise UsageError(f"{where}: --{LINES} makes the array itself; drop --array and --param")
    if raw.get("params") == STDIN and STDIN in files:
        raise UsageError(f"{where}: the job file and --params both are standard input; name one")
    if raw.get("params") == "-" and len(files) > 1:
        raise UsageError(f"{where}: --params=- is for one job file; submit them separately")
    if not files and not command and not lines:
        raise UsageError(f"{where}: nothing to submit; name a job file, or a command after --")
    if {"parsable", "json"} <= flags:
        raise UsageError(f"{where}: --parsable and --json exclude each other; use one of them")
    typed(raw, where)
    asked: dict[str, Any] = dict.fromkeys(flags, True)
    asked["arguments" if files else "command"] = command
    return SubmitRequest(raw, tuple(files), lines=lines, **asked)


class RunRequest(Record):
    """The arguments of one `radrm run`."""

    raw_options: RawOptions
    command: tuple[str, ...] = ()
    """Of `jupyter`: its arguments."""
    jupyter: bool = False
    pty: bool = False
    help: bool = False
    help_all: bool = False


def parse_run(argv: Sequence[str]) -> RunRequest:
    """Read the arguments of `radrm run`. If a help is asked for, nothing else was checked.

    The command begins after `--`, or with the first word that is no option.
    """
    where = "command line"
    raw: RawOptions = {}
    flags: set[str] = set()
    command: tuple[str, ...] = ()
    rest = iter(argv)
    for word in map(spelled_out, rest):
        if word == "--":
            command = tuple(rest)
        elif is_option(word):
            take_option(word, rest, where, raw)
        elif word == "-h" or (word.startswith("--") and word[2:] in RUN_FLAGS):
            flags.add("help" if word == "-h" else word[2:].replace("-", "_"))
        elif word.startswith("-") or not word:
            raise_unknown(word, where, RUN_FLAGS)
        else:
            command = (word, *rest)
    if {"help", "help_all"} & flags:
        return RunRequest({}, help=True, help_all="help_all" in flags)
    if not command and "jupyter" not in flags:
        raise UsageError(f"{where}: nothing to run; write: radrm run -- python train.py")
    if raw.keys() & OF_ARRAYS:
        raise UsageError(f"{where}: radrm run has one terminal for one job; submit an array")
    typed(raw, where)
    return RunRequest(raw, command, **dict.fromkeys(flags, True))


def check_edit(raw: RawOptions, where: str) -> None:
    """Raise `UsageError` for options that no edit can change, and for no options."""
    if not raw:
        raise UsageError(f"{where}: nothing to change; write: radrm edit JOB --priority=10")
    if "hold" in raw:
        raise UsageError(f"{where}: to hold a job that was submitted, write: radrm hold JOB")
    if raw.keys() & OF_ARRAYS:
        raise UsageError(f"{where}: an array stays as it was submitted; submit another")
    for name in raw.keys() & {"interactive", "snapshot"}:
        raise UsageError(f"{where}: --{name} is for jobs that are submitted; leave it out")
    typed(raw, where)
