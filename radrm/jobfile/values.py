"""How the value of each kind of option is read, and the small records some become.

Every parser takes the text as written and returns the value, or raises ValueError
with a text that says what is wrong with it and what to write. The text may come
from anybody: everything is bounded before it is looked at closely. Which option
uses which parser stands in `options`.
"""

from __future__ import annotations

import re

from radrm.core.units import parse_mib, parse_seconds
from radrm.jobfile.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MAX_GPUS = 1024
MAX_ARRAY = 100_000
MAX_TEXT = 65_536
_MAX_MIB = 2**40
_MAX_SECONDS = 10 * 366 * 86_400.0
# Beyond this no honest number goes, and some of the patterns would become slow.
_MAX_NUMBER_LENGTH = 32


class Dependency(Record):
    """Start after `job` (an id or a ticket) has ended in this way: ok, any or failed."""

    job: str
    condition: str


class Array(Record):
    """Elements `first..last`, at most `at_once` of them live (None: no limit)."""

    first: int
    last: int
    at_once: int | None


class EarlySignal(Record):
    """Send signal `number` this many seconds before the time limit."""

    number: int
    seconds: float


def shown(text: str) -> str:
    """A user's text for use in an error: quoted, on one line, not too long."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


# --------------------------------------------------------------------------- kinds


def text(limit: int) -> Callable[[str], str]:
    def parse(given: str) -> str:
        if not given.strip() or len(given) > limit or not given.isprintable():
            raise ValueError(f"{shown(given)} is not printable text of 1 to {limit} characters")
        return given

    return parse


def matching(pattern: str, wanted: str) -> Callable[[str], str]:
    def parse(given: str) -> str:
        if not re.fullmatch(pattern, given, re.ASCII):
            raise ValueError(f"{shown(given)} is not {wanted}")
        return given

    return parse


def choice(*words: str) -> Callable[[str], str]:
    def parse(given: str) -> str:
        if given not in words:
            raise ValueError(f"{shown(given)} is not one of {', '.join(words)}")
        return given

    return parse


def whole(low: int, high: int) -> Callable[[str], int]:
    def parse(given: str) -> int:
        if re.fullmatch(r"-?[0-9]{1,12}", given) and low <= int(given) <= high:
            return int(given)
        raise ValueError(f"{shown(given)} is not a whole number from {low} to {high}")

    return parse


def number(low: float, high: float) -> Callable[[str], float]:
    def parse(given: str) -> float:
        plain = re.fullmatch(r"[0-9]{1,12}(\.[0-9]{0,18})?|\.[0-9]{1,18}", given)
        if plain and low <= float(given) <= high:
            return float(given)
        raise ValueError(f"{shown(given)} is not a number from {low:g} to {high:g}")

    return parse


def flag(given: str) -> bool:
    """A flag has no text of its own: to be there is its value."""
    return True


def shape(given: str) -> tuple[int, ...]:
    """The sizes of one sample's dimensions, without the batch."""
    if re.fullmatch(r"[1-9][0-9]{0,8}([x,][1-9][0-9]{0,8}){0,7}", given):
        return tuple(int(size) for size in re.split("[x,]", given))
    raise ValueError(f"{shown(given)} is not a shape such as 3x224x224")


# --------------------------------------------------------------------------- quantities


def size(given: str) -> int:
    """A size in MiB."""
    if len(given) > _MAX_NUMBER_LENGTH or (mib := parse_mib(given)) > _MAX_MIB:
        raise ValueError(f"{shown(given)} is beyond any size of memory")
    return mib


def size_or_auto(given: str) -> int | None:
    """A size in MiB; None for `auto`: let the estimators tell."""
    return None if given == "auto" else size(given)


def seconds(given: str) -> float:
    if len(given) > _MAX_NUMBER_LENGTH or (value := parse_seconds(given)) > _MAX_SECONDS:
        raise ValueError(f"{shown(given)} is longer than ten years")
    return value


