"""Check single values. Each check returns the value, or raises `BadConfig` with its place."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any

from msgspec import Struct

from radrm.core.units import parse_mib
from radrm.core.words import Collocation
from radrm.errors import BadConfig, plain
from radrm.jobfile.targets import KINDS, target_of

Table = Mapping[str, Any]
_SHORTEST_UUID = 8
_LONGEST_GRACE_S = 365 * 86400
_SHORTEST_SLOT_S = 60
_MOST_PRICE = 1e6
_MOST_WATTS = 1e6
_MOST_GPUS = 1024
MOST_CPUS = 65536
MOST_MEMORY_MIB = 1 << 30
_MOST_PLANNERS = 16
_DEEPEST = 20
_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
_MOST_MIB = 1 << 24
_MOST_TARGETS = 8
_MOST_SHOWN = 120
"""Characters of a wrong value that an error shows."""
_LONGEST_KEY = 60
_JOINS = frozenset("+,")
"""The characters that join or separate planners on the command line."""


class Place(Struct, frozen=True):
    """A key of a source, and the list of all errors found in that source."""

    source: str
    errors: list[str]
    key: str = ""

    def __str__(self) -> str:
        return f"{self.source}: {self.key}"

    def at(self, key: str) -> Place:
        key = in_short(key)
        return Place(self.source, self.errors, f"{self.key}.{key}" if self.key else key)


Check = Callable[[Any, Place], Any]
"""Returns the usable part of a value, or raises `BadConfig` if there is none.

A check of a table adds the errors inside the table to the place's list, and returns the rest.
"""


def wrong(place: Place, expected: str, value: object) -> BadConfig:
    """Return the error for a value that is not what the key expects."""
    return BadConfig(f"{place} must be {expected}, not {shown(value)}")


def in_short(text: str) -> str:
    """Return the beginning of a key or a setting, on one line."""
    return plain(text if len(text) <= _LONGEST_KEY else f"{text[:_LONGEST_KEY]}...")


def shown(value: object) -> str:
    """Return a value for an error: a long one without its end."""
    try:
        found = repr(value)
    except ValueError:  # Python writes no whole number of thousands of digits
        return "so large a number"
    return found if len(found) <= _MOST_SHOWN else f"{found[:_MOST_SHOWN]}..."


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown word: the nearest known one, or all of them."""
    import difflib  # late: no command line that is right needs it

    names = list(known)
    found = difflib.get_close_matches(word, names, n=1)
    if found:
        return f"did you mean '{found[0]}'?"
    return f"known are: {', '.join(names)}" if names else "this table has no settings; remove it"


# ------------------------------------------------------------------ tables


def too_deep(value: Any) -> bool:
    """Return whether tables and lists in it are nested so deeply that nothing can work on them."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for each in level
            if isinstance(each, (dict, list))
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


def table(value: Any, place: Place) -> Table:
    if not isinstance(value, dict):
        raise wrong(place, "a table of settings", value)
    return value


def known(given: Table, checks: Mapping[str, Check], place: Place) -> dict[str, Any]:
    """Return the values that pass the check of their key."""
    sound: dict[str, Any] = {}
    for key, value in given.items():
        here = place.at(key)
        try:
            if key not in checks:
                raise BadConfig(f"{here.source}: unknown key '{here.key}'; {nearest(key, checks)}")
            sound[key] = checks[key](value, here)
        except BadConfig as error:
            here.errors.append(str(error))
    return sound


def settings(checks: Mapping[str, Check], make: Callable[..., Any] = dict) -> Check:
    """Return a check of a table with these settings; `make` gets those that pass, by name."""

    def check_table(value: Any, place: Place) -> Any:
        return make(**known(table(value, place), checks, place))

    return check_table


def every(check: Check) -> Check:
    """Return a check of tables with any keys, whose values all pass `check`."""

    def check_table(value: Any, place: Place) -> dict[str, Any]:
        given = table(value, place)
        return known(given, dict.fromkeys(given, check), place)

    return check_table


# ------------------------------------------------------------------ words and numbers


def reads(expected: str, read: Callable[[Any], Any]) -> Check:
    """Return a check whose values are what `read` returns, which raises ValueError for all others.

    `expected` says in an error what the values are.
    """

    def check(value: Any, place: Place) -> Any:
        try:
            return read(value)
        except (ValueError, TypeError, OverflowError, OSError):
            raise wrong(place, expected, value) from None

    return check


def _if(sound: object, value: Any) -> Any:
    if not sound:
        raise ValueError
    return value


def _text(value: Any) -> str:
    return str(_if(isinstance(value, str) and value.isprintable(), value))


def _amount(value: Any) -> float:
    return float(_if(type(value) in (int, float) and math.isfinite(value), value))


def _each(test: Callable[[Any], bool]) -> Callable[[Any], tuple[str, ...]]:
    return lambda value: tuple(
        map(str, _if(isinstance(value, list) and all(map(test, value)), value))
    )


name = reads('a name in quotes, as in "magm"', lambda v: _if(isinstance(v, str) and v, v))


def planners(value: Any, place: Place) -> tuple[str, ...]:
    """Return the names of planners, from a list or a word: `strict+mine`."""
    named = value.split("+") if isinstance(value, str) else value
    if not isinstance(named, (list, tuple)) or not 0 < len(named) <= _MOST_PLANNERS:
        raise wrong(place, 'a name, or a list of names, as in ["strict", "mine"]', value)
    found = tuple(name(each, place) for each in named)
    for each in found:
        if found.count(each) > 1:
            raise BadConfig(f"{place} names {shown(each)} twice; name each planner once")
        if set(each) & _JOINS:
            raise BadConfig(
                f"{place}: {shown(each)} is no planner's name; + joins planners that run together, "
                "and commas separate variants of radrm compare and replay"
            )
    return found


def choice(*choices: str) -> Callable[[Any, Place], str]:
    def check(value: Any, place: Place) -> str:
        if value not in choices:
            import difflib

            near = difflib.get_close_matches(str(value), choices, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise BadConfig(
                f"{place} must be one of {', '.join(choices)}, not {shown(value)}{hint}"
            )
        return str(value)

    return check


def collocation(value: Any, place: Place) -> Collocation:
    return Collocation(choice("auto", "exclusive", "timeslice", "mps")(value, place))


number = reads(
    "a number that is finite", lambda v: _if(isinstance(v, (int, float)) and math.isfinite(v), v)
)
"""Also a switch: the core's settings say which of the two a key takes."""
switch = reads("true or false", lambda v: _if(isinstance(v, bool), v))


