"""The help of a command, from its docstring and its parameters."""

from __future__ import annotations

from inspect import cleandoc
from textwrap import wrap

from radrm.cli.listing import commands, function_of, module_of, of_group, parameters_of
from radrm.jobfile.arguments import TEXTS, UNDESCRIBED
from radrm.jobfile.options import FIRST, FIXED, LIVE, OF_ARRAYS, SHOWN, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from radrm.jobfile.arguments import Parameter

_LINE = 80
_MOST = 30
"""Columns of an option; a longer one moves its text to the next line."""
_WITHOUT = {"submit": frozenset[str](), "run": OF_ARRAYS, "edit": FIXED}
"""Commands whose help has the options of jobs, all but these."""
_FIRST_FLAGS = frozenset({"--wait", "--dry-run", "--pty"})


def help_of(name: str, whole: bool = False) -> str:
    """Return the help of a command, or of a group of commands. `whole`: with all options of jobs,
    in groups, where the usual help has the first of them."""
    if its := of_group(name):
        return _text_of_group(name, its)
    parameters = [each for each in parameters_of(name) if each.kind not in UNDESCRIBED]
    arguments = [each for each in parameters if each.is_argument and each.help]
    usage = "\n       ".join(usage_of(name))
    lines = [f"Usage: {usage}", "", *_told(function_of(name).__doc__ or "")]
    if arguments:
        lines += ["", "Arguments:", *_rows((each.metavar, _about(each)) for each in arguments)]
    own = [(_option(each), _about(each)) for each in parameters if each.flags]
    first = [row for row in own if row[0] in _FIRST_FLAGS]
    of_jobs = options_of(name)
    if name == "edit":
        rows = [(f"{' *'[LIVE in each.marks]}{each.usage}", meaning_of(each)) for each in of_jobs]
        lines += ["", "Options:", *_rows([*rows, *((f" {left}", text) for left, text in own)])]
    elif not of_jobs:
        lines += ["", "Options:", *_rows([*own, ("-h, --help", "Show this text.")])]
    elif not whole:
        rows = [(each.usage, meaning_of(each)) for each in of_jobs if FIRST in each.marks]
        lines += ["", "Options:", *_rows([*rows, *first])]
        lines += ["", f"All options, in groups: radrm {name} --help-all"]
    else:
        for group in dict.fromkeys(each.group for each in of_jobs):
            its_rows = [(e.usage, meaning_of(e)) for e in of_jobs if e.group == group]
            lines += ["", f"{group}:", *_rows(its_rows)]
        lines += ["", "The command:", *_rows(own)]
    return "\n".join(lines) + "\n"


def usage_of(name: str) -> tuple[str, ...]:
    """Return the lines of a command's usage: its own (as `SUBMIT_USAGE`), or of its parameters."""
    own: tuple[str, ...] | None = getattr(module_of(name), f"{name.upper()}_USAGE", None)
    if own is not None:
        return own
    arguments = [_usage(each) for each in parameters_of(name) if each.is_argument]
    return (" ".join([f"radrm {name} [OPTIONS]", *arguments]),)


def options_of(name: str) -> list[Option]:
    """Return the options of jobs that the help of a command has."""
    without = _WITHOUT.get(name)
    return [] if without is None else [each for each in SHOWN if each.name not in without]


def meaning_of(option: Option) -> str:
    """Return an option's help, with what is to be known of its values."""
    return option.help + (" (repeatable)" if option.repeatable else "")


def _text_of_group(name: str, its: Iterable[str]) -> str:
    rows = [(each.split()[1], _first(function_of(each).__doc__ or "")) for each in its]
    lines = [f"Usage: radrm {name} COMMAND ...", "", f"  {commands()[name]}", "", "Commands:"]
    return "\n".join([*lines, *_rows(rows)]) + "\n"


def _first(text: str) -> str:
    return " ".join(cleandoc(text).partition("\n\n")[0].split())


def _told(text: str) -> Iterator[str]:
    """Yield the lines of a docstring, indented. Those after a backspace are not wrapped."""
    for number, paragraph in enumerate(cleandoc(text).split("\n\n")):
        yield from [""] * (number > 0)
        if paragraph.startswith("\b\n"):
            yield from (f"  {line}" for line in paragraph[2:].split("\n"))
        else:
            yield from (f"  {line}" for line in wrap(" ".join(paragraph.split()), _LINE - 2))


def _usage(argument: Parameter) -> str:
    return argument.metavar if argument.least else f"[{argument.metavar}]"


def _option(option: Parameter) -> str:
    if option.takes_value:
        return f"{', '.join(sorted(option.flags, key=len))} {option.metavar}"
    if option.kind == "switch":
        return " / ".join(option.flags)
    return ", ".join(sorted(option.flags, key=len))


def _about(parameter: Parameter) -> str:
    """The text of a parameter, with its default and its limits."""
    default = "" if parameter.initial in (None, "") else f"default: {parameter.initial}"
    more = [each for each in (default, parameter.bounds) if each]
    more += ["repeatable"] * (parameter.kind == TEXTS)
    return " ".join([parameter.help, *([f"[{'; '.join(more)}]"] if more else [])])


def _rows(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    rows = list(rows)
    width = max((len(left) for left, _ in rows if len(left) <= _MOST), default=0)
    for left, text in rows:
        lines = wrap(text, _LINE - width - 4, break_on_hyphens=False) or [""]
        if len(left) > width:
            yield f"  {left}"
        else:
            yield f"  {left:{width}}  {lines.pop(0)}".rstrip()
        yield from (f"{'':{width + 4}}{line}" for line in lines)
