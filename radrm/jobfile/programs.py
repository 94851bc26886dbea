"""The programs that a job names, and whether one of them may train a model.

Only the text is read. An unknown program may train a model, and a trace of it shows whether it
does. So a job is ruled out only if all of its programs are well known and never train.
"""

from __future__ import annotations

import re
from itertools import islice

from radrm.jobfile import shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from radrm.jobfile.radfile import JobFile

_MOST_COMMANDS = 20_000
_DEEPEST = 4
"""Texts for a shell within each other that are read."""

_BEFORE = frozenset(
    {"env", "exec", "command", "builtin", "nice", "nohup", "time", "timeout", "stdbuf"}
)
"""Programs that run the program after them; the words between are options and assignments."""
_NUMBER = re.compile(r"[0-9.]+[smhd]?")
_WORDS = """
    : [ [[ alias bg break case cd continue declare dirs disown done echo elif else esac exit export
    false fg fi for function getopts hash in jobs let local popd printf pushd pwd read readonly
    return select set shift shopt test then trap true type ulimit umask unalias unset until wait
    while } {
    awk basename cat chmod chown cksum cmp conda cp curl cut date df diff dirname du expr file find
    free grep gunzip gzip head hostname id kill ls lscpu lspci mamba md5sum micromamba mkdir mkfifo
    mktemp module mv nproc nvcc nvidia-smi pgrep pkill ps readlink realpath rm rmdir rsync scp sed
    seq sha256sum sleep sort squeue ssh stat sync tail tar tee touch tr tty uname uniq unzip uptime
    wc wget which whoami xz zip radrm radrm-simjob
"""
NEVER_TRAINS = frozenset(_WORDS.split())
"""What shells do themselves, and programs that no model is trained in."""
_SOURCES = frozenset({".", "source"})
_PREPARES = frozenset(
    {"activate", "conda.sh", "modules.sh", ".bashrc", ".bash_profile", ".profile"}
)
"""Files that a script takes its environment from."""
_RUNS = {"conda": "run", "mamba": "run", "micromamba": "run"}
"""Programs above with a word after which they run another program."""


def may_train(job_file: JobFile) -> bool:
    """Return whether the text of a job names a program that may train a model."""
    if job_file.script is not None:
        words = [shell.base(word) for word in job_file.interpreter_words()]
        if job_file.interpreter is not None and not shell.SHELLS & set(words):
            return True  # a program in another language, such as Python
        return any(map(_trains, programs(job_file.script)))
    return any(map(_trains, _of_words(job_file.argv, _DEEPEST)))


def programs(text: str, depth: int = _DEEPEST) -> Iterator[tuple[str, ...]]:
    """Yield the words of each command of a script, from its program on."""
    for step in islice(shell.steps(text), _MOST_COMMANDS):
        yield from _of_words(step.program, depth)


def _of_words(words: Sequence[str], depth: int) -> Iterator[tuple[str, ...]]:
    """Yield a command without what only starts it, or the commands of its text for a shell."""
    found = tuple(words)
    while found and shell.base(found[0]) in _BEFORE:
        found = found[1:]
        while found and _is_aside(found[0]):
            found = found[1:]
    text = shell.text_for_shell(found)
    if text is not None and depth:
        yield from programs(text, depth - 1)
    elif found:
        yield found


def _is_aside(word: str) -> bool:
    """Return whether a word before a program is an option or an assignment."""
    return word.startswith("-") or shell.is_assignment(word) or bool(_NUMBER.fullmatch(word))


def _trains(words: tuple[str, ...]) -> bool:
    name = shell.base(words[0])
    if name in _SOURCES:
        return not (len(words) > 1 and shell.base(words[1]) in _PREPARES)
    runs = _RUNS.get(name)
    return name not in NEVER_TRAINS or (runs is not None and runs in words[1:])
