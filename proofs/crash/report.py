"""What a run of the crash matrix found, as a few lines and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from proofs.crash.account import KINDS
from proofs.crash.matrix import Tally
from proofs.crash.points import never_reached

_SHOWN = 20


def report(tally: Tally, seconds: float) -> Iterator[str]:
    """The lines that tell what was killed and what came of it."""
    kills = tally.kills.total()
    cuts = tally.cuts.total()
    yield f"{kills} kills and {cuts} power failures over {tally.jobs} jobs in {seconds:.0f} s"
    yield f"{tally.starts} daemons were started"
    found = {kind: tally.wrong.get(kind, []) for kind in KINDS}
    yield ", ".join(f"{kind}: {len(lines)}" for kind, lines in found.items())
    for kind, lines in found.items():
        yield from (f"  {kind}: {line}" for line in lines[:_SHOWN])
    yield "kills, power failures, and turns in which it was not crossed, of each fault point:"
    for point in sorted(tally.reached | set(tally.kills)):
        yield f"  {tally.kills[point]:5} {tally.cuts[point]:5} {tally.misses[point]:5}  {point}"
    for point in never_reached(tally.reached):
        yield f"  never crossed: {point}"


def as_json(tally: Tally) -> dict[str, Any]:
    """Return the figures of a tally as JSON."""
    return {
        "kills": tally.kills,
        "misses": tally.misses,
        "cuts": tally.cuts,
        "reached": sorted(tally.reached),
        "jobs": tally.jobs,
        "starts": tally.starts,
        "wrong": tally.wrong,
    }


def from_json(fields: dict[str, Any]) -> Tally:
    """Return the tally of `as_json`."""
    counters = (Counter(fields.pop(name)) for name in ("kills", "misses", "cuts"))
    return Tally(*counters, set(fields.pop("reached")), **fields)
