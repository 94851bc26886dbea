"""What `radrun` answers to a new placement (`resized-G.json`), checked."""

from __future__ import annotations

from msgspec import Struct

from radrm.core.records import Placement
from radrm.errors import plain
from radrm.host.attempts.elastic import names

_MOST_SHOWN = 200


class Answer(Struct, frozen=True):
    """`failed` None: the attempt runs on the placement. Else why not, in one line."""

    failed: str | None = None


def read_answer(text: str, generation: int, target: Placement) -> Answer:
    """Return the answer in a `resized-G.json`. One that is not usable is a failure."""
    name = names.resized(generation)
    fields = names.decode(text)
    if isinstance(fields, str):
        return Answer(f"radrun's answer {name} is not usable: {fields}")
    if type(fields.get("generation")) is not int or fields["generation"] != generation:
        return Answer(f"radrun's answer {name} is about another generation")
    failed = fields.get("failed")
    if isinstance(failed, str):
        return Answer(f"radrun: {plain(failed)[:_MOST_SHOWN] or 'no reason'}")
    if failed is not None:
        return Answer(f"radrun's answer {name} is not usable: 'failed' is not a text")
    tasks = fields.get("tasks")
    if not isinstance(tasks, list) or len(tasks) > names.MOST_TASKS:
        return Answer(f"radrun's answer {name} is not usable: it names no tasks")
    wanted = {(share.role, share.task) for share in target.shares}
    told = {tuple(t) for t in tasks if isinstance(t, list) and len(t) == 2 and names.is_task(*t)}
    if len(told) != len(tasks) or told != wanted:
        return Answer(
            f"radrun's answer {name} names {len(tasks)} tasks that are not the "
            f"{len(wanted)} of the placement"
        )
    return Answer()
