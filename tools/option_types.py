"""radrm/api/option_types.py, the options of a submission for type checkers.

    python -m tools.option_types

writes it from the one option table. A test fails while it is out of date.
"""

from __future__ import annotations

from pathlib import Path

from radrm.jobfile import values
from radrm.jobfile.options import MOMENTS, SHOWN, Option

PLACE = Path(__file__).parents[1] / "radrm" / "api" / "option_types.py"

_HEAD = '''\
"""The options of a submission, for type checkers: made from the option table by `make generated`.

At run time only the table counts (`radrm.jobfile.options`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, TypedDict


class JobOptions(TypedDict, total=False):
    """What `Client.submit`, `Client.edit` and `Executor` take. None leaves an option out."""

'''
_NUMBERS = ("N", "W", "X", "0..1[@TYPE]", "N[@TIME]", "PERCENT", "N|MIN-MAX")


def text() -> str:
    """The file as it should be."""
    return _HEAD + "".join(_field(option) for option in SHOWN)


def _field(option: Option) -> str:
    line = f"    {option.name.replace('-', '_')}: {_type(option)} | None\n"
    if len(line) > 101:
        raise ValueError(f"{option.name}: its type is too long for a line")
    said = option.help.replace("\\", "\\\\")
    return f'{line}    """{said[:1].upper()}{said[1:]}."""\n'


def _type(option: Option) -> str:
    if option.metavar is None:
        return "bool"
    if option.name in ("env", "param"):
        return "str | Sequence[str] | Mapping[str, object]"
    if option.name == "after":
        return "int | str | Sequence[int | str]"
    if option.repeatable:
        return "str | Sequence[str]"
    if option.parse.__qualname__.startswith("choice."):
        return f"Literal[{', '.join(map(repr, option.metavar.split('|')))}]".replace("'", '"')
    if option.name in MOMENTS:
        return "str | datetime"
    if option.parse in (values.seconds, values.silent_limit):
        return "float | str | timedelta"
    if option.metavar.startswith("SIZE"):
        return "int | str"
    if option.metavar in _NUMBERS:
        return "float | str"
    if option.parse in (values.path, values.log_path):
        return "str | os.PathLike[str]" + (" | bool" if option.bare is not None else "")
    return "str"


if __name__ == "__main__":
    PLACE.write_text(text(), "utf-8")
