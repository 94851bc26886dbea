"""Tickets: ULIDs, 26 letters and digits that sort by the time they were drawn.

48 bits of milliseconds, 80 bits of chance, in Crockford's base 32. Those that one
process draws within a millisecond count up, so they sort in the order of drawing:
the files of one `radrm submit` keep their order in the queue.
"""

from __future__ import annotations

import os

from radrm.host.wall import wall_s

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LETTERS = frozenset(_ALPHABET)
LENGTH = 26


_last = 0


def new_ticket() -> str:
    global _last
    number = int(wall_s() * 1000) << 80 | int.from_bytes(os.urandom(10), "big")
    if number >> 80 <= _last >> 80:
        number = _last + 1
    _last = number
    return "".join(_ALPHABET[number >> 5 * place & 31] for place in range(LENGTH - 1, -1, -1))


def is_ticket(text: str) -> bool:
    return len(text) == LENGTH and _LETTERS.issuperset(text) and text[0] <= "7"


def drawn_s(ticket: str) -> float:
    """When a ticket was drawn, in epoch seconds, by the clock of the process that drew it."""
    number = 0
    for letter in ticket:
        number = number << 5 | _ALPHABET.index(letter)
    return (number >> 80) / 1000
