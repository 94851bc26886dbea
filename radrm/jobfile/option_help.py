"""The options as the help of `radrm submit`, and as documentation."""

from __future__ import annotations

from radrm.jobfile.command_line import LINES, RUN_FLAGS, SUBMIT_FLAGS
from radrm.jobfile.options import OPTIONS, Option
from radrm.jobfile.relations import OF_ARRAYS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

LINES_HELP = "a job per line of a file (-: standard input), run by a shell"


def meaning_of(option: Option) -> str:
    """Return an option's help, with what is to be known of its values."""
    notes = ["repeatable"] if option.repeatable else []
    if not option.available:
        notes.append("not in this release")
    notes += [f"{value} not in this release" for value in option.later]
    return option.help + (f" ({'; '.join(notes)})" if notes else "")


def submit_help() -> str:
    """Return the text of `radrm submit --help`."""
    lines = [
        "Usage: radrm submit [OPTIONS] FILE...",
        "       radrm submit [OPTIONS] -- COMMAND [ARGUMENT]...",
        "       radrm submit [OPTIONS] --lines FILE",
        "",
        "Submit job files, or one command, and print a ticket for each. No daemon needs to",
        "run. Options on the command line override the #RAD lines of a file; - is standard input.",
        "",
        "Options:",
    ]
    rows = {f"--{LINES}=FILE": LINES_HELP, **_flags(SUBMIT_FLAGS)}
    return _with_options(lines, rows, frozenset())


def run_help() -> str:
    """Return the text of `radrm run --help`."""
    lines = [
        "Usage: radrm run [OPTIONS] [--pty] [--] COMMAND [ARGUMENT]...",
        "",
        "Queue a command, and run it tied to this terminal: show its output, pass Ctrl-C on,",
        "and end with its exit code. A second Ctrl-C, and one while the job waits, cancels the",
        "job. With --pty all keys go to the command; a shell ends by `exit`. When this terminal",
        "or its connection is lost, the command ends: HUP (with --pty), then TERM.",
        "",
        "Examples:",
        "  radrm run --gpus=1 --pty -- bash",
        "  radrm run --gpus=1 --pty -- jupyter lab --no-browser",
        "  radrm run --gpu-memory=8G -- python train.py",
        "",
        "Options:",
    ]
    return _with_options(lines, _flags(RUN_FLAGS), OF_ARRAYS | {"interactive"})


def _flags(flags: Mapping[str, str]) -> dict[str, str]:
    return {f"--{name}": meaning for name, meaning in flags.items()}


def _with_options(lines: list[str], more: Mapping[str, str], without: Collection[str]) -> str:
    """The help text: these lines, then the options and `more` rows of usage and meaning."""
    rows = [(each.usage, meaning_of(each)) for each in OPTIONS if each.name not in without]
    rows += more.items()
    for usage, meaning in rows:
        if len(usage) > 30:
            lines += [f"  {usage}", f"{'':34}{meaning}"]
        else:
            lines.append(f"  {usage:<30}  {meaning}")
    return "\n".join(lines) + "\n"


def options_markdown() -> str:
    """Return the list of options for the documentation."""
    rows = [f"- `{option.usage}`: {meaning_of(option)}\n" for option in OPTIONS if option.available]
    return "".join(rows)
