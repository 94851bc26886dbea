"""Say what the submitter can change where a failed attempt's last words tell.

Only errors that radrm's own settings cause, and cure, belong here. As for out-of-memory (`oom.py`),
the exit must have failed and the program must have ended by that error (`last_words.py`).
"""

from __future__ import annotations

import re

from radrm.core.records import Exit
from radrm.last_words import lines_of, search
from radrm.oom import ended_by_itself

# Python's `int()`, which vLLM and DeepSpeed's launcher call for each GPU of CUDA_VISIBLE_DEVICES.
_UUID_AS_NUMBER = re.compile(r"invalid literal for int\(\) with base 10: ['\"](GPU|MIG)-[0-9a-f]")


def hint(exit: Exit, tail: str) -> str | None:
    """Return why an attempt failed and what to do about it; None: nothing is known.

    Linear in the last `TAIL_BYTES` characters of `tail`; never raises.
    """
    if exit.ok or not ended_by_itself(exit):
        return None
    what = search(lines_of(tail), _uuid_as_number)
    if what is None:
        return None
    if what == "MIG":
        return (
            "it reads CUDA_VISIBLE_DEVICES as numbers, and a MIG instance has only a UUID: run it "
            "in a container, or on a whole GPU (--collocation=timeslice)"
        )
    return (
        "it reads CUDA_VISIBLE_DEVICES as numbers, and that has the UUID of a GPU: submit it with "
        "--device-ids=index"
    )


def _uuid_as_number(line: str) -> str | None:
    """Return what kind of device the program could not read; None: the line is not of this."""
    found = _UUID_AS_NUMBER.search(line)
    return None if found is None else found[1]
