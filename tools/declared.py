"""All commands with their options and arguments, read from the declarations that parse them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from radrm.cli.commands.report import BY
from radrm.cli.help import meaning_of, options_of, usage_of
from radrm.cli.listing import commands as listed
from radrm.cli.listing import function_of, of_group, parameters_of
from radrm.cli.settings import RULE_TABLES, registry_of
from radrm.core.words import JobState
from radrm.jobfile.arguments import BEHIND, TEXTS, UNDESCRIBED, WORD
from radrm.jobfile.options import Option
from radrm.wiring import registry

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
        its = [_of_declared(each, None) for each in of_group(name)]
        found += its or [_of_declared(name, about)]
    return found


def _of_declared(name: str, about: str | None) -> Command:
    first, text, examples = _told(function_of(name).__doc__ or "")
    # `requeue` takes the options of `edit`, too.
    of_jobs = map(_of_jobs, options_of({"requeue": "edit"}.get(name, name)))
    parameters = (*_parameters(name), *of_jobs)
    return Command(name, about or first, parameters, text, examples, usage_of(name))


def _of_jobs(option: Option) -> Declared:
    flags = (f"--{option.name}", *_SHORT.get(option.name, ()))
    return Declared(flags, option.metavar, meaning_of(option), option.repeatable)


_SHORT = {"gpus": ("-g",)}


def _told(text: str) -> tuple[str, str, str]:
    """The first line of a command's help, the rest, and its examples."""
    whole, _, examples = inspect.cleandoc(text).partition("\b\n")
    first, _, rest = whole.partition("\n\n")
    head, _, lines = inspect.cleandoc(examples).partition("\n")
    shown = lines if head in ("Example:", "Examples:") else f"{head}\n{lines}"
    return " ".join(first.split()), rest.strip(), inspect.cleandoc(shown)


def _parameters(name: str) -> Iterator[Declared]:
    for each in parameters_of(name):
        if each.is_argument or (each.kind == BEHIND and each.metavar):
            yield Declared((), each.metavar, each.help, each.kind != WORD)
        elif each.kind not in UNDESCRIBED and "--help" not in each.flags:
            flags = tuple(sorted(each.flags, key=lambda flag: -len(flag)))
            metavar = each.metavar if each.takes_value else None
            yield Declared(flags, metavar, each.help, each.kind == TEXTS)