def moment(given: str) -> float:
    """A date and time (of this server, unless it names its zone) in seconds since the epoch."""
    from datetime import datetime

    try:
        return datetime.fromisoformat(given).timestamp()
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"{shown(given)} is not a time such as 2030-01-31T18:00") from None


def gpu_range(given: str) -> tuple[int, int]:
    found = re.fullmatch(r"([0-9]{1,4})-([0-9]{1,4})", given)
    if not found or not 1 <= int(found[1]) <= int(found[2]) <= MAX_GPUS:
        raise ValueError(f"{shown(given)} is not MIN-MAX GPUs from 1 to {MAX_GPUS}")
    return int(found[1]), int(found[2])


# --------------------------------------------------------------------------- names and paths

path = text(4096)
word = matching(r"[A-Za-z_][\w.+-]{0,63}", "a name")
factory = matching(r"[\w./~+ -]{1,4000}:[A-Za-z_]\w{0,200}", "MODULE:FUNCTION")
mig_profile = matching(
    r"(\d{1,2}c\.)?\d{1,2}g\.\d{1,4}gb([+-][a-z.]{1,16}){0,4}", "a MIG profile such as 1g.5gb"
)


def job_name(given: str) -> str:
    """A name that may become part of a file's name (`%x`)."""
    text(128)(given)
    if "/" in given or given in (".", ".."):
        raise ValueError(f"{shown(given)} cannot be part of a file's name; leave out the '/'")
    return given


def log_path(given: str) -> str:
    path(given)
    for pattern in re.findall(r"%.?", given):
        if pattern not in ("%j", "%x", "%u", "%A", "%a", "%t", "%%"):
            raise ValueError(f"{pattern!r} is not a pattern; use %j %x %u %A %a %t, or %% for %")
    return given


def variable(given: str) -> tuple[str, str]:
    """NAME=VALUE. What decides which GPUs a job sees is not a job's to set."""
    name, equals, value = given.partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(f"{shown(given)} is not NAME=VALUE")
    if name.startswith("CUDA_MPS_") or name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
        raise ValueError(f"{name} is set by radrm itself; leave it out")
    return name, value


# --------------------------------------------------------------------------- relations


def dependency(given: str) -> Dependency | None:
    """`none` takes back what was said before it: of a job file, say."""
    if given == "none":
        return None
    found = re.fullmatch(
        r"([0-9]{1,18}(?:_[0-9]{1,9})?|[0-9A-HJKMNP-TV-Z]{26})(?::(ok|any|failed))?", given
    )
    if not found:
        raise ValueError(
            f"{shown(given)} is not ID, ID:ok, ID:any or ID:failed, with an id or a ticket"
        )
    return Dependency(found[1], found[2] or "ok")


def array(given: str) -> Array:
    found = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?(?:%([0-9]{1,9}))?", given)
    if not found:
        raise ValueError(f"{shown(given)} is not N, FIRST-LAST or FIRST-LAST%N, as in 0-9%4")
    first, last = int(found[1]), int(found[2] or found[1])
    at_once = int(found[3]) if found[3] else None
    if at_once == 0:
        raise ValueError(f"{shown(given)} lets none run; after the % comes 1 or more")
    if not first <= last < first + MAX_ARRAY:
        raise ValueError(f"{shown(given)} is not an array of 1 to {MAX_ARRAY} elements")
    return Array(first, last, at_once)


def early_signal(given: str) -> EarlySignal:
    import signal

    name, at, lead = given.partition("@")
    if not at:
        raise ValueError(f"{shown(given)} does not say when; write NAME@SECONDS, as in USR1@60")
    known = signal.Signals.__members__.get("SIG" + name.removeprefix("SIG"))
    if known is None or known > 30:
        raise ValueError(f"{shown(given)} names no signal; write NAME@SECONDS, as in USR1@60")
    if known in (signal.SIGKILL, signal.SIGSTOP):
        raise ValueError(f"{name} cannot be caught by a job; name another, as in USR1@60")
    return EarlySignal(int(known), number(1, 86_400)(lead))
