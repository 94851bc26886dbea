"""The options as the help of `radrm submit` and `radrm run`, and as documentation."""

from __future__ import annotations

from textwrap import wrap

from radrm.jobfile.command_line import LINES, LINES_HELP, RUN_FLAGS, SUBMIT_FLAGS
from radrm.jobfile.options import GROUPS, OF_ARRAYS, SHOWN, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

FIRST_FLAGS = ("wait", "dry-run", "pty")
"""Flags of the first help, beside the first options."""
_WIDTH = 30
_TERMINAL = 80


def meaning_of(option: Option) -> str:
    """Return an option's help, with what is to be known of its values."""
    return option.help + (" (repeatable)" if option.repeatable else "")


def submit_help(whole: bool = False) -> str:
    """Return the text of `radrm submit --help`; `whole`: of `--help-all`."""
    lines = [
        "Usage: radrm submit [OPTIONS] FILE [-- ARGUMENT...]",
        "       radrm submit [OPTIONS] FILE...",
        "       radrm submit [OPTIONS] -- COMMAND [ARGUMENT]...",
        "       radrm submit [OPTIONS] --lines FILE",
        "",
        "Submit job files, or one command, and print a ticket for each. No daemon needs",
        "to run. Options here override the #RAD lines of a file; - is standard input.",
        "",
        "Examples:",
        "  radrm submit train.rad",
        "  radrm submit --gpus=1 --gpu-memory=10G --time=4h -- python train.py",
        "  radrm submit --param lr=1e-3,1e-4 -- python train.py --lr {lr}",
    ]
    return _help("submit", lines, {f"{LINES}=FILE": LINES_HELP, **SUBMIT_FLAGS}, (), whole)


def run_help(whole: bool = False) -> str:
    """Return the text of `radrm run --help`; `whole`: of `--help-all`."""
    lines = [
        "Usage: radrm run [OPTIONS] [--pty] [--] COMMAND [ARGUMENT]...",
        "",
        "Queue a command, and run it tied to this terminal: show its output, pass Ctrl-C",
        "on, and end with its exit code. A second Ctrl-C, and one while the job waits,",
        "cancels the job. With --pty all keys go to the command; a shell ends by `exit`.",
        "When this terminal or its connection is lost, the command ends: HUP (with",
        "--pty), then TERM.",
        "",
        "Examples:",
        "  radrm run --gpus=1 --pty -- bash",
        "  radrm run --gpus=1 --pty -- jupyter lab --no-browser",
        "  radrm run --gpu-memory=8G -- python train.py",
    ]
    return _help("run", lines, RUN_FLAGS, OF_ARRAYS, whole)


def _help(
    command: str,
    lines: list[str],
    flags: Mapping[str, str],
    without: Collection[str],
    whole: bool,
) -> str:
    """These lines, then the first options, or all of them in groups."""
    known = {each.name: each for each in SHOWN if each.name not in without}
    flag_rows = {name: (f"--{name}", meaning) for name, meaning in flags.items()}
    rows = {name: (each.usage, meaning_of(each)) for name, each in known.items()}
    if not whole:
        found = [rows[each.name] for each in known.values() if each.first]
        found += [flag_rows[name] for name in FIRST_FLAGS if name in flag_rows]
        more = f"All options, in groups: radrm {command} --help-all"
        return "\n".join([*lines, "", "Options:", *_rows(found), "", more]) + "\n"
    for title, group in GROUPS.items():
        its = [rows[each.name] for each in group if each.name in rows]
        lines += ["", f"{title}:", *_rows(its)] if its else []
    return "\n".join([*lines, "", "The command:", *_rows(flag_rows.values())]) + "\n"


def _rows(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for usage, meaning in rows:
        lines = wrap(meaning, _TERMINAL - _WIDTH - 4, break_on_hyphens=False)
        if len(usage) > _WIDTH:
            yield f"  {usage}"
        else:
            yield f"  {usage:<{_WIDTH}}  {lines.pop(0)}"
        yield from (f"{'':{_WIDTH + 4}}{line}" for line in lines)
