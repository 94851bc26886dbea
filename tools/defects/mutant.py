"""A row of `make mutants`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """A defect: `old`, which occurs once in `file` (below `radrm/core`), becomes `new`."""

    name: str
    file: str
    old: str
    new: str
