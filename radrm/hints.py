"""Hints for the submitter, from the last lines that an attempt printed.

Only errors that radrm's own settings cause, and cure, belong here. As for out-of-memory (`oom.py`),
the exit must have failed and the program must have ended by that error (`last_words.py`).

Some scripts hide how their program ended: they lose its exit code, or send its output away. Then
radrm does not rerun the job, for it judges only by exit codes and the job's own logs; `hidden` says
so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from radrm.core.records import Exit
from radrm.last_words import lines_of, search
from radrm.oom import ended_by_itself, seems_lost

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


def hidden(exit: Exit, tails: Sequence[str], redirected: Sequence[tuple[str, str]]) -> str | None:
    """Return that a script hides its program's out-of-memory, or all its output; None: it does not.

    `redirected`: path and end of files to which it sent output. What each function reads is bounded
    as in `hint`; the caller asks only about attempts that did not end by `classify`'s evidence.
    """
    if exit.signal is not None or exit.code is None:
        return None
    if exit.ok and any(map(seems_lost, tails)):
        return (
            "exit code 0, but its output ended with an error: out of GPU memory. The script hides "
            "the exit code; add `set -eo pipefail`, and radrm reruns the job"
        )
    where = next((path for path, end in redirected if seems_lost(end)), None)
    if where is not None:
        code = "exit code 0, but " if exit.ok else ""
        return (
            f"{code}{where} ends with an error: out of GPU memory. radrm reads the job's own "
            "output only; do not redirect it, and radrm reruns the job"
        )
    if not exit.ok and redirected and not any(map(str.strip, tails)):
        return f"its script redirects its output to {redirected[-1][0]}"
    return None


def _uuid_as_number(line: str) -> str | None:
    """Return what kind of device the program could not read; None: the line is not of this."""
    found = _UUID_AS_NUMBER.search(line)
    return None if found is None else found[1]
