"""Run radrm with its fixed values as settings: python -m tests.unfixed daemon --set core.retry_s=1

A real daemon has constants that tests cannot wait for. Here `--set` takes them, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import Field, fields, is_dataclass
from typing import Any
from unittest.mock import patch

from radrm import wiring
from radrm.cli.main import main
from radrm.config import shapes, values
from radrm.core.settings import CoreSettings, settings_of
from radrm.host.planning import service

_known = values.known
_check_of_table = shapes._check_of_table


def _any(value: Any, place: values.Place) -> Any:
    return value


def known(
    given: shapes.Table, checks: Mapping[str, values.Check], place: values.Place
) -> dict[str, Any]:
    return _known(given, {**dict.fromkeys(given, _any), **checks}, place)


def check_of_table(shape: Any) -> values.Check:
    """A fixed value has no check of its own, and need not be a table."""
    return _check_of_table(shape) if is_dataclass(shape) else _any


def all_of(owner: Callable[..., Any]) -> dict[str, Field[Any]]:
    """All fields but those that the readers of a file fill by themselves."""
    found = fields(owner) if is_dataclass(owner) else ()
    return {each.name: each for each in found if each.name not in ("only", "from_text")}


def first(name: str, table: dict[str, Any], zone: Any) -> Any:
    """What is sent to the process of a planner, which takes settings only."""
    told, usual = dict(table), shapes.Config()
    for key, part in table.items():
        owner = CoreSettings if key == "core" else type(getattr(usual, key))
        if is_dataclass(owner):
            told[key] = {name: part[name] for name in part if name in settings_of(owner)}
    return _First(name, told, zone)


_First = service.First


@contextmanager
def unfixed() -> Iterator[None]:
    """Let this process take fixed values as settings."""
    with (
        patch.object(service, "First", first),
        patch.object(values, "known", known),
        patch.object(shapes, "settings_of", all_of),
        patch.object(shapes, "_check_of_table", check_of_table),
        patch.object(wiring, "_check_tables", lambda config: None),
    ):
        yield


if __name__ == "__main__":
    sys.argv[0] = "radrm"
    with unfixed():
        main()