def between(low: float, high: float) -> Check:
    expected = f"a number from {low:g} to {high:.10g}"
    return reads(expected, lambda v: _if(low <= _amount(v) <= high, float(v)))


def whole(low: int, high: int) -> Check:
    expected = f"a whole number from {low} to {high}"
    return reads(expected, lambda v: _if(type(v) is int and low <= v <= high, v))


def none_or(check: Check) -> Check:
    """Return a check that also takes 0, which stands for no limit."""

    def check_value(value: Any, place: Place) -> Any:
        if type(value) in (int, float) and value == 0:
            return type(value)(0)
        return check(value, place)

    return check_value


grace = reads(
    "seconds from 0 to a year", lambda v: _if(0 <= _amount(v) <= _LONGEST_GRACE_S, float(v))
)
slot = reads(
    "0 (none) or seconds from 60 to a year, as in 43200",
    lambda v: _if(v == 0 or _SHORTEST_SLOT_S <= v <= _LONGEST_GRACE_S, _amount(v)),
)


def price(value: Any, place: Place) -> Any:
    """Return a price, or a table of prices by the time of the day from which they hold."""
    if not isinstance(value, dict):
        return _one_price(value, place)
    found = {minutes_of(key, place): _one_price(each, place.at(key)) for key, each in value.items()}
    if len(found) < len(value):
        raise BadConfig(f"{place} names a time of the day twice")
    if 0 not in found:
        first = f" to {min(value)}" if value else ""
        raise BadConfig(f'{place} has no price from 00:00{first}; add one, as in "00:00" = 0.18')
    return {f"{at // 60:02}:{at % 60:02}": found[at] for at in sorted(found)}


def minutes_of(value: Any, place: Place) -> int:
    """Return the minutes since midnight of a time as `06:30`."""
    hours, _, minutes = str(value).partition(":")
    plain = hours.isdecimal() and minutes.isdecimal() and len(hours) <= 2 == len(minutes)
    if not plain or int(hours) > 23 or int(minutes) > 59:
        raise BadConfig(f'{place}: {shown(value)} is no time of the day, as in "06:00" = 0.31')
    return int(hours) * 60 + int(minutes)


_one_price = reads(
    f"a price from 0 to {_MOST_PRICE:.10g}, as in 0.25",
    lambda v: _if(0 <= _amount(v) <= _MOST_PRICE, float(v)),
)


def node_watts(value: Any, place: Place) -> dict[str, tuple[float, ...]]:
    """Return the power of a server by the number of its GPUs in use, for each type of GPU."""
    found: dict[str, tuple[float, ...]] = {}
    for kind, listed in table(value, place).items():
        sound = isinstance(listed, list) and 0 < len(listed) <= _MOST_GPUS
        watts = [number(each, place) for each in listed] if sound else []
        rising = all(0 < one <= other for one, other in pairwise(watts))
        if not watts or not rising or not 0 < watts[0] <= watts[-1] <= _MOST_WATTS:
            expected = "watts for 1, 2, ... GPUs in use, none less than the one before"
            raise wrong(place, f"{expected}, as in {{ V100 = [530, 700] }}", listed)
        found[kind] = tuple(watts)
    return found


