"""Parsers of the values of options, and the records of some values.

Every parser takes the text as written. It returns the value, or raises ValueError with what is
wrong and what to write. Any user may have written the text, so every parser limits its length
first. The table in `options` names the parser of each option.
"""

from __future__ import annotations

from radrm.core.units import is_digits, parse_mib, parse_seconds, spelled_out
from radrm.errors import plain
from radrm.errors import shown as shown
from radrm.jobfile.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Value = TypeVar("Value")

MAX_GPUS = 1024
MAX_TASKS = 256
"""The most tasks of a job with a range or with roles."""
MAX_TEXT = 65_536
_MAX_MIB = 2**40
_MAX_SECONDS = 10 * 366 * 86_400.0
# Real values are shorter. Some patterns are slow on very long texts.
_MAX_NUMBER_LENGTH = 32


class SignalOption(Record):
    """The value of `--signal`: send signal `number` this many seconds before the time limit."""

    number: int
    seconds: float


class Span(Record):
    """A value that was written as a range, MIN-MAX: its two ends."""

    least: float
    most: float


class RoleOption(Record):
    """The value of `--role`: `count..count_max` tasks of a kind, each with these needs.

    `count_max` and `cpus_max` are None for one number instead of a range.
    """

    name: str
    count: int
    count_max: int | None = None
    cpus: float | None = None
    cpus_max: float | None = None
    memory_mib: int | None = None
    gpus: int = 0


# --------------------------------------------------------------------------- kinds


def text(limit: int) -> Callable[[str], str]:
    def parse(given: str) -> str:
        if not given.strip() or len(given) > limit or not given.isprintable():
            raise ValueError(f"{shown(given)} is not printable text of 1 to {limit} characters")
        return given

    return parse


def matching(pattern: str, wanted: str) -> Callable[[str], str]:
    def parse(given: str) -> str:
        import re  # few submissions have such values

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
        if is_digits(given.removeprefix("-"), 12) and low <= int(given) <= high:
            return int(given)
        raise ValueError(f"{shown(given)} is not a whole number from {low} to {high}")

    return parse


def number(low: float, high: float) -> Callable[[str], float]:
    def parse(given: str) -> float:
        digits = given.replace(".", "", 1)  # also of `5.` and `.5`
        if is_digits(digits, _MAX_NUMBER_LENGTH) and low <= float(given) <= high:
            return float(given)
        raise ValueError(f"{shown(given)} is not a number from {low:g} to {high:g}")

    return parse


def span(
    one: Callable[[str], float], each: Callable[[str], float] | None = None
) -> Callable[[str], float | Span]:
    """Return a parser of one value, or of MIN-MAX; `each` parses the ends of a range."""

    def parse(given: str) -> float | Span:
        first, dash, last = given.partition("-")
        if not (first and dash):
            return one(given)
        low, high = (each or one)(first), (each or one)(last)
        if low > high:
            ours = plain(f"{last}-{first}")
            raise ValueError(f"{shown(given)} has the larger value first; write {ours}")
        return Span(low, high)

    return parse


def flag(given: str) -> bool:
    """Return True: a flag has no text."""
    return True


def shape(given: str) -> tuple[int, ...]:
    """Return the dimensions of one sample, without the batch."""
    sizes = given.replace(",", "x").split("x")
    if len(sizes) <= 8 and all(is_digits(size, 9) and size[0] != "0" for size in sizes):
        return tuple(map(int, sizes))
    raise ValueError(f"{shown(given)} is not a shape such as 3x224x224")


# --------------------------------------------------------------------------- quantities


def size(given: str) -> int:
    """Return a size in MiB."""
    if len(given) > _MAX_NUMBER_LENGTH or (mib := parse_mib(given)) > _MAX_MIB:
        raise ValueError(f"{shown(given)} is larger than any memory")
    return mib


def size_or_limit(given: str) -> int | Span | None:
    """Return MiB, a `Span` of what to reserve and the limit (`8G:16G`), or None for `auto`."""
    first, colon, last = given.partition(":")
    if not colon:
        return None if given == "auto" else size(given)
    if not (first and last) or "auto" in (first, last):
        raise ValueError(f"{shown(given)} is not SIZE:LIMIT, as in 8G:16G, nor a size or auto")
    least, most = size(first), size(last)
    if least > most:
        swapped = plain(f"{last}:{first}")
        raise ValueError(f"{shown(given)} reserves more than its limit; write {swapped}")
    return Span(least, most)


def seconds(given: str) -> float:
    if len(given) > _MAX_NUMBER_LENGTH or (value := parse_seconds(given)) > _MAX_SECONDS:
        raise ValueError(f"{shown(given)} is longer than ten years")
    return value


