"""How many examples a property tries: a few in the suite, the same each time where they are costly.

`make properties EXAMPLES=20` tries 20 times as many, others each time.
"""

from __future__ import annotations

import os

from hypothesis import settings

FACTOR = int(os.environ.get("RADRM_EXAMPLES", "1"))


def lives(count: int) -> settings:
    """The settings of a property whose examples are whole lives."""
    return settings(
        max_examples=count * FACTOR,
        derandomize=FACTOR == 1,
        report_multiple_bugs=False,
        deadline=None,
    )
