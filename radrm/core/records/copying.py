"""A changed copy of a record.

Every event changes records of many fields. `dataclasses.replace` passes all of them through
`__init__`, which takes three times as long as copying the slots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import Any, TypeVar

R = TypeVar("R")

_Setter = Callable[[object, object], None]
_known: dict[type, tuple[Callable[[Any], tuple[Any, ...]], dict[str, _Setter]]] = {}


def changed(record: R, **changes: object) -> R:
    """Return a copy of a record with other values of some fields.

    Like `dataclasses.replace`, for frozen records with slots, at least two fields and no
    `__post_init__`. Raises `KeyError` for an unknown field.
    """
    cls = type(record)
    known = _known.get(cls)
    if known is None:
        names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
        setters = {name: vars(cls)[name].__set__ for name in names}
        known = _known[cls] = attrgetter(*names), setters
    values, setters = known
    new = object.__new__(cls)
    for put, value in zip(setters.values(), values(record), strict=True):
        put(new, value)
    for name, value in changes.items():
        setters[name](new, value)
    return new
