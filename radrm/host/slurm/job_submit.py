"""The rules of radrm in a `job_submit.lua`, as `radrm slurm setup` prints them.

A site may have other rules in the same file. Only the beginning of radrm's table is read, so a
site may change what follows it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

NAME = "job_submit.lua"
"""The name of the file; it lies beside slurm.conf."""
VERSION = 1
"""Of the rules that this radrm prints; the script has the same number."""
_NAMED = "[A-Za-z0-9_-]{1,64}"
_TABLE = re.compile(
    r"^local RADRM = \{\s*version = (\d{1,6}),"
    rf'\s*partition = "({_NAMED})",\s*gres = "({_NAMED})",',
    re.ASCII | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Rules:
    """Which version of the rules a script has, and the names in them."""

    version: int
    partition: str
    gres: str


def rules_of(text: str) -> Rules | None:
    """Return the rules of radrm in a script; None: it has none of them."""
    found = _TABLE.search(text)
    return None if found is None else Rules(int(found[1]), found[2], found[3])
