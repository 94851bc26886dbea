"""Whether a job starts its program with `radrun`, as its script or its command says.

Theory of operation. The script is not run, and a shell's grammar is not decided in full. It is cut
into simple commands: at line ends, `;`, `&`, `|` and parentheses, without comments, here-documents
and what quotes hold. A command is the word behind assignments (`A=1`), keywords (`then`) and
programs that run another one (`exec`, `env`, `timeout`). So `echo radrun` and `# radrun` do not
count. A name in a variable (`$LAUNCHER`) is not found, nor is one in another language than a
shell's: such a job needs `--checkpoint`.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_RADRUN = "radrun"
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
_KEYWORDS = frozenset({"if", "then", "elif", "else", "do", "while", "until", "!", "{", "time"})
_RUN_ANOTHER = frozenset(
    {
        *("builtin", "chrt", "command", "conda", "env", "exec", "ionice", "mamba", "micromamba"),
        *("nice", "nohup", "numactl", "pdm", "pipenv", "pixi", "poetry", "setsid", "stdbuf"),
        *("taskset", "timeout", "uv"),
    }
)
"""Programs of which a later word may be the program that they run."""
_MOST_MISSING = 50
_MOST_PIECES = 100_000
"""Pieces of a script that are read, in 0.1 s: a launcher stands before more of them."""
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_PIECE = re.compile(
    r"""
      (?P<joined> \\\n )
    | (?P<comment> (?<![^\s;&|()`]) \#[^\n]* )
    | (?P<here> <<-?[ \t]*(?P<quote>['"]?)(?P<end>[\w.-]+)(?P=quote) )
    | (?P<cut> [;&|()`\n] )
    | (?P<blank> [ \t\r]+ )
    | '(?P<single>[^']*)'
    | "(?P<double>(?:\\.|[^"\\])*)"
    | \\(?P<escaped>.)
    | (?P<plain> <<< | [^\s;&|()`'"\\<\#]+ | . )
    """,
    re.VERBOSE | re.DOTALL,
)


def runs_radrun(script: str | None, interpreter: Sequence[str], argv: Sequence[str]) -> bool:
    """Return whether a command of the script, or the command `argv`, is `radrun`.

    `interpreter` has the words of the script's interpreter.
    """
    if script is None:
        return _is_radrun(argv)
    names = {_base(word) for words in interpreter for word in words.split()}
    return bool(names & _SHELLS) and any(map(_is_radrun, _commands(script)))


def _is_radrun(words: Sequence[str]) -> bool:
    rest = iter(words)
    for word in rest:
        name = _base(word)
        if name == _RADRUN:
            return True
        if name in _SHELLS:
            return _in_shell(list(rest))
        if name in _RUN_ANOTHER:
            return _RADRUN in map(_base, rest)
        if name not in _KEYWORDS and not _ASSIGNMENT.match(word):
            return False
    return False


def _in_shell(words: Sequence[str]) -> bool:
    """Return whether a shell with these arguments runs `radrun`: `bash -c 'radrun train.py'`."""
    for place, word in enumerate(words[:-1]):
        if not word.startswith("-"):
            return False
        if not word.startswith("--") and "c" in word:
            return any(map(_is_radrun, _commands(words[place + 1])))
    return False


def _base(word: str) -> str:
    return word.rpartition("/")[2]


def _commands(text: str) -> Iterator[list[str]]:
    """Return the simple commands of a shell script, as words without their quotes."""
    if _RADRUN not in text:
        return
    words: list[str] = []
    word: str | None = None
    ends: list[str] = []
    missing: set[str] = set()
    place = 0
    for _ in range(_MOST_PIECES):
        found = _PIECE.match(text, place)
        if found is None:
            break
        place = found.end()
        kind = found.lastgroup
        if kind in ("single", "double", "escaped", "plain"):
            word = (word or "") + found[kind]
            continue
        if kind in ("blank", "cut", "here") and word is not None:
            words.append(word)
            word = None
        if kind == "here":
            ends.append(found["end"])
        elif kind == "cut":
            yield words
            words = []
            if found["cut"] == "\n" and ends:
                place = _after_documents(text, place, ends, missing)
                ends = []
    yield words if word is None else [*words, word]


def _after_documents(text: str, place: int, ends: Sequence[str], missing: set[str]) -> int:
    """Return the place behind the here-documents that begin at `place`.

    One without its last line is none: `<<` was a shift, as in `$((1 << n))`. `missing` keeps those
    ends that no later line is, so that the text is not searched for them again; from
    `_MOST_MISSING` on, none is searched for.
    """
    for end in ends:
        if end in missing or len(missing) >= _MOST_MISSING:
            continue
        found = re.compile(rf"^\t*{re.escape(end)}\r?$", re.MULTILINE).search(text, place)
        if found is None:
            missing.add(end)
        else:
            place = found.end()
    return place
