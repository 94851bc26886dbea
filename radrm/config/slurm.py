"""Checks of the settings `[slurm]`."""

from __future__ import annotations

import re
from typing import Any

from radrm.config import values as v
from radrm.core.units import parse_mib

_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
_MOST_MIB = 1 << 24


def _name(value: Any, place: v.Place) -> str:
    """Return a name of Slurm's: it becomes a word of its commands."""
    if not isinstance(value, str) or not re.fullmatch(_NAME, value):
        raise v.wrong(place, 'a name of letters, digits, _ and -, as in "shared"', value)
    return value


def _node(value: Any, place: v.Place) -> str:
    """Return a node's name, or nothing."""
    return "" if value == "" else _name(value, place)


def _memory(value: Any, place: v.Place) -> str:
    """Return a size of GPU memory as text."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    try:
        if not (whole or isinstance(value, str)) or not 1 <= parse_mib(str(value)) <= _MOST_MIB:
            raise ValueError
    except ValueError:
        raise v.wrong(place, 'a size of GPU memory, as in "6G"', value) from None
    return str(value)


def _home(value: Any, place: v.Place) -> str:
    """Return an absolute folder; `%n` in it is the node's name."""
    sound = isinstance(value, str) and value.isprintable()
    if not sound or (value != "" and not value.startswith("/")):
        raise v.wrong(place, 'an absolute folder, as in "/var/lib/radrm-%n"', value)
    return str(value)


SLURM: dict[str, v.Check] = {
    **dict.fromkeys(("enabled", "only", "fence"), v.switch),
    **dict.fromkeys(("partition", "gres"), _name),
    "node": _node,
    "default_gpumem": _memory,
    "local_wait_s": v.between(1, 31_536_000),
    "home": _home,
}