def or_none(parse: Callable[[str], Value]) -> Callable[[str], Value | None]:
    """Return a parser that returns None for `none`, which takes away an earlier value."""

    def parse_or_none(given: str) -> Value | None:
        try:
            return None if given == "none" else parse(given)
        except ValueError as cause:
            raise ValueError(f"{cause}; or write none") from None

    return parse_or_none


def silent_limit(given: str) -> float:
    """Return seconds, at least `_LEAST_SILENT_S`."""
    found = seconds(given)
    if found < _LEAST_SILENT_S:
        raise ValueError(f"{shown(given)} is less than {_LEAST_SILENT_S:g} s; write more, or none")
    return found


_LEAST_SILENT_S = 10.0


def moment(given: str) -> float | None:
    """Return epoch seconds; None for `none`, and for what depends on the submitter's zone or time.

    `parsing.dated` makes the latter absolute before anything uses it.
    """
    from radrm.jobfile import moments  # few submissions have any

    return None if given == moments.NONE else moments.read(given).absolute_s


def notify(given: str) -> str | None:
    """Return the target as written; None for `none`, which removes earlier ones."""
    from radrm.jobfile import targets  # few submissions have any

    return targets.notify_option(given)


def weight(given: str) -> float:
    try:
        return number(0.001, 1e6)(given)
    except ValueError:
        raise ValueError(
            f"{shown(given)} is not a weight from 0.001 to 1000000; write a number such as 3"
        ) from None


cpus_or_range = span(number(0.01, 4096))
size_or_range = span(size)


# --------------------------------------------------------------------------- GPUs

gpus_or_range = span(whole(0, MAX_GPUS), whole(1, MAX_TASKS))


def gpu_names(nothing: str, wanted: str) -> Callable[[str], tuple[str, ...]]:
    """Return a parser of names of GPUs, separated by `,` or `|`; `nothing` is an empty list."""

    def parse(given: str) -> tuple[str, ...]:
        if given == nothing:
            return ()
        words = given.replace("|", ",").split(",")[: _MOST_GPU_NAMES + 1]
        names = [name for word in words for name in spelled_out(word.strip())]
        if len(names) > _MOST_GPU_NAMES or not all(map(_is_gpu_name, names)):
            raise ValueError(f"{shown(given)} is not {wanted}, or {nothing!r}")
        return tuple(dict.fromkeys(names))

    return parse


def _is_gpu_name(name: str) -> bool:
    letters = all(letter.isalnum() or letter in " ._+()-" for letter in name)
    return letters and name.isascii() and name[:1].isalnum() and len(name) <= 64


_MOST_GPU_NAMES = 32
gpu_types = gpu_names("any", "types of GPU such as a6000|a100")
gpu_list = gpu_names("none", "types, indices or UUIDs of GPUs, as in a100,0-3")


# --------------------------------------------------------------------------- names and paths

path = text(4096)
word = matching(r"[A-Za-z_][\w.+-]{0,63}", "a name")
factory = matching(r"[\w./~+ -]{1,4000}:[A-Za-z_]\w{0,200}", "MODULE:FUNCTION")
mig_profile = matching(
    r"(\d{1,2}c\.)?\d{1,2}g\.\d{1,4}gb([+-][a-z.]{1,16}){0,4}", "a MIG profile such as 1g.5gb"
)


def job_name(given: str) -> str:
    """Return a job's name. It can become part of a file's name (`%x`)."""
    text(128)(given)
    if "/" in given or given in (".", ".."):
        raise ValueError(f"{shown(given)} cannot be part of a file's name; leave out the '/'")
    return given


def is_own_stream(path: str) -> bool:
    """True for a name that each process has for its own streams. A job has no others than its
    logs."""
    named = path in ("/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty")
    return named or path.startswith(("/dev/fd/", "/proc/self/fd/"))


def log_path(given: str) -> str:
    path(given)
    if is_own_stream(given):
        raise ValueError(
            f"{shown(given)} is a stream of a process, not a file; leave the option out, and read "
            "the log: radrm logs -f JOB"
        )
    for behind in given.replace("%%", "").split("%")[1:]:
        if behind[:1] not in tuple("jxuAat"):
            pattern = repr(f"%{behind[:1]}")
            raise ValueError(f"{pattern} is not a pattern; use %j %x %u %A %a %t, or %% for %")
    return given


def progress_pattern(given: str) -> str:
    """Return the regular expression of `--progress-pattern`, or `auto`, as written."""
    from radrm.progress_lines import progress_pattern

    text(1024)(given)
    try:
        progress_pattern(given)
    except ValueError as cause:
        raise ValueError(f"{shown(given)}: {cause}") from None
    return given


