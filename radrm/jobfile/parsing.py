"""Parse words to raw options, and raw options to typed values.

A source is a job file or a command line. `parse_words` checks the words of one source and
keeps them as written. `merged` combines two sources. `typed` returns the typed values. It
trusts no input: the daemon calls it for submissions that any user wrote.
"""

from __future__ import annotations

from radrm.errors import UsageError
from radrm.jobfile.options import BY_NAME, MOMENTS, Option, Options, RawOptions
from radrm.jobfile.values import RoleOption, Span, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, NoReturn

    from radrm.jobfile.moments import Here

MOST_TARGETS = 8
"""Targets of `--notify`."""
DASHES = ("\u2010", "\u2011", "\u2012", "\u2013", "\u2014", "\u2015", "\u2212")
"""What editors and mail programs make of a minus."""
MAX_REPEATS = 4096
"""How often one source may give a repeatable option."""


def raise_unknown(
    word: str, where: str, others: Iterable[str] = (), script: str | None = None
) -> NoReturn:
    """Raise `UsageError` for an unknown option, with the nearest option's name.

    `others` are other words that the source accepts; `script` is the job file before the word, if
    the source takes arguments for one.
    """
    from radrm.spellings import option_hint  # only a mistake needs it

    if not word.startswith("-"):
        raise UsageError(f"{where}: {no_option(word, '--')}")
    hint = option_hint(word, [*BY_NAME, *others]) or "see `radrm submit --help`"
    if script is not None:
        hint += f"; options of {shown(script)} itself stand after --"
    raise UsageError(f"{where}: unknown option {shown(word)}; {hint}")


def no_option(word: str, dashes: str) -> str:
    """Return why a word is no option; those of its source begin with `dashes`."""
    if word.startswith(DASHES):
        name = word.lstrip(word[0] + "-")
        if len(name.partition("=")[0]) > 2:  # -n4 is a short one
            dashes = "--"  # of which an editor makes one dash
        step = f"{dashes}{name}"
        return (
            f"{shown(word)} begins with a dash of an editor, not with a minus; write {shown(step)}"
        )
    return f"{shown(word)} is not an option; options begin with {dashes}"


def take_option(word: str, rest: Iterator[str], where: str, raw: RawOptions) -> None:
    """Add the option in `word` to `raw`. Its value is in `word`, or is the next of `rest`."""
    name, equals, text = word.removeprefix("--").partition("=")
    option = BY_NAME[name]
    if option.metavar is None:
        if equals:
            raise UsageError(f"{where}: --{name} takes no value; write --{name} alone")
    elif not equals and option.bare is not None:
        text = option.bare
    elif not equals:
        text = next(rest, "--")
        if text.startswith("--"):
            raise UsageError(f"{where}: --{name} needs a value; write {option.usage}")
    value = option.value(text, where)
    earlier = raw.get(name)
    if option.repeatable:
        texts = earlier if isinstance(earlier, list) else []
        if isinstance(value, RoleOption) and value.name in map(_role_name, texts):
            raise UsageError(f"{where}: role {value.name} is given twice; keep one of them")
        if len(texts) >= MAX_REPEATS:
            raise UsageError(f"{where}: --{name} is given more than {MAX_REPEATS} times")
        raw[name] = [*texts, text]
    elif earlier is not None:
        raise UsageError(f"{where}: --{name} is given twice; keep one of them")
    else:
        raw[name] = text if option.metavar is not None else True


def spelled_out(word: str) -> str:
    """Return `-g`, `-g2` and `-g=2` as `--gpus...`; other words as they are."""
    if word == "-g":
        return "--gpus"
    value = word.removeprefix("-g").removeprefix("=")
    is_count = word.startswith("-g") and value.replace("-", "", 1).isdecimal()
    return f"--gpus={value}" if is_count else word


def is_option(word: str) -> bool:
    """Return whether a word is `--NAME` or `--NAME=VALUE` with a name from the table."""
    return word.startswith("--") and word[2:].partition("=")[0] in BY_NAME


def parse_words(words: Iterable[str], where: str, earlier: RawOptions | None = None) -> RawOptions:
    """Check the options in `words` and return them as written.

    `earlier` holds the options of earlier lines of the same file: a source must not give an
    option twice. Raises `UsageError`, which names `where`.
    """
    raw = dict(earlier or {})
    rest = iter(words)
    for word in rest:
        if not is_option(word):
            raise_unknown(word, where)
        take_option(word, rest, where, raw)
    return raw


def merged(low: RawOptions, high: RawOptions) -> RawOptions:
    """Combine two sources. `high` overrides `low`; values of repeatable options are appended."""
    both = {**low, **high}
    for name in low.keys() & high.keys():
        first, last = low[name], high[name]
        if isinstance(first, list) and isinstance(last, list):
            both[name] = _without_overridden(name, [*first, *last])
    return both


def edited(raw: RawOptions, changes: RawOptions) -> RawOptions:
    """Return the options of a job after an edit."""
    both = merged(raw, changes)
    if "chdir" in changes:
        both.pop("snapshot", None)  # it runs in that folder now
    return both