currency = reads(
    'a short name, as in "EUR"', lambda v: _if(0 < len(_text(v).strip()) <= 8, v.strip())
)
cpus = reads(
    f'"auto" or a number from 0.01 to {MOST_CPUS}',
    lambda v: v if v == "auto" else _if(0.01 <= _amount(v) <= MOST_CPUS, float(v)),
)


def _size(value: Any, least_mib: int, most_mib: int) -> str:
    text = str(_if(type(value) is int or isinstance(value, str), value))
    return str(_if(least_mib <= parse_mib(text) <= most_mib, text))


host_memory = reads(
    '"auto" or a size up to 1048576G, as in "480G"',
    lambda v: v if v == "auto" else _size(v, 0, MOST_MEMORY_MIB),
)


# ------------------------------------------------------------------ GPUs, names, addresses


def _is_gpu_name(word: Any) -> bool:
    if isinstance(word, int) and not isinstance(word, bool):
        return word >= 0
    return isinstance(word, str) and word.isprintable() and any(c.isalnum() for c in word)


def _is_gpu(word: Any) -> bool:
    if isinstance(word, int) and not isinstance(word, bool):
        return word >= 0
    return isinstance(word, str) and len(word) >= _SHORTEST_UUID and word.isprintable()


gpus = reads(
    'true or false, or a list of GPU indices and UUIDs, as in [0, "GPU-1a2b3c4d"]',
    lambda v: v if isinstance(v, bool) else _each(_is_gpu)(v),
)
gpu_names = reads('a list of GPU indices and UUIDs, as in [0, "GPU-1a2b3c4d"]', _each(_is_gpu))
gpu_order = reads('a list of GPU types, indices and UUIDs, as in ["a100", 0]', _each(_is_gpu_name))
names = reads(
    'a list of names, as in ["ollama"]',
    _each(
        lambda word: isinstance(word, str) and word.isprintable() and word != "" and "/" not in word
    ),
)


def _moment(value: Any) -> str:
    text = value.isoformat() if isinstance(value, datetime) else value
    if text != "":
        datetime.fromisoformat(text).timestamp()
    return str(text)


moment = reads('a date and time, as in "2030-01-31T18:00"', _moment)
"""As text, or nothing. A file may have it with quotes or without."""


def _loopback_url(value: Any) -> str:
    import ipaddress
    from urllib.parse import urlsplit

    parts = urlsplit(_text(value))
    host, _ = parts.hostname or "", parts.port
    local = host == "localhost" or ipaddress.ip_address(host).is_loopback
    return str(_if(local and parts.scheme == "http" and not parts.username, value))


loopback_url = reads(
    'an http address of this machine, as in "http://127.0.0.1:9400/metrics"', _loopback_url
)
"""radrm reads no metrics from other machines."""


# ------------------------------------------------------------------ Slurm, notices


_A_NAME = 'a name of letters, digits, _ and -, as in "shared"'
slurm_name = reads(_A_NAME, lambda v: _if(re.fullmatch(_NAME, v), v))
"""A name of Slurm's: it becomes a word of its commands."""
slurm_node = reads(_A_NAME, lambda v: _if(v == "" or re.fullmatch(_NAME, v), v))
gpu_memory = reads('a size of GPU memory, as in "6G"', lambda v: _size(v, 1, _MOST_MIB))
home = reads(
    'an absolute folder, as in "/var/lib/radrm-%n"',
    lambda v: _if(_text(v)[:1] in ("", "/"), v),
)
targets = reads(
    f'a list of at most {_MOST_TARGETS} targets as --notify takes them, as in ["mail:fail"]',
    lambda v: _if(
        isinstance(v, list) and len(v) <= _MOST_TARGETS and all(target_of(_text(w)) for w in v),
        tuple(v),
    ),
)
kinds = reads(
    f"a list of {', '.join(KINDS)}",
    lambda v: tuple(dict.fromkeys(_each(lambda word: word in KINDS)(v))),
)


def _is_mail(address: str) -> bool:
    target = target_of(address)
    return target.kind == "mail" and target.address == address


sender = reads('a mail address, or ""', lambda v: _if(v == "" or _is_mail(_text(v)), v))
domain = reads(
    'a domain such as example.org, or ""',
    lambda v: _if(v == "" or _is_mail(f"user@{_text(v)}"), v),
)
