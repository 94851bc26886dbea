"""Read the options of `sbatch` from its command line and from `#SBATCH` lines."""

from __future__ import annotations

import re
import shlex

from radrm.errors import UsageError, plain
from radrm.jobfile.record import Record
from radrm.jobfile.values import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

MOST_LINES = 1000
MOST_CHARACTERS = 8192
"""Of a line: the time that shlex needs grows with the square of its length."""

_LONG = {
    "J": "job-name", "G": "gpus", "t": "time", "c": "cpus-per-task", "a": "array", "o": "output",
    "e": "error", "d": "dependency", "D": "chdir", "H": "hold", "b": "begin", "N": "nodes",
    "n": "ntasks", "p": "partition", "A": "account", "q": "qos", "C": "constraint",
    "w": "nodelist", "x": "exclude", "W": "wait", "Q": "quiet", "v": "verbose",
    "s": "oversubscribe",
    "i": "input", "L": "licenses", "M": "clusters", "k": "no-kill", "O": "overcommit",
    "B": "extra-node-info", "F": "nodefile", "m": "distribution", "S": "core-spec",
    "h": "help", "V": "version",
}  # fmt: skip
_FLAGS = frozenset(
    {
        *("hold", "requeue", "no-requeue", "wait", "quiet", "verbose", "oversubscribe"),
        *("parsable", "test-only", "no-kill", "overcommit", "contiguous", "spread-job"),
        *("use-min-nodes", "ignore-pbs", "reboot", "help", "version"),
    }
)
"""Options without a value."""
_MAYBE = frozenset({"exclusive", "nice", "no-kill", "get-user-env", "propagate"})
"""Options whose value may be left out; it stands after a `=`."""


class Given(Record):
    """An option as it was given: its long name, its value (None for none), and where."""

    name: str
    value: str | None
    where: str


def directives(text: str, where: str) -> list[Given]:
    """Return the options of the `#SBATCH` lines before the first command. Raises `UsageError`."""
    found: list[Given] = []
    for number, line in enumerate(text.split("\n"), 1):
        plain = line.strip()
        if plain and not plain.startswith("#"):
            break
        if not re.match(r"#SBATCH(\s|$)", line):
            continue
        here = f"{where} line {number}"
        if len(found) >= MOST_LINES or len(line) > MOST_CHARACTERS:
            raise UsageError(
                f"{here}: more than {MOST_LINES} lines, or {MOST_CHARACTERS} characters in one"
            )
        try:
            words = shlex.split(line[len("#SBATCH") :], comments=True)
        except ValueError as cause:
            raise UsageError(f"{here}: {str(cause).lower()}; close the quotes") from None
        options, rest = read(words, here)
        if rest:
            raise UsageError(f"{here}: {shown(rest[0])} is not an option; options begin with -")
        found += options
    return found


def read(
    words: Sequence[str], where: str, flags: Collection[str] = ()
) -> tuple[list[Given], list[str]]:
    """Return the options at the head of a command line of `sbatch`, and the words after them.

    `flags`: more options that have no value. Raises `UsageError` for an option without its value.
    """
    found: list[Given] = []
    left = list(words)
    while left and left[0].startswith("-") and left[0] not in ("-", "--"):
        word = left.pop(0)
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            given: str | None = value if equals else None
        else:
            name, value = _LONG.get(word[1], word[1]), word[2:].removeprefix("=")
            given = value or None
            if name in _FLAGS and given is not None:  # -Hv
                left.insert(0, f"-{given}")
                given = None
        if given is None and name not in _FLAGS | _MAYBE and name not in flags:
            if not left or (left[0].startswith("-") and len(left[0]) > 1):
                raise UsageError(f"{where}: {spelled(name)} needs a value")
            given = left.pop(0)
        found.append(Given(name, given, where))
    if left[:1] == ["--"]:
        left.pop(0)
    return found, left


def spelled(name: str) -> str:
    """Return an option as it is written, as plain text of limited length."""
    return f"-{plain(name)}" if len(name) == 1 else f"--{plain(name[:40])}"
