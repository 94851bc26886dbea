"""How many examples a property tries: each push a quarter of what it names, the same ones.

`make properties EXAMPLES=20` tries 20 times as many, others each time; `make proofs` does so.
"""

from __future__ import annotations

import os
from math import ceil

from hypothesis import settings

_GIVEN = os.environ.get("RADRM_EXAMPLES")
AT_NIGHT = _GIVEN is not None
FACTOR = float(_GIVEN or 0.25)


def some(count: int) -> int:
    """The examples of a property that names this many."""
    return max(5, ceil(count * FACTOR))


def lives(count: int) -> settings:
    """The settings of a property whose examples are whole lives."""
    return settings(
        max_examples=some(count),
        report_multiple_bugs=False,
        deadline=None,
    )
