"""All commands with their options and arguments, read from the declarations that parse them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from radrm.cli.commands.report import BY
from radrm.cli.listing import commands as listed
from radrm.cli.listing import function_of, of_group, parameters_of
from radrm.cli.parameters import REFERENCES
from radrm.cli.settings import RULE_TABLES, registry_of
from radrm.core.words import JobState
from radrm.jobfile.arguments import TEXTS, UNDESCRIBED, WORD
from radrm.jobfile.command_line import LINES, LINES_HELP, RUN_FLAGS, SUBMIT_FLAGS
from radrm.jobfile.option_help import meaning_of
from radrm.jobfile.options import OF_ARRAYS, SHOWN
from radrm.wiring import registry

OF_THE_TABLE = ("submit", "run", "edit")
"""Commands whose options are those of the option table."""
_WORD = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True, slots=True)
class Declared:
    """An option or argument. `values` is what completes it, as in `cli/completion/line.py`."""

    flags: tuple[str, ...]
    metavar: str | None
    help: str
    many: bool = False

    @property
    def takes(self) -> bool:
        return self.metavar is not None

    @property
    def values(self) -> str | list[str] | None:
        metavar = self.metavar or ""
        for flag in self.flags:
            if flag in _BY_FLAG:
                return _BY_FLAG[flag]
        if metavar.rstrip(".") in _BY_METAVAR:
            return _BY_METAVAR[metavar.rstrip(".")]
        words = [word for word in metavar.split("|") if _WORD.fullmatch(word)]
        return words or None

    @property
    def several(self) -> bool:
        """True if it takes a list with commas."""
        return any(flag in _LISTS for flag in self.flags)


@dataclass(frozen=True, slots=True)
class Command:
    """A command. `text` and `examples` are those of its help, without its first line."""

    name: str
    about: str
    parameters: tuple[Declared, ...]
    text: str = ""
    examples: str = ""
    usage: tuple[str, ...] = field(default=())


def _rules(key: str) -> list[str]:
    """The rules that the setting `key` chooses from."""
    table = next(table for table, name in RULE_TABLES.items() if name == key)
    return sorted(registry(registry_of(table)))


_BY_FLAG: dict[str, str | list[str]] = {
    "--user": "users",
    "--state": [state.value.lower() for state in JobState],
    "--set": "settings",
    "--by": list(BY),
    "--after": "jobs",
    "--prefer-gpus": "gpus",
    "--avoid-gpus": "gpus",
    **{f"--{kind}": _rules(kind) for kind in tuple(RULE_TABLES.values())},
}
_LISTS = {*_BY_FLAG} - {"--user", "--set", "--after", "--by"}
_BY_METAVAR = {
    **dict.fromkeys(("JOB", "ID"), "jobs"),
    **dict.fromkeys(("DEVICE", "GPU"), "gpus"),
    **dict.fromkeys(("FILE", "PATH", "CSV", "TRACE", "DATASET"), "files"),
    "DIR": "folders",
    "KEY=VALUE": "settings",
    "CMD": "command",
    "COMMAND": "command",
}


def commands() -> list[Command]:
    """All commands, in the order of `radrm --help`; a group's by their two words."""
    found = []
    for name, about in listed().items():
        if name in OF_THE_TABLE:
            found.append(_of_table(name, about))
            continue
        its = [_of_declared(each, None) for each in of_group(name)]
        found += its or [_of_declared(name, about)]
        if name == "requeue":  # it takes the options of `edit`, too
            options = (each for each in _of_table("edit", "").parameters if each.flags)
            own = found[-1].parameters
            more = tuple(each for each in options if each.flags != ("--json",))
            found[-1] = replace(found[-1], parameters=(*own, *more))
    return found


def _of_declared(name: str, about: str | None) -> Command:
    first, text, examples = _told(function_of(name).__doc__ or "")
    parameters = tuple(_parameters(name))
    arguments = " ".join(
        each.metavar or "" if not each.many else f"[{each.metavar}]"
        for each in parameters
        if not each.flags
    )
    usage = f"radrm {name} [OPTIONS]{' ' if arguments else ''}{arguments}"
    return Command(name, about or first, parameters, text, examples, (usage,))


def _told(text: str) -> tuple[str, str, str]:
    """The first line of a command's help, the rest, and its examples."""
    whole, _, examples = inspect.cleandoc(text).partition("\b\n")
    first, _, rest = whole.partition("\n\n")
    head, _, lines = inspect.cleandoc(examples).partition("\n")
    shown = lines if head in ("Example:", "Examples:") else f"{head}\n{lines}"
    return " ".join(first.split()), rest.strip(), inspect.cleandoc(shown)


def _parameters(name: str) -> Iterator[Declared]:
    for each in parameters_of(name):
        if each.is_argument:
            yield Declared((), each.metavar, each.help, each.kind != WORD)
        elif each.kind not in UNDESCRIBED:
            flags = tuple(sorted(each.flags, key=lambda flag: -len(flag)))
            metavar = each.metavar if each.takes_value else None
            yield Declared(flags, metavar, each.help, each.kind == TEXTS)


# ------------------------------------------------------------------ the option table

_SHORT = {"gpus": ("-g",)}
_JSON = "one JSON document on standard output"
_COMMAND = Declared((), "COMMAND...", "a command and its arguments", True)
_FLAGS = {"submit": SUBMIT_FLAGS, "run": RUN_FLAGS, "edit": {"json": _JSON}}
_WITHOUT = {"submit": frozenset(), "run": OF_ARRAYS, "edit": OF_ARRAYS | {"hold"}}
_ARGUMENTS = {
    "submit": (
        Declared((f"--{LINES}",), "FILE", LINES_HELP),
        Declared((), "FILE...", "job files", True),
        _COMMAND,
    ),
    "run": (_COMMAND,),
    "edit": (Declared((), "JOB...", f"jobs: {REFERENCES}", True),),
}
_USAGE = {
    "submit": (
        "radrm submit [OPTIONS] FILE...",
        "radrm submit [OPTIONS] -- COMMAND [ARGUMENT]...",
        f"radrm submit [OPTIONS] --{LINES} FILE",
    ),
    "run": ("radrm run [OPTIONS] [--pty] [--] COMMAND [ARGUMENT]...",),
    "edit": ("radrm edit JOB... OPTIONS",),
}


def _of_table(name: str, about: str) -> Command:
    parameters = [
        Declared(
            (f"--{each.name}", *_SHORT.get(each.name, ())),
            *(each.metavar, meaning_of(each), each.repeatable),
        )
        for each in SHOWN
        if each.name not in _WITHOUT[name]
    ]
    parameters += [
        Declared((f"--{flag}",), None, meaning)
        for flag, meaning in _FLAGS[name].items()
        if flag != "help"
    ]
    return Command(name, about, (*parameters, *_ARGUMENTS[name]), usage=_USAGE[name])
