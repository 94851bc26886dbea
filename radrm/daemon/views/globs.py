"""Match many globs against one name in one pass, without backtracking.

The places of all patterns are the bits of one number, and a character of the name moves them
all at once (the "Shift-And" method: Baeza-Yates and Gonnet, CACM 35(10), 1992). So the cost of a
name is its length times the length of the patterns in machine words, for any number of stars.
No pattern of a user can make a match slow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import translate

from radrm.errors import UsageError

MAX_PATTERN = 256
MAX_GLOBS = 100
MAX_SETS = 100
"""Different `[...]` in one request: each is tested for each new character."""
_MAX_CHARACTERS = 4096
"""Characters whose matches are cached."""


def is_glob(word: str) -> bool:
    """Whether a word may mean several names."""
    return any(character in word for character in "*?[")


class Globs:
    """The patterns of one request, as of the shell: `*`, `?`, `[abc]`, `[!abc]`."""

    def __init__(self, patterns: Sequence[str]) -> None:
        """Raises `UsageError` for more patterns than a request may have."""
        if len(patterns) > MAX_GLOBS:
            raise UsageError(
                f"the request has {len(patterns)} globs, and {MAX_GLOBS} is the most; "
                "ask in several requests"
            )
        self._starts = self._loops = self._ends = self._any = 0
        self._literal: dict[str, int] = {}
        self._sets: dict[str, int] = {}
        self._pattern_of: dict[int, int] = {}
        place = 0
        for number, pattern in enumerate(patterns):
            self._starts |= 1 << place
            for token in _tokens(pattern):
                bit = 1 << place
                if token == "*":
                    self._loops |= bit
                    continue
                if token == "?":
                    self._any |= bit
                else:
                    kind = self._sets if len(token) > 1 else self._literal
                    kind[token] = kind.get(token, 0) | bit
                place += 1
            self._ends |= 1 << place
            self._pattern_of[place] = number
            place += 1
        if len(self._sets) > MAX_SETS:
            raise UsageError(f"the globs of the request have more than {MAX_SETS} different [...]")
        self._accepts: list[tuple[Callable[[str], object], int]] = [
            (re.compile(translate(token)).match, bits) for token, bits in self._sets.items()
        ]
        self._moves: dict[str, int] = {}

    def matching(self, name: str) -> tuple[int, ...]:
        """The numbers of the patterns that match the whole name, in their order."""
        state, loops = self._starts, self._loops
        for character in name:
            moves = self._moves.get(character)
            if moves is None:
                moves = self._move(character)
            state = ((state & moves) << 1) | (state & loops)
            if not state:
                return ()
        return tuple(self._pattern_of[place] for place in _places(state & self._ends))

    def _move(self, character: str) -> int:
        """The places that match this character."""
        if len(self._moves) >= _MAX_CHARACTERS:
            self._moves.clear()
        moves = self._any | self._literal.get(character, 0)
        for accepts, bits in self._accepts:
            if accepts(character):
                moves |= bits
        self._moves[character] = moves
        return moves


def _places(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _tokens(pattern: str) -> Iterable[str]:
    """Single characters and whole sets `[...]`, read as `fnmatch` reads them."""
    at = 0
    while at < len(pattern):
        end = _end_of_set(pattern, at) if pattern[at] == "[" else at
        if end > at:
            yield pattern[at : end + 1]
        else:
            # A bracket that opens no set is a literal of one character.
            yield pattern[at]
        at = end + 1


def _end_of_set(pattern: str, at: int) -> int:
    """The place of the bracket that closes this set; `at` itself if there is none."""
    first = at + 1 + (pattern[at + 1 : at + 2] == "!")
    end = pattern.find("]", first + 1)
    return at if end < 0 else end
