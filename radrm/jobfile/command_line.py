"""The arguments of `radrm submit` and `run`: options, flags, files and commands."""

from __future__ import annotations

from radrm.errors import UsageError
from radrm.jobfile.arguments import (
    BEHIND,
    COMMAND,
    FLAG,
    HELP,
    OF_JOBS,
    TEXT,
    WORDS,
    Parameter,
    parse,
)
from radrm.jobfile.options import OF_ARRAYS, RawOptions
from radrm.jobfile.parsing import DASHES, raise_unknown, typed
from radrm.jobfile.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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


def _flags(flags: dict[str, str]) -> Iterable[Parameter]:
    for name, meaning in flags.items():
        yield Parameter(name.replace("-", "_"), FLAG, meaning, flags=(f"--{name}",))


_OPTIONS = Parameter("raw_options", OF_JOBS, "options of the job")
SUBMIT_PARAMETERS = (
    Parameter("files", WORDS, "", "FILE..."),
    Parameter("command", BEHIND, "", "COMMAND..."),
    Parameter(
        *("lines", TEXT, "a job per line of a file (-: standard input), run by a shell", "FILE"),
        flags=(f"--{LINES}",),
    ),
    *(_OPTIONS, *_flags(SUBMIT_FLAGS)),
)
RUN_PARAMETERS = (
    Parameter("command", COMMAND, "", "COMMAND..."),
    *(_OPTIONS, *_flags(RUN_FLAGS)),
)


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
    where, words = "command line", list(argv)
    ours = words[: words.index("--")] if "--" in words else words
    if (whole := "--help-all" in ours) or not HELP.isdisjoint(ours):
        return SubmitRequest({}, help=True, help_all=whole)
    found = parse(SUBMIT_PARAMETERS, words, where) or {}
    raw: RawOptions = found["raw_options"]
    files, command, lines = tuple(found["files"]), tuple(found["command"]), found["lines"]
    for word in files:
        if word.startswith(DASHES) or not word:
            raise_unknown(word, where)
    if len(ours) < len(words) and not command:
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
        raise UsageError(
            f"{where}: nothing to submit; name a job file (-: standard input), "
            "or a command after --"
        )
    if found["parsable"] and found["json"]:
        raise UsageError(f"{where}: --parsable and --json exclude each other; use one of them")
    typed(raw, where)
    mine, theirs = ((), command) if files else (command, ())
    return SubmitRequest(**{**found, "files": files, "command": mine, "arguments": theirs})


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
    found = parse(RUN_PARAMETERS, argv, where)
    if found is None or found["help_all"]:
        return RunRequest({}, help=True, help_all=found is not None)
    raw: RawOptions = found["raw_options"]
    if not any(found["command"][:1]) and not found["jupyter"]:
        raise UsageError(f"{where}: nothing to run; write: radrm run -- python train.py")
    if raw.keys() & OF_ARRAYS:
        raise UsageError(f"{where}: radrm run has one terminal for one job; submit an array")
    typed(raw, where)
    return RunRequest(**{**found, "command": tuple(found["command"])})


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
