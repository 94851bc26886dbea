"""Python values as options of a job. The one option table knows the options, and checks them.

An option's name is that of the command line, with `_` for `-`. A value is what the command line
takes, as text, or the Python value that means the same:

    numbers           of `time`, `duration`... seconds; of memory MiB
    timedelta         a duration
    datetime          a moment; without a zone, in local time
    True, False       a flag; False and None leave an option out
    a list            several values of an option that can be given several times
    a mapping         of `env` and `param`: {"LR": 0.1}, {"lr": [0.1, 0.01]}
    a path            as text
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal

from radrm.errors import UsageError
from radrm.jobfile.options import BY_NAME, Option, RawOptions
from radrm.jobfile.parsing import raise_unknown, take_option, typed
from radrm.jobfile.values import shown


def raw_options(given: Mapping[str, object], where: str) -> RawOptions:
    """Return Python values as options of a job, as written. Raises `UsageError`, which names
    `where`, the option and what it takes."""
    raw: RawOptions = {}
    for key, value in given.items():
        name = key.replace("_", "-")
        option = BY_NAME.get(name)
        if option is None:
            raise_unknown(f"--{name}", where)
        if value is None or value is False:
            continue
        for word in _words(option, value, where):
            take_option(word, iter(()), where, raw)
    typed(raw, where)
    return raw


def _words(option: Option, value: object, where: str) -> Iterable[str]:
    """The option as words of a command line."""
    if value is True:
        if option.metavar is not None and option.bare is None:
            raise UsageError(f"{where}: {option.name} needs a value, not True: {option.usage}")
        return [f"--{option.name}"]
    if option.metavar is None:
        raise UsageError(f"{where}: {option.name} is True or False, not {_shown(value)}")
    if isinstance(value, Mapping):
        if option.name not in ("env", "param"):
            raise UsageError(f"{where}: {option.name} is no mapping; write {option.usage}")
        return [f"--{option.name}={name}={_joined(option, one)}" for name, one in value.items()]
    if isinstance(value, (list, tuple)):
        if not option.repeatable:
            raise UsageError(f"{where}: {option.name} takes one value, not {_shown(value)}")
        return [f"--{option.name}={_text(option, one, where)}" for one in value]
    return [f"--{option.name}={_text(option, value, where)}"]


def _joined(option: Option, value: object) -> str:
    """The values of one parameter, or the value of one variable."""
    if option.name == "param" and isinstance(value, (list, tuple, range)):
        return ",".join(_plain(one) for one in value)
    return _plain(value)


def _text(option: Option, value: object, where: str) -> str:
    if isinstance(value, (str, int, float, os.PathLike)) and not isinstance(value, bool):
        return _plain(value)
    if isinstance(value, timedelta):
        return _plain(value.total_seconds())
    if isinstance(value, datetime):
        return value.astimezone().isoformat(timespec="seconds")
    kind = type(value).__name__
    raise UsageError(f"{where}: {option.name} cannot be a {kind}; write {option.usage}")


def _plain(value: object) -> str:
    """The text of a value; of a float without an exponent, which the option table does not
    read."""
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, float) and value == value and abs(value) != float("inf"):
        return format(Decimal(repr(value)), "f")
    return str(value)


def _shown(value: object) -> str:
    return shown(str(value))
