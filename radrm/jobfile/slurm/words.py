"""Read the options of `sbatch`: from its command line, its variables, and `#SBATCH` lines.

Theory of operation
-------------------
All three give a list of `Given`: the option's full name, its value, and where it was written. The
spellings are those of `getopt_long`: `--out=a`, the unique beginning of a long name; `-Hv`, short
flags together; `-n4`. Options end with the first word that is none.

`#SBATCH` lines are read as sbatch reads them, not as a shell would: the line begins with the word,
quotes of both kinds hold together what is between them, a backslash takes the next character as it
is, also in quotes, and `#` outside quotes begins a comment, also within a word. Nothing is
expanded. They end before the first command.

Source: `src/sbatch/opt.c` of Slurm 25.11.
"""

from __future__ import annotations

import re

from radrm.errors import UsageError, plain
from radrm.jobfile.options import BY_NAME as OURS
from radrm.jobfile.parsing import no_option
from radrm.jobfile.record import Record
from radrm.jobfile.slurm.options import (
    BY_NAME,
    BY_VARIABLE,
    MAYBE,
    NONE,
    OF_PYXIS,
    VALUE,
    why_unknown,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from radrm.jobfile.slurm.options import SbatchOption

COMMAND_LINE = "command line"
MOST_LINES = 1000
MOST_CHARACTERS = 8192
_DIRECTIVE = re.compile(r"#(?:SBATCH|SLURM(?=\s+-))")
"""sbatch also takes `#SLURM`. A comment that begins so is one here."""
_PARTS = re.compile(r"\s*(?:hetjob|packjob)(\s|$)", re.IGNORECASE)
_PIECE = re.compile(
    r"""
      (?P<blank> \s+ )
    | (?P<comment> \#.* )
    | (?P<quote> ["'] ) (?P<quoted> (?: \\. | (?!(?P=quote)) [^\\] )* ) (?P=quote)
    | (?P<open> ["'] )
    | (?P<plain> (?: \\. | [^\s"'\#\\] )+ )
    | \\
    """,
    re.VERBOSE | re.DOTALL,
)
_OF_PARTS = "a job of several parts, each on other nodes; submit one job for each part"


class Command(Record):
    """A command of Slurm's: its options by all their long names, and why another one is refused.

    `ours`: options of radrm may stand among them.
    """

    options: Mapping[str, SbatchOption]
    why_unknown: Callable[[str], str]
    ours: bool = True


SBATCH = Command(BY_NAME, why_unknown)


class Given(Record):
    """An option as it was given: its long name, its value (None for none), and where."""

    name: str
    value: str | None
    where: str

    @property
    def typed(self) -> bool:
        """Whether it stood on the command line, and so overrides the script."""
        return self.where == COMMAND_LINE


def directives(text: str, where: str) -> list[Given]:
    """Return the options of the `#SBATCH` lines before the first command. Raises `UsageError`."""
    found: list[Given] = []
    for number, line in enumerate(text.split("\n"), 1):
        if (plain := line.strip()) and not plain.startswith("#"):
            break
        directive = _DIRECTIVE.match(line)
        if directive is None:
            continue
        here = f"{where} line {number}"
        if len(found) >= MOST_LINES or len(line) > MOST_CHARACTERS:
            raise UsageError(
                f"{here}: more than {MOST_LINES} lines, or {MOST_CHARACTERS} characters in one"
            )
        rest = line[directive.end() :]
        if _PARTS.match(rest):
            raise UsageError(f"{here}: {_OF_PARTS}")
        options, words = read(split(rest, here), here)
        if words:
            raise UsageError(f"{here}: {no_option(words[0], '-')}")
        found += options
    return found


def split(text: str, where: str) -> list[str]:
    """Return the words of a `#SBATCH` line. Raises `UsageError` for quotes that are not closed."""
    words: list[str] = []
    word: str | None = None
    for found in _PIECE.finditer(text):
        if found["open"]:
            raise UsageError(f"{where}: no closing quotation; close the quotes")
        if found["comment"]:
            break
        if found["blank"]:
            words += [word] if word else []
            word = None
        else:
            piece = found["quoted"] or found["plain"] or ""
            word = (word or "") + re.sub(r"\\(.)", r"\1", piece, flags=re.DOTALL)
    return [*words, word] if word else words


def of_variables(environment: Mapping[str, str]) -> list[Given]:
    """Return the options of the variables of sbatch, such as `SBATCH_PARTITION`."""
    found = []
    for variable in environment.keys() & BY_VARIABLE.keys():
        option = BY_VARIABLE[variable]
        value = None if option.takes == NONE else environment[variable]
        found.append(Given(option.name, value or None, variable))
    return found


def read(
    words: Sequence[str], where: str, flags: Collection[str] = (), command: Command | None = None
) -> tuple[list[Given], list[str]]:
    """Return the options at the head of a command line, and the words after them.

    `flags`: more options that have no value. `command`: by default `sbatch`. Raises `UsageError`
    for an option without its value.
    """
    command = SBATCH if command is None else command
    short = {each.short: each for each in command.options.values() if each.short}
    found: list[Given] = []
    left = list(words)
    while left and left[0].startswith("-") and left[0] not in ("-", "--"):
        word = left.pop(0)
        given: str | None
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            given = value if equals else None
            own = () if equals and name in command.options else flags  # --cluster=NAME is sbatch's
            name = _in_full(name, where, own, command)
            takes = _takes(name, own, where, command)
            if takes == NONE and given is not None:
                raise UsageError(f"{where}: {spelled(name)} takes no value; leave the value out")
        else:
            option = short.get(word[1])
            name = word[1] if option is None else option.name
            takes = _takes(name, flags, where, command)
            given = word[2:].removeprefix("=") or None
            if takes == NONE and given is not None:  # -Hv
                left.insert(0, f"-{given}")
                given = None
        if given is None and takes == VALUE:
            if left and (not left[0].startswith("-") or len(left[0]) == 1):
                given = left.pop(0)
            else:
                raise UsageError(f"{where}: {spelled(name)} needs a value")
        found.append(Given(name, given, where))
    if left[:1] == [":"]:
        raise UsageError(f"{where}: {_OF_PARTS}")
    if left[:1] == ["--"]:
        left.pop(0)
    return found, left


def _in_full(name: str, where: str, flags: Collection[str], command: Command) -> str:
    """Return the full name of an option, of which the unique beginning may be given.

    Names of others are returned as they are. Raises `UsageError` for an ambiguous one.
    """
    options = command.options
    if name in flags or (command.ours and name in OURS and name not in options):
        return name
    if name in options:
        return options[name].name
    meant = sorted({each.name for known, each in options.items() if known.startswith(name)})
    if len(meant) > 1 and not name.startswith(OF_PYXIS):
        known = ", ".join(map(spelled, meant[:6])) + (", ..." if len(meant) > 6 else "")
        raise UsageError(f"{where}: {spelled(name)} is ambiguous: {known}; write it in full")
    return meant[0] if meant else name


def _takes(name: str, flags: Collection[str], where: str, command: Command) -> str:
    """Whether an option has a value. Raises `UsageError` for one that nobody knows."""
    if name in flags:
        return NONE
    if name in command.options:
        return command.options[name].takes
    if command.ours and (ours := OURS.get(name)) is not None:
        return NONE if ours.metavar is None else VALUE if ours.bare is None else MAYBE
    raise UsageError(f"{where}: {spelled(name)}: {command.why_unknown(name)}")


def spelled(name: str) -> str:
    """Return an option as it is written, as plain text of limited length."""
    return f"-{plain(name)}" if len(name) == 1 else f"--{plain(name[:40])}"


# ------------------------------------------------------------------
# What jobs find of Slurm: variables that repeat an option of sbatch, also a meaningless one.
#
# Source: sbatch(1) of Slurm 25.11, "Output environment variables": those "same as" an option.


STEPS = ".radrm-steps"
"""The file in a job's folder for checkpoints by which its steps know of each other. It is removed
with the folder."""

_SAME_AS = {
    "account": "SLURM_JOB_ACCOUNT",
    "qos": "SLURM_JOB_QOS",
    "reservation": "SLURM_JOB_RESERVATION",
    "dependency": "SLURM_JOB_DEPENDENCY",
    "distribution": "SLURM_DISTRIBUTION",
    "gpu-bind": "SLURM_GPU_BIND",
    "gpu-freq": "SLURM_GPU_FREQ",
    "gpus-per-socket": "SLURM_GPUS_PER_SOCKET",
    "ntasks-per-core": "SLURM_NTASKS_PER_CORE",
    "ntasks-per-socket": "SLURM_NTASKS_PER_SOCKET",
    "profile": "SLURM_PROFILE",
    "threads-per-core": "SLURM_THREADS_PER_CORE",
    "tres-per-task": "SLURM_TRES_PER_TASK",
}


def repeated(given: Mapping[str, Given]) -> dict[str, str]:
    """Return the variables of these options."""
    found = {_SAME_AS[name]: each.value for name, each in given.items() if name in _SAME_AS}
    return {name: value for name, value in found.items() if value is not None}
