"""The options as the help of `radrm submit`, and as documentation."""

from __future__ import annotations

from radrm.jobfile.command_line import LINES, SUBMIT_FLAGS
from radrm.jobfile.options import OPTIONS, Option

LINES_HELP = "a job per line of a file (-: standard input), run by a shell"


def _meaning(option: Option) -> str:
    notes = ["repeatable"] if option.repeatable else []
    if not option.available:
        notes.append("not in this release")
    notes += [f"{value} not in this release" for value in option.later]
    return option.help + (f" ({'; '.join(notes)})" if notes else "")


def submit_help() -> str:
    """Return the text of `radrm submit --help`."""
    rows = [(option.usage, _meaning(option)) for option in OPTIONS]
    rows.append((f"--{LINES}=FILE", LINES_HELP))
    rows += [(f"--{name}", meaning) for name, meaning in SUBMIT_FLAGS.items()]
    lines = [
        "Usage: radrm submit [OPTIONS] FILE...",
        "       radrm submit [OPTIONS] -- COMMAND [ARGUMENT]...",
        "       radrm submit [OPTIONS] --lines FILE",
        "",
        "Submit job files, or one command, and print a ticket for each. No daemon needs to",
        "run. Options on the command line override the #RAD lines of a file.",
        "",
        "Options:",
    ]
    for usage, meaning in rows:
        if len(usage) > 30:
            lines += [f"  {usage}", f"{'':34}{meaning}"]
        else:
            lines.append(f"  {usage:<30}  {meaning}")
    return "\n".join(lines) + "\n"


def options_markdown() -> str:
    """Return the list of options for the documentation."""
    rows = [f"- `{option.usage}`: {_meaning(option)}\n" for option in OPTIONS if option.available]
    later = ", ".join(f"`--{option.name}`" for option in OPTIONS if not option.available)
    return "".join(rows) + f"- not in this release: {later}\n"
