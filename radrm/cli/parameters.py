"""The parameters of commands: declared once, read here and by typer.

Users wait for commands, and importing typer takes longer than running most of them. So `parse`
reads a command line in a usual spelling. For help, mistakes and unusual spellings it returns
None, and typer reads the line with the same declaration (`cli/app.py`, `typed`).
"""

from __future__ import annotations

from radrm.errors import UsageError
from radrm.jobfile.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
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
"""The kinds that only a usual spelling has."""


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


# ------------------------------------------------------------------ shared parameters

REFERENCES = "ids (12), arrays (12), elements (12_3), tickets, names, globs ('sweep-*'), @ (last)"

JSON = Parameter("as_json", FLAG, "One JSON document on standard output.", flags=("--json",))
JOB = Parameter("job", WORD, "A job: id (12), element (12_3), ticket or name.", "JOB", least=1)
JOBS = Parameter("jobs", WORDS, f"Jobs: {REFERENCES}.", "JOB...", least=1)
CHOSEN_JOBS = Parameter(
    "jobs", WORDS, f"Jobs: {REFERENCES}; or choose by --user, --state.", "JOB..."
)
USER = Parameter(
    *("user", TEXT, "Only jobs of this user; without a JOB, your own by default.", "NAME"),
    flags=("--user",),
)
STATE = Parameter(
    *("state", TEXT, "Only jobs in these states, as running,pending.", "STATE,..."),
    flags=("--state",),
)
CLUSTER = Parameter(
    "cluster", FLAG, "Of Slurm, in the partition that shares GPUs.", flags=("--cluster",)
)
FORMAT = Parameter(
    "layout",
    *(TEXT, "Rows as squeue's --format: '%.10i %j %T', or '{id} {name}' (radrm help others)."),
    *("FORMAT", ("--format", "-o")),
)
NO_HEADER = Parameter(
    "no_header", FLAG, "With --format: without the line of headings.", flags=("--no-header",)
)
DEVICES = Parameter(
    "devices", WORDS, "GPU indices (0-3,5) or UUIDs; all GPUs by default.", "DEVICE..."
)
YES = Parameter("yes", FLAG, "All GPUs, without asking.", flags=("--yes", "-y", "--all"))


# ------------------------------------------------------------------ reading a command line


def parse(parameters: Sequence[Parameter], words: Sequence[str]) -> dict[str, Any] | None:
    """The value of each parameter; None for anything but a correct line in a usual spelling.

    Usual: `--option VALUE`, `--option=VALUE`, `-o VALUE`, `--flag`, `-f`, and `--` before
    arguments that begin with a dash.
    """
    options = {flag: each for each in parameters for flag in each.flags}
    found = {each.name: each.default for each in parameters}
    of_jobs = next((found[each.name] for each in parameters if each.kind == OF_JOBS), None)
    behind = next((each.name for each in parameters if each.kind == BEHIND), None)
    takes_rest = any(each.kind == COMMAND for each in parameters)
    arguments: list[str] = []
    left = iter(words)
    for word in left:
        if word == "--" and behind is not None:
            found[behind] = list(left)
        elif word == "--":
            arguments += left
        elif not word.startswith("-") or word == "-":
            arguments.append(word)
            if takes_rest:
                arguments += left
        else:
            flag, equals, text = word.partition("=")
            option = options.get(flag)
            if option is None and of_jobs is not None and flag not in ("--help", "-h"):
                _take_of_jobs(word, left, options, of_jobs)
                continue
            if option is None or (equals and not flag.startswith("--")):
                return None
            if option.kind in (FLAG, SWITCH):
                if equals and of_jobs is not None:
                    raise UsageError(f"command line: {flag} takes no value")
                if equals:
                    return None
                found[option.name] = option.kind == FLAG or flag == option.flags[0]
                continue
            value = _value(option, text if equals else next(left, None))
            if value is None and of_jobs:
                raise UsageError(f"command line: {flag} needs {option.metavar}")
            if value is None:
                return None
            found[option.name] = [*found[option.name], value] if option.kind == TEXTS else value
    return _with_arguments(parameters, found, arguments)


def _take_of_jobs(
    word: str, left: Iterator[str], others: Iterable[str], raw: dict[str, Any]
) -> None:
    """Add an option of the table of jobs to `raw`. Raises `UsageError`."""
    from radrm.jobfile.parsing import is_option, raise_unknown, spelled_out, take_option

    word = spelled_out(word)
    if not is_option(word):
        raise_unknown(word, "command line", (each.lstrip("-") for each in others))
    take_option(word, left, "command line", raw)


def _value(option: Parameter, text: str | None) -> str | float | None:
    if text is None or text.startswith("-"):
        return None
    if option.kind in (TEXT, TEXTS):
        return text
    digits = text.replace(".", "", 1) if option.kind == REAL else text
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 10):
        return None
    number = float(text) if option.kind == REAL else int(text)
    too_small = option.least is not None and number < option.least
    too_large = option.most is not None and number > option.most
    return None if too_small or too_large else number


def _with_arguments(
    parameters: Sequence[Parameter], found: dict[str, Any], arguments: list[str]
) -> dict[str, Any] | None:
    for each in parameters:
        if each.kind in (WORDS, COMMAND) and len(arguments) >= (each.least or 0):
            found[each.name], arguments = arguments, []
        elif each.kind == WORD and len(arguments) == 1:
            found[each.name], arguments = arguments[0], []
        elif each.kind == WORD and each.least is None and not arguments:
            pass  # it may be left out
        elif each.is_argument:
            return None
    return None if arguments else found
