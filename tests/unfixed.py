"""Run radrm with its fixed values as settings: python -m tests.unfixed daemon --set core.retry_s=1

A real daemon has constants that tests cannot wait for. Here `--set` takes them, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import Field, fields, is_dataclass
from typing import Any

from radrm import wiring
from radrm.cli.main import main
from radrm.config import shapes, values

_known = values.known


def _any(value: Any, place: values.Place) -> Any:
    return value


def known(
    given: shapes.Table, checks: Mapping[str, values.Check], place: values.Place
) -> dict[str, Any]:
    return _known(given, {**dict.fromkeys(given, _any), **checks}, place)


def all_of(owner: Callable[..., Any]) -> dict[str, Field[Any]]:
    return {each.name: each for each in (fields(owner) if is_dataclass(owner) else ())}


if __name__ == "__main__":
    values.known, shapes.settings_of = known, all_of
    wiring._check_tables = lambda config: None
    sys.argv[0] = "radrm"
    main()
