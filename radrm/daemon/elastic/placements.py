"""The text of a placement, for `radrun` (`host/attempts/elastic/names.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from radrm.core.records import Placement, Share
from radrm.errors import Refused
from radrm.host.attempts.elastic.names import MOST_BYTES, MOST_TASKS, encode


def placement_text(
    placement: Placement,
    generation: int,
    environments: Mapping[tuple[str, int], Mapping[str, str]],
    grace_s: float,
    due_boot_s: float | None,
    boot_id: str,
) -> str:
    """Return the text of generation `generation`.

    Real seconds: `grace_s` from TERM to KILL, and `due_boot_s` since boot, after which `radrun`
    must not begin to change tasks any more (None: it starts them). Raises `Refused` if it is too
    long.
    """
    tasks = [
        {
            "role": role,
            "task": number,
            "gpus": [s.device for s in shares if s.device is not None],
            "cpus": shares[0].cpus,
            "environment": dict(environments[role, number]),
        }
        for (role, number), shares in by_task(placement.shares).items()
    ]
    text = encode(
        {
            "generation": generation,
            "grace_s": grace_s,
            "due_boot_s": due_boot_s,
            "boot_id": boot_id,
            "tasks": tasks,
        }
    )
    if len(text) > MOST_BYTES or len(tasks) > MOST_TASKS:
        raise Refused(
            f"{len(tasks)} tasks are more than one launcher can be told of; ask for fewer"
        )
    return text


def shares_text(shares: Iterable[Share]) -> str:
    """Return the text that says which CPUs each task has now."""
    tasks = [
        {"role": role, "task": number, "cpus": each[0].cpus}
        for (role, number), each in by_task(shares).items()
    ]
    return encode({"tasks": tasks})


def by_task(shares: Iterable[Share]) -> dict[tuple[str, int], list[Share]]:
    """Return the shares of each task, by role and number."""
    found: dict[tuple[str, int], list[Share]] = {}
    for share in shares:
        found.setdefault((share.role, share.task), []).append(share)
    return found
