"""What the daemon writes into the AdminComment of a Slurm job, and what others read there.

    radrm: waits: REASON (returned 1 of 3 times)         while it waits
    radrm: waits: REASON (limit +30 min, returned ...)   the same; its limit is longer by this
    radrm: started (limit +7 min)                        its limit is longer by its wait
    radrm:gpu_s=12.3,smact=0.61,peak_mib=11000,...       at its end: what it has used

`job_submit.lua` reads the minutes in slurmctld: where a comment replaces another, it adds the
difference to the limit that the job has then. So an update needs no question before it, twice is as
once, and a limit that an administrator changes meanwhile stays changed. Only root writes there, and
Slurm's accounting keeps it. A job's Comment is its user's: a step writes there, about a node
without a daemon, only where nothing stands.
"""

from __future__ import annotations

import math
import re

from radrm.jobfile.record import Record

MOST_RETURNS = 3
"""How often a job goes back to Slurm for another node."""
_LONGEST_REASON = 160
_END = re.compile(r"\((?:limit \+\d{1,6} min, )?returned (\d{1,3}) of \d{1,3} times\)$")
_ADDED = re.compile(r"^radrm: [^(]*\(limit \+(\d{1,6}) min[,)]")
_MARK = "radrm:"


def waiting(reason: str, returned: int, added_min: int = 0) -> str:
    """Return the comment of a job that waits for its GPU, and has been returned so often.
    `added_min`: by how much its time limit is longer meanwhile."""
    text = " ".join(reason.replace("(", "[").replace(")", "]").split())[:_LONGEST_REASON]
    limit = f"limit +{added_min} min, " if added_min else ""
    return f"{_MARK} waits: {text} ({limit}returned {returned} of {MOST_RETURNS} times)"


def started(added_min: int) -> str:
    """Return the comment of a job that has waited, and now has a time limit longer by this."""
    return f"{_MARK} started (limit +{added_min} min)"


def returned(comment: str) -> int:
    """Return how often a job has gone back to Slurm, as its comment says; 0 if it does not."""
    found = _END.search(comment.strip()) if comment.startswith(_MARK) else None
    return int(found[1]) if found else 0


def added_min(comment: str) -> int:
    """Return by how much the time limit of a job is longer, as its comment says; 0 if it does
    not."""
    found = _ADDED.match(comment)
    return int(found[1]) if found else 0


def why_waiting(comment: str) -> str | None:
    """Return the reason in the comment of a job that waits; None in any other."""
    begin = f"{_MARK} waits: "
    if not comment.startswith(begin):
        return None
    return _END.sub("", comment[len(begin) :].strip()).strip() or None


class Use(Record):
    """What all attempts of a job have used. None: unknown.

    `gpu_s` counts each GPU's seconds, `smact` is the mean SM activity of its GPUs (0 to 1),
    `peak_mib` the most memory on one of them, `energy_j` its part of their energy.
    """

    gpu_s: float | None = None
    smact: float | None = None
    peak_mib: int | None = None
    energy_j: float | None = None

    def text(self) -> str:
        """Return the comment that says so."""
        known = [f"{k}={_shown(n)}" for k, n in self.as_dict().items() if n is not None]
        return _MARK + ",".join(known)


def use_of(comment: str) -> Use | None:
    """Return what a comment says that a job has used; None if it says nothing of it."""
    if not comment.startswith(_MARK) or comment.startswith(f"{_MARK} "):
        return None
    found: dict[str, float] = {}
    for pair in comment[len(_MARK) :].strip().split(","):
        name, equals, text = pair.partition("=")
        number = _number(text)
        if equals and name in Use._fields and number is not None:
            found[name] = number
    if not found:
        return None
    peak = found.pop("peak_mib", None)
    return Use(**found, peak_mib=None if peak is None else int(peak))


def _shown(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:.3f}".rstrip("0").rstrip(".")


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) and 0 <= found < 1e15 else None