def dated(raw: RawOptions, here: Here, where: str, past: bool = False) -> RawOptions:
    """Return options whose moments are absolute: what they mean `here`.

    Raises `UsageError` for a moment that is over, unless `past`: it may be over since its check.
    """
    named = MOMENTS & raw.keys()
    if not named:
        return raw
    from radrm.jobfile.moments import NONE, absolute, refuse_past

    found = dict(raw)
    for name in named:
        text = raw[name]
        if not isinstance(text, str) or text == NONE:
            continue
        try:
            found[name] = absolute(text, here)
            if not past:
                refuse_past(text, here)
        except ValueError as cause:
            raise UsageError(f"{where}: --{name}: {cause}") from None
    return found


def _without_overridden(name: str, words: list[str]) -> list[str]:
    """Drop the words that a later word overrides, so that repeated edits do not add up."""
    if not all(isinstance(word, str) for word in words):
        return words  # `typed` refuses them
    if name in ("env", "param"):
        return list({word.partition("=")[0]: word for word in words}.values())
    if name == "role":
        return list({_role_name(word): word for word in words}.values())
    while name in ("after", "notify") and "none" in words:
        del words[: words.index("none") + 1]
    return words


def _role_name(word: str) -> str:
    return word.partition(":")[0]


def _texts(option: Option, given: object) -> list[str] | None:
    """Return the texts of a raw value. None: the value has the wrong type for the option."""
    if option.metavar is None:
        return [""] if given is True else None
    if not option.repeatable:
        return [given] if isinstance(given, str) else None
    if not isinstance(given, list) or len(given) > MAX_REPEATS:
        return None
    return given if all(isinstance(text, str) for text in given) else None


def typed(raw: object, where: str = "options") -> Options:
    """Return the typed values of raw options, which any user may have written.

    Raises `UsageError` for everything that `parse_words` would not return.
    """
    if not isinstance(raw, dict):
        raise UsageError(f"{where}: options are not a table; submit the job again")
    values: dict[str, Any] = {}
    for name, given in raw.items():
        option = BY_NAME.get(name) if isinstance(name, str) else None
        if option is None:
            raise_unknown(f"--{name}", where)
        texts = _texts(option, given)
        if texts is None:
            raise UsageError(f"{where}: --{name} holds a value of the wrong kind; give it again")
        found = [option.value(text, where) for text in texts]
        if option.repeatable:
            while None in found:  # `none` of --after and --notify removes the values before it
                del found[: found.index(None) + 1]
        values[option.field] = tuple(found) if option.repeatable else found[0]
        if found and isinstance(found[0], Span):
            values[option.field], values[option.field_max] = found[0].least, found[0].most
    options = Options(**values)
    if options.mig_profile and options.collocation not in (None, "auto", "mig"):
        raise UsageError(
            f"{where}: --mig-profile does not go with --collocation={options.collocation}; drop one"
        )
    return options


def typed_whole(raw: object, where: str = "options") -> Options:
    """Return the typed values of a whole submission.

    It also checks that an option has the other options that it needs. `typed` cannot: one source
    alone may lack an option that the other source gives.
    """
    options = typed(raw, where)
    _check_signal(options, where)
    if options.retry_on is not None and options.retries is None:
        raise UsageError(f"{where}: --retry-on says after which failures; add --retries=N")
    _check_checkpoint(options, where)
    if len(options.notify) > MOST_TARGETS:
        raise UsageError(
            f"{where}: --notify is given {len(options.notify)} times, and {MOST_TARGETS} is the "
            "most; leave some out"
        )
    _check_array(options, where)
    return options


_TERM = 15


def _check_signal(options: Options, where: str) -> None:
    """Raise `UsageError` for a signal that comes before no limit, or before the start."""
    signal = options.signal
    given = {"time": options.time_s, "silent-limit": options.silent_limit_s}
    limits = {name: limit_s for name, limit_s in given.items() if limit_s is not None}
    for name, limit_s in (limits or {"time": 0.0}).items():
        if signal is not None and limit_s <= signal.seconds:
            limit = f"{limit_s:g} s" if limits else "none"
            raise UsageError(
                f"{where}: --signal comes {signal.seconds:g} s before the {name.replace('-', ' ')}"
                f"{' limit' if name == 'time' else ''}, which is {limit}; give a longer --{name}"
            )


def _check_checkpoint(options: Options, where: str) -> None:
    """Raise `UsageError` for options about saving that do not go together."""
    for name, given in (
        ("checkpoint-signal", options.checkpoint_signal),
        ("checkpoint-cost", options.checkpoint_cost_s),
    ):
        if given is not None and options.checkpoint in (None, "none"):
            raise UsageError(
                f"{where}: --{name} is for jobs that save; add --checkpoint=signal or exit"
            )
    if options.checkpoint_signal == _TERM and options.checkpoint == "signal":
        raise UsageError(
            f"{where}: --checkpoint-signal=TERM ends a job; name another signal, or use "
            "--checkpoint=exit"
        )


def _check_array(options: Options, where: str) -> None:
    """Raise `UsageError` for options about arrays that do not go together."""
    array, sweep = options.array, bool(options.param or options.params)
    if array is not None and sweep:
        name = "param" if options.param else "params"
        raise UsageError(f"{where}: --array and --{name} each make an array; drop one")
    if options.max_fails is not None and array is None and not sweep:
        raise UsageError(f"{where}: --max-fails is for arrays; add --array or --param")
    if options.at_once is not None and not sweep:
        raise UsageError(
            f"{where}: --at-once is for a sweep (--param); in an array write --array=0-9%4"
        )
