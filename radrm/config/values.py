"""Check single values. Each check returns the value, or raises `BadConfig` with its place."""

from __future__ import annotations

import difflib
import ipaddress
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from radrm.core.units import parse_mib
from radrm.core.words import Collocation
from radrm.errors import BadConfig, plain
from radrm.jobfile.targets import KINDS, Target, target_of

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


def name(value: Any, place: Place) -> str:
    if not isinstance(value, str) or not value:
        raise wrong(place, 'a name in quotes, as in "magm"', value)
    return value


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
            near = difflib.get_close_matches(str(value), choices, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise BadConfig(
                f"{place} must be one of {', '.join(choices)}, not {shown(value)}{hint}"
            )
        return str(value)

    return check


def collocation(value: Any, place: Place) -> Collocation:
    return Collocation(choice("auto", "exclusive", "timeslice", "mps")(value, place))


def number(value: Any, place: Place) -> float:
    """Return a number or a switch. The core's settings say which of the two a key takes."""
    if not isinstance(value, (int, float)):
        raise wrong(place, "a number", value)
    try:
        finite = math.isfinite(value)
    except OverflowError:  # a whole number that no float holds
        raise BadConfig(f"{place} is too large a number") from None
    if not finite:
        raise wrong(place, "a finite number", value)
    return value


def switch(value: Any, place: Place) -> bool:
    if not isinstance(value, bool):
        raise wrong(place, "true or false", value)
    return value


def between(low: float, high: float) -> Callable[[Any, Place], float]:
    def check(value: Any, place: Place) -> float:
        if isinstance(value, bool) or not low <= number(value, place) <= high:
            raise wrong(place, f"a number from {low:g} to {high:.10g}", value)
        return float(value)

    return check


def whole(low: int, high: int) -> Callable[[Any, Place], int]:
    def check(value: Any, place: Place) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise wrong(place, f"a whole number from {low} to {high}", value)
        return value

    return check


def none_or(check: Check) -> Check:
    """Return a check that also takes 0, which stands for no limit."""

    def check_value(value: Any, place: Place) -> Any:
        if type(value) in (int, float) and value == 0:
            return type(value)(0)
        return check(value, place)

    return check_value


def grace(value: Any, place: Place) -> float:
    seconds = None if isinstance(value, bool) else number(value, place)
    if seconds is None or not 0 <= seconds <= _LONGEST_GRACE_S:
        raise wrong(place, "seconds from 0 to a year", value)
    return float(seconds)


def slot(value: Any, place: Place) -> float:
    """Return the length of a time slot; 0 for none."""
    seconds = -1.0 if isinstance(value, bool) else number(value, place)
    if seconds != 0 and not _SHORTEST_SLOT_S <= seconds <= _LONGEST_GRACE_S:
        raise wrong(place, "0 (none) or seconds from 60 to a year, as in 43200", value)
    return float(seconds)


def price(value: Any, place: Place) -> float | dict[str, float]:
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


def _one_price(value: Any, place: Place) -> float:
    if isinstance(value, bool) or not 0 <= number(value, place) <= _MOST_PRICE:
        raise wrong(place, f"a price from 0 to {_MOST_PRICE:.10g}, as in 0.25", value)
    return float(value)


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


def currency(value: Any, place: Place) -> str:
    if not isinstance(value, str) or not value.isprintable() or not 0 < len(value.strip()) <= 8:
        raise wrong(place, 'a short name, as in "EUR"', value)
    return value.strip()


def cpus(value: Any, place: Place) -> float | str:
    """Return a number of CPUs, or `auto`."""
    if value == "auto":
        return "auto"
    numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not numeric or not 0.01 <= number(value, place) <= MOST_CPUS:
        raise wrong(place, f'"auto" or a number from 0.01 to {MOST_CPUS}', value)
    return float(value)


def host_memory(value: Any, place: Place) -> str:
    """Return a size as text, or `auto`."""
    if value == "auto":
        return "auto"
    whole_mib = isinstance(value, int) and not isinstance(value, bool)
    try:
        if not whole_mib and not isinstance(value, str):
            raise ValueError
        if parse_mib(str(value)) > MOST_MEMORY_MIB:
            raise ValueError
    except ValueError:
        raise wrong(place, '"auto" or a size up to 1048576G, as in "480G"', value) from None
    return str(value)


# ------------------------------------------------------------------ GPUs, names, addresses


def gpus(value: Any, place: Place) -> bool | tuple[str, ...]:
    """Return a switch for all GPUs, or the GPUs of a list."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, list) or not all(map(_is_gpu, value)):
        expected = 'true or false, or a list of GPU indices and UUIDs, as in [0, "GPU-1a2b3c4d"]'
        raise wrong(place, expected, value)
    return tuple(str(word) for word in value)


def gpu_names(value: Any, place: Place) -> tuple[str, ...]:
    """Return indices and UUIDs of GPUs."""
    if not isinstance(value, list) or not all(map(_is_gpu, value)):
        raise wrong(place, 'a list of GPU indices and UUIDs, as in [0, "GPU-1a2b3c4d"]', value)
    return tuple(str(word) for word in value)


def moment(value: Any, place: Place) -> str:
    """Return a date and time as text, or nothing. A file may have it with quotes or without."""
    text = value.isoformat() if isinstance(value, datetime) else value
    try:
        if text != "":
            datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError, OverflowError, OSError):
        raise wrong(place, 'a date and time, as in "2030-01-31T18:00"', value) from None
    return str(text)


def gpu_order(value: Any, place: Place) -> tuple[str, ...]:
    """Return types, indices and UUIDs of GPUs."""
    if not isinstance(value, list) or not all(map(_is_gpu_name, value)):
        expected = 'a list of GPU types, indices and UUIDs, as in ["a100", 0]'
        raise wrong(place, expected, value)
    return tuple(str(word) for word in value)


def _is_gpu_name(word: Any) -> bool:
    if isinstance(word, int) and not isinstance(word, bool):
        return word >= 0
    return isinstance(word, str) and word.isprintable() and any(c.isalnum() for c in word)


def _is_gpu(word: Any) -> bool:
    if isinstance(word, int) and not isinstance(word, bool):
        return word >= 0
    return isinstance(word, str) and len(word) >= _SHORTEST_UUID and word.isprintable()


def names(value: Any, place: Place) -> tuple[str, ...]:
    """Return names of programs or users: words without a slash."""
    if not isinstance(value, list) or not all(map(_is_name, value)):
        raise wrong(place, 'a list of names, as in ["ollama"]', value)
    return tuple(value)


def _is_name(word: Any) -> bool:
    return isinstance(word, str) and word.isprintable() and word != "" and "/" not in word


def loopback_url(value: Any, place: Place) -> str:
    """Return an address on this machine: radrm reads no metrics from other machines."""
    try:
        parts = urlsplit(value) if isinstance(value, str) else urlsplit("")
        host, _ = parts.hostname or "", parts.port
        local = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = False
    if not local or parts.scheme != "http" or parts.username or not value.isprintable():
        expected = 'an http address of this machine, as in "http://127.0.0.1:9400/metrics"'
        raise wrong(place, expected, value)
    return str(value)


# ------------------------------------------------------------------ Slurm, notices


def slurm_name(value: Any, place: Place) -> str:
    """Return a name of Slurm's: it becomes a word of its commands."""
    if not isinstance(value, str) or not re.fullmatch(_NAME, value):
        raise wrong(place, 'a name of letters, digits, _ and -, as in "shared"', value)
    return value


def slurm_node(value: Any, place: Place) -> str:
    """Return a node's name, or nothing."""
    return "" if value == "" else slurm_name(value, place)


def gpu_memory(value: Any, place: Place) -> str:
    """Return a size of GPU memory as text."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    try:
        if not (whole or isinstance(value, str)) or not 1 <= parse_mib(str(value)) <= _MOST_MIB:
            raise ValueError
    except ValueError:
        raise wrong(place, 'a size of GPU memory, as in "6G"', value) from None
    return str(value)


def home(value: Any, place: Place) -> str:
    """Return an absolute folder; `%n` in it is the node's name."""
    sound = isinstance(value, str) and value.isprintable()
    if not sound or (value != "" and not value.startswith("/")):
        raise wrong(place, 'an absolute folder, as in "/var/lib/radrm-%n"', value)
    return str(value)


def targets(value: Any, place: Place) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > _MOST_TARGETS:
        raise wrong(place, f'a list of at most {_MOST_TARGETS} targets, as in ["mail"]', value)
    for word in value:
        if _read(word) is None:
            raise wrong(place, 'targets as --notify takes them, as in ["mail:fail"]', word)
    return tuple(value)


def _read(word: Any) -> Target | None:
    try:
        return target_of(word) if isinstance(word, str) else None
    except ValueError:
        return None


def kinds(value: Any, place: Place) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(word in KINDS for word in value):
        raise wrong(place, f"a list of {', '.join(KINDS)}", value)
    return tuple(dict.fromkeys(value))


def sender(value: Any, place: Place) -> str:
    target = _read(value)
    if value != "" and (target is None or target.kind != "mail" or target.address != value):
        raise wrong(place, 'a mail address, or ""', value)
    return str(value)


def domain(value: Any, place: Place) -> str:
    target = _read(f"user@{value}") if isinstance(value, str) else None
    if value != "" and (target is None or target.address != f"user@{value}"):
        raise wrong(place, 'a domain such as example.org, or ""', value)
    return str(value)
