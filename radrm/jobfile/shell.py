"""The simple commands of a shell script, and what is only data in it. The script is not run.

Theory of operation. A shell's grammar is not decided in full. The text is cut into pieces: blanks,
comments, quoted texts, and the characters that end a command: line ends, `;`, `&`, `|` and
parentheses. The here-documents of a line begin behind it, and end with their last lines; one
without its last line is none: `<<` was a shift, as in `$((1 << n))`. So `echo radrun` and
`# radrun` are no commands named radrun, and a line of a here-document is no comment.
"""

from __future__ import annotations

from radrm.jobfile.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Piece = tuple[str, str, int, int]

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
KEYWORDS = frozenset({"if", "then", "elif", "else", "do", "while", "until", "!", "{", "time"})
"""Words before a command."""
_MOST_MISSING = 50
_MOST_PIECES = 100_000
"""Pieces of a script that are read, in 0.1 s: what is looked for stands before more of them."""
_PIECE = r"""(?xs)
      (?P<joined> \\\n )
    | (?P<comment> (?<![^\s;&|()`]) \#[^\n]* )
    | (?P<here> <<-?[ \t]*(?P<quote>['"]?)(?P<end>[\w.-]+)(?P=quote) )
    | (?P<cut> [;&|()`\n] )
    | (?P<blank> [ \t\r]+ )
    | \$'(?P<ansi>(?:\\.|[^'\\])*)'
    | '(?P<single>[^']*)'
    | "(?P<double>(?:\\.|[^"\\])*)"
    | \\(?P<escaped>.)
    | (?P<plain> <<< | [^\s;&|()`'"\\<\#$]+ | . )
    """
_ENDS = r"(?P<word>\(\((?:[^()\n]|\([^()\n]*\)){0,500}\)\)|&>>?)|&&|\|\||\|&|;;&?|;&|[;&|()`\n]"
"""What ends a command; `word`: what only looks like it, a sum or a redirection."""
_OF_WORDS = ("ansi", "single", "double", "escaped", "plain")
_DOCUMENT = "document"


class Step(Record):
    """A simple command and what ends it: `&`, `&&`, `|`, `;`, `(`, `)`, a line end, or nothing."""

    words: tuple[str, ...]
    end: str

    @property
    def program(self) -> tuple[str, ...]:
        """The words from its program on, without keywords and assignments before that."""
        words = self.words
        while words and (words[0] in KEYWORDS or is_assignment(words[0])):
            words = words[1:]
        return words


def is_assignment(word: str) -> bool:
    """True for a word that begins with `NAME=`, `NAME+=` or `NAME[INDEX]=`."""
    name, equals, _ = word.partition("=")
    name = name.removesuffix("+")
    name = name.partition("[")[0] if name.endswith("]") else name
    return bool(equals) and name.isascii() and name.isidentifier()


def steps(text: str) -> Iterator[Step]:
    """Yield the simple commands, and how each ends. Some have no words, as between `)` and `;`.

    An `&` of `2>&1` and `&>` ends none, nor does what stands in `$((...))`.
    """
    import re  # `submit` imports this file, and reads few scripts

    words: list[str] = []
    word: str | None = None
    behind = 0
    ends = re.compile(_ENDS)
    for kind, piece, start, end in _pieces(text):
        if start < behind:
            continue
        cut = ends.match(text, start) if kind == "cut" else None
        redirects = piece == "&" and text[max(0, start - 1) : start] in ("<", ">")
        if cut is not None and (redirects or cut["word"]):
            behind = end if redirects else cut.end()
            word = (word or "") + text[start:behind]
            continue
        if kind in _OF_WORDS:
            word = (word or "") + piece
            continue
        if kind in ("blank", "cut", "here") and word is not None:
            words.append(word)
            word = None
        if cut is not None:
            behind = cut.end()
            yield Step(tuple(words), cut[0])
            words = []
    yield Step(tuple(words if word is None else [*words, word]), "")


def text_for_shell(words: Sequence[str]) -> str | None:
    """Return the text that a command gives to a shell, as `bash -c 'python train.py'`; or None."""
    if not words or base(words[0]) not in SHELLS:
        return None
    for place, word in enumerate(words[1:-1], 1):
        if not word.startswith("-"):
            return None
        if not word.startswith("--") and "c" in word:
            return words[place + 1]
    return None


def base(word: str) -> str:
    """Return the name of a program without its folder."""
    return word.rpartition("/")[2]


def spans_of_data(text: str) -> list[tuple[int, int]]:
    """Return where texts in quotes and here-documents begin and end, in order."""
    kinds = ("ansi", "single", "double", _DOCUMENT)
    return [(start, end) for kind, _, start, end in _pieces(text) if kind in kinds]


def _pieces(text: str) -> Iterator[Piece]:
    """Yield the kind, the text, and the place of each piece; of a document without its text.

    A document begins with the line end before it.
    """
    import re

    ends: list[str] = []
    missing: set[str] = set()
    place = 0
    pieces = re.compile(_PIECE)
    for _ in range(_MOST_PIECES):
        found = pieces.match(text, place)
        if found is None:
            return
        start, place = found.span()
        kind = found.lastgroup or ""
        yield kind, found[kind] or "", start, place
        if kind == "here":
            ends.append(found["end"])
        elif kind == "cut" and found["cut"] == "\n" and ends:
            behind = _after_documents(text, place, ends, missing)
            if behind > place:
                yield _DOCUMENT, "", place - 1, behind
            place, ends = behind, []


def _after_documents(text: str, place: int, ends: Sequence[str], missing: set[str]) -> int:
    """Return the place behind the here-documents that begin at `place`.

    `missing` keeps those ends that no later line is, so that the text is not searched for them
    again; from `_MOST_MISSING` on, none is searched for.
    """
    import re

    for end in ends:
        if end in missing or len(missing) >= _MOST_MISSING:
            continue
        found = re.compile(rf"^\t*{re.escape(end)}\r?$", re.MULTILINE).search(text, place)
        if found is None:
            missing.add(end)
        else:
            place = found.end()
    return place
