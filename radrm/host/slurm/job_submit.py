"""The mark in a `job_submit.lua` by which its age is known.

`radrm slurm setup` prints the script with this mark, and `radrm doctor --slurm` looks for it. A
site may have other rules in the same file, so the mark may be on any line.
"""

from __future__ import annotations

import re

NAME = "job_submit.lua"
"""The name of the file; it lies beside slurm.conf."""
FORMAT = 2
"""Raise it when the rules of the script change."""
MARK = f"-- radrm job_submit rules, format {FORMAT}"
_MARK = re.compile(r"^\s*-- radrm job_submit rules, format (\d{1,6})\s*$", re.ASCII | re.MULTILINE)
_NAMED = "[A-Za-z0-9_-]{1,64}"
_TABLE = re.compile(
    rf'^local RADRM = \{{\s*partition = "({_NAMED})",\s*gres = "({_NAMED})",',
    re.ASCII | re.MULTILINE,
)


def format_of(text: str) -> int | None:
    """Return the format of radrm's rules in a script; None: it has none of them."""
    found = _MARK.search(text)
    return None if found is None else int(found[1])


def names_of(text: str) -> tuple[str, str] | None:
    """Return the partition and the GRES of radrm's rules in a script; None: they are not there."""
    found = _TABLE.search(text)
    return None if found is None else (found[1], found[2])
