"""Read TOML, on Python 3.10 by a library."""

from __future__ import annotations

import sys
from typing import Any

if sys.version_info >= (3, 11):
    from tomllib import loads
else:
    from tomli import loads


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a document. Raises `ValueError`, and `RecursionError` for one that is nested too
    deeply."""
    table: dict[str, Any] = loads(text)
    return table
