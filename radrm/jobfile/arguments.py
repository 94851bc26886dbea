"""The one reader of command lines. Each command declares its parameters; help, completion, manual
and documentation show the same declarations (`cli/help.py`, `tools/declared.py`).

A value stands behind its option or behind a `=`: `--page 2`, `--page=2`, `-n 5`, `-n5`. Flags of
one letter may stand together: `-fn5`. A next word that begins with `--` is no value, but a value
that was forgotten; `--reason=--` gives one. Behind `--` all words are arguments.
"""

from __future__ import annotations

from radrm.errors import UsageError, shown
from radrm.jobfile.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

FLAG, SWITCH = "flag", "switch"
TEXT, TEXTS, NUMBER, REAL = "text", "texts", "number", "real number"
WORD, WORDS, COMMAND = "word", "words", "command"
OF_JOBS, BEHIND = "options of jobs", "words behind --"
"""Kinds of parameters. Options without a value: a flag; a switch, whose two flags say yes and no.
Options with a text, with a text and repeatable, with a whole number, with a finite number.
Arguments: one; any number; all words from the first argument on. `least` says how many there must
be. All options of the table of jobs, as written, by name. And the words behind `--`, which are then
no arguments."""

UNDESCRIBED = frozenset({OF_JOBS, BEHIND})
"""The kinds that have no line of their own in a help."""
HELP = frozenset({"--help", "-h"})


class Parameter(Record):
    """One option or argument; `name` is that of the function's own parameter.

    An option that is not given is `initial`; without that, a flag is False, a switch and a number
    are None, a text is "", and a repeatable text and arguments are []. `least` and `most` bound a
    number, or the count of arguments from below.
    """

    name: str
    kind: str
    help: str
    metavar: str = ""
    flags: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    initial: str | float | None = None

    @property
    def default(self) -> Any:
        if self.initial is not None:
            return self.initial
        empty = {FLAG: False, TEXT: "", WORD: "", OF_JOBS: {}}
        return [] if self.kind in (TEXTS, WORDS, COMMAND, BEHIND) else empty.get(self.kind)

    @property
    def is_argument(self) -> bool:
        return not self.flags and self.kind not in UNDESCRIBED

    @property
    def takes_value(self) -> bool:
        """Whether a value belongs to the option."""
        return self.kind not in (FLAG, SWITCH)

    @property
    def bounds(self) -> str:
        """The values that a number may have; "" if all."""
        if self.kind not in (NUMBER, REAL) or (self.least is None and self.most is None):
            return ""
        if self.most is None:
            return f"{self.least:g} or more"
        return f"up to {self.most:g}" if self.least is None else f"{self.least:g} to {self.most:g}"


def parse(
    parameters: Sequence[Parameter], words: Sequence[str], where: str
) -> dict[str, Any] | None:
    """Return the value of each parameter; None if help is asked for.

    `where`: the command, as a mistake names it. Raises `UsageError` for a mistake.
    """
    return _Reader(parameters, words, where).read()


class _Reader:
    def __init__(self, parameters: Sequence[Parameter], words: Sequence[str], where: str) -> None:
        self._parameters, self._where = parameters, where
        self._options = {flag: each for each in parameters for flag in each.flags}
        self._kinds = {each.kind: each.name for each in parameters}
        self._found = {each.name: each.default for each in parameters}
        self._arguments: list[str] = []
        self._left: Iterator[str] = iter(words)

    def read(self) -> dict[str, Any] | None:
        for word in self._left:
            if word == "--" and BEHIND in self._kinds:
                self._found[self._kinds[BEHIND]] = list(self._left)
            elif word == "--":
                self._arguments += self._left
            elif not word.startswith("-") or word == "-":
                self._arguments.append(word)
                if COMMAND in self._kinds:
                    self._arguments += self._left
            elif word in HELP:
                return None
            elif word.startswith("--"):
                self._take_long(word)
            else:
                self._take_short(word)
        self._take_arguments()
        return self._found

    def _take_long(self, word: str) -> None:
        flag, equals, text = word.partition("=")
        option = self._options.get(flag)
        if option is None:
            self._take_of_jobs(word)
        elif option.takes_value:
            self._take(option, flag, text if equals else None)
        elif equals:
            raise self._wrong(f"{flag} takes no value; write {flag} alone")
        else:
            self._set(option, flag)

    def _take_short(self, word: str) -> None:
        """Take options of one letter. What stands behind one that takes a value is its value."""
        if word[:2] not in self._options:
            self._take_of_jobs(word)
            return
        for place in range(1, len(word)):
            flag = f"-{word[place]}"
            option = self._options.get(flag)
            if option is None:
                self._raise_unknown(flag)
            elif option.takes_value:
                self._take(option, flag, word[place + 1 :] or None)
                return
            else:
                self._set(option, flag)

    def _set(self, option: Parameter, flag: str) -> None:
        self._found[option.name] = option.kind == FLAG or flag == option.flags[0]

    def _take(self, option: Parameter, flag: str, text: str | None) -> None:
        if text is None:
            text = next(self._left, "--")
            if text.startswith("--"):
                long = max(option.flags, key=len)
                raise self._wrong(f"{flag} needs a value; write {long}={option.metavar}")
        if option.kind in (NUMBER, REAL):
            self._found[option.name] = self._number(option, flag, text)
        elif option.kind == TEXTS:
            self._found[option.name] = [*self._found[option.name], text]
        else:
            self._found[option.name] = text

    def _number(self, option: Parameter, flag: str, text: str) -> float:
        try:
            number = int(text) if option.kind == NUMBER else float(text)
        except ValueError:
            raise self._wrong(f"{flag}: {shown(text)} is not a number") from None
        if not float("-inf") < number < float("inf"):
            raise self._wrong(f"{flag}: {text} is not a finite number")
        too_small = option.least is not None and number < option.least
        if too_small or (option.most is not None and number > option.most):
            raise self._wrong(f"{flag} is {text.strip()}; it can be {option.bounds}")
        return number

    def _take_of_jobs(self, word: str) -> None:
        """Take an option of the table of jobs."""
        if OF_JOBS not in self._kinds:
            self._raise_unknown(word)
        from radrm.jobfile.parsing import is_option, raise_unknown, spelled_out, take_option

        word = spelled_out(word)
        if not is_option(word):
            others = (flag.lstrip("-") for flag in self._options)
            script = next(iter(self._arguments), None) if BEHIND in self._kinds else None
            raise_unknown(word, self._where, others, script)
        take_option(word, self._left, self._where, self._found[self._kinds[OF_JOBS]])

    def _take_arguments(self) -> None:
        left = self._arguments
        for each in self._parameters:
            if not each.is_argument:
                continue
            if len(left) < (each.least or 0):
                raise self._wrong(f"missing argument {each.metavar}", help=True)
            if each.kind != WORD:
                self._found[each.name], left = left, []
            elif left:
                self._found[each.name], left = left[0], left[1:]
        if left:
            raise self._wrong(f"one argument too many: {shown(left[0])}", help=True)

    def _raise_unknown(self, word: str) -> None:
        from radrm.spellings import option_hint  # only a mistake needs it

        hint = option_hint(word, [flag.lstrip("-") for flag in self._options])
        step = "" if hint is None else f"; {hint}"
        raise self._wrong(f"unknown option {shown(word)}{step}", help=hint is None)

    def _wrong(self, what: str, help: bool = False) -> UsageError:
        step = f"; see radrm {self._where} --help" if help else ""
        return UsageError(f"{self._where}: {what}{step}")