def is_variable_name(text: str) -> bool:
    return text.isascii() and text.isidentifier()


def variable(given: str) -> tuple[str, str]:
    """Return NAME and VALUE. Refuse the variables that select the GPUs of a job."""
    name, equals, value = given.partition("=")
    if not equals or not is_variable_name(name):
        raise ValueError(f"{shown(given)} is not NAME=VALUE")
    if name.startswith("CUDA_MPS_") or name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
        raise ValueError(f"{name} is set by radrm itself; leave it out")
    return name, value


# --------------------------------------------------------------------------- tasks and signals


_ROLE = "NAME:COUNT, as in ps:1-4 or worker:2-8,cpus=4,memory=8G,gpus=1"


def role_option(given: str) -> RoleOption:
    head, *settings = given.split(",")
    name, colon, count = head.partition(":")
    if not is_variable_name(name.replace("-", "_")) or name[0] in "-_" or len(name) > 32:
        raise ValueError(f"{shown(given)} is not a role; write {_ROLE}")
    if not colon or not count:
        raise ValueError(f"role {name} has no count; write {_ROLE}")
    found: dict[str, Any] = {"name": name}
    for word in [f"count={count}", *settings]:
        key, equals, value = word.partition("=")
        parse = _OF_A_ROLE.get(key)
        if parse is None or not equals:
            raise ValueError(f"{shown(word)} is not a setting of a role; write {_ROLE}")
        if key in found:
            raise ValueError(f"{key}= is given twice for role {name}; keep one of them")
        try:
            each = parse(value)
        except ValueError as cause:
            raise ValueError(f"{key} of role {name}: {cause}") from None
        if isinstance(each, Span):
            found[key], found[f"{key}_max"] = each.least, each.most
        else:
            found["memory_mib" if key == "memory" else key] = each
    return RoleOption(**found)


_OF_A_ROLE: dict[str, Callable[[str], object]] = {
    "count": span(whole(1, MAX_TASKS)),
    "cpus": cpus_or_range,
    "memory": size,
    "gpus": whole(0, MAX_GPUS),
}

SAVE_SIGNALS = ("USR1", "USR2", "HUP", "INT", "QUIT", "ALRM", "WINCH", "URG", "TERM")


def save_signal(given: str) -> int:
    """Return the number of a signal that can ask a job to save its work."""
    import signal

    name = given.removeprefix("SIG")
    if name not in SAVE_SIGNALS:
        known = ", ".join(SAVE_SIGNALS[:-1])
        raise ValueError(
            f"{shown(given)} cannot ask a job to save; use one of {known}, or TERM with "
            "--checkpoint=exit"
        )
    return int(signal.Signals["SIG" + name])


def exit_codes(given: str) -> tuple[tuple[int, int], ...] | None:
    """Return ranges of exit codes as a shell reports them (128+n for signal n), ascending.

    None for `any`. Ranges that touch are one.
    """
    if given == "any":
        return None
    words = given.split(",")
    if len(words) > _MOST_CODES:
        raise ValueError(f"{shown(given)} has more than {_MOST_CODES} codes; use ranges, as in 2-9")
    merged: list[tuple[int, int]] = []
    for first, last in sorted(map(_exit_codes, words)):
        if merged and first <= merged[-1][1] + 1:
            first, last = merged[-1][0], max(last, merged.pop()[1])
        merged.append((first, last))
    return tuple(merged)


_MOST_CODES = 64


def _exit_codes(word: str) -> tuple[int, int]:
    low, dash, high = word.partition("-")
    numbers = is_digits(low, 3) and (is_digits(high, 3) or not dash)
    if numbers:
        first, last = int(low), int(high or low)
        if 1 <= first <= last <= 255:
            return first, last
    import signal

    known = signal.Signals.__members__.get("SIG" + word.removeprefix("SIG"))
    if known is None or numbers:
        raise ValueError(
            f"{shown(word)} is not an exit code from 1 to 255, a range or a signal; write them as "
            "in 1,75-80,KILL"
        )
    return 128 + known, 128 + known


def signal_option(given: str) -> SignalOption:
    import signal

    name, at, lead = given.partition("@")
    if not at:
        raise ValueError(f"{shown(given)} has no time; write NAME@SECONDS, as in USR1@60")
    known = signal.Signals.__members__.get("SIG" + name.removeprefix("SIG"))
    if known is None or known > 30:
        raise ValueError(f"{shown(given)} is not a signal; write NAME@SECONDS, as in USR1@60")
    if known in (signal.SIGKILL, signal.SIGSTOP):
        raise ValueError(f"{name} cannot be caught by a job; name another, as in USR1@60")
    return SignalOption(int(known), number(1, 86_400)(lead))
