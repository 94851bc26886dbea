"""The help of a command, from its docstring and its parameters."""

from __future__ import annotations

from inspect import cleandoc
from textwrap import wrap

from radrm.cli.listing import commands, function_of, module_of, of_group, parameters_of
from radrm.jobfile.arguments import TEXTS, UNDESCRIBED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from radrm.jobfile.arguments import Parameter

_LINE = 78
_MOST = 26
"""Columns of an option; a longer one moves its text to the next line."""


def help_of(name: str) -> str:
    """Return the help of a command, or of a group of commands. A command whose options are those of
    the table of jobs has a function for it, as `edit_help`."""
    if its := of_group(name):
        return _text_of_group(name, its)
    if (own := getattr(module_of(name), f"{name}_help", None)) is not None:
        return f"{own()}\n"
    parameters = [each for each in parameters_of(name) if each.kind not in UNDESCRIBED]
    arguments = [each for each in parameters if each.is_argument]
    lines = [" ".join([f"Usage: radrm {name} [OPTIONS]", *map(_usage, arguments)])]
    lines += ["", *_told(function_of(name).__doc__ or "")]
    if arguments:
        lines += ["", "Arguments:", *_rows((each.metavar, _about(each)) for each in arguments)]
    options = [(_option(each), _about(each)) for each in parameters if each.flags]
    lines += ["", "Options:", *_rows([*options, ("-h, --help", "Show this text.")])]
    return "\n".join(lines) + "\n"


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
