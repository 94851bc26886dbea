"""The commands of the page: cancel, hold, release, requeue, and the priority."""

from __future__ import annotations

from radrm.client.text import Document, label
from radrm.client.words.tables import refused_here
from radrm.errors import RadrmError, UsageError, plain
from radrm.web.asking import Asking

_DONE = {"cancel": "Cancelled", "hold": "Held", "release": "Released", "requeue": "Requeued"}
COMMANDS = (*_DONE, "priority")
_PRIORITY = 1000


def offered(job: Document) -> list[str]:
    """Return the commands that make sense for a job in its state."""
    checked = {"priority": "raise"}
    return [each for each in COMMANDS if not refused_here(checked.get(each, each), job)]


async def act(asking: Asking, command: str, job: Document, value: str) -> str:
    """Give a command about one job. Returns one line about what came of it; never raises a
    `RadrmError`."""
    name = label(job)
    if command not in COMMANDS:
        return f"There is no such command; the page has {', '.join(COMMANDS)}."
    try:
        if command not in offered(job):
            return refused_here("raise" if command == "priority" else command, job)
        if command == "priority":
            options = {"priority": str(_priority(value))}
            results = await asking.command("edit", jobs=[name], options=options)
        else:
            results = await asking.command(command, jobs=[name])
    except RadrmError as error:
        return plain(str(error))
    wrong = next((each["error"] for each in results if each["error"]), None)
    if wrong:
        return plain(wrong)
    if command == "priority":
        return f"Job {plain(name)} has priority {_priority(value)}."
    if any(each.get("saves") for each in results):
        return f"Asked job {plain(name)} to save its work; when it has, it is requeued."
    return f"{_DONE[command]} job {plain(name)}."


def _priority(text: str) -> int:
    try:
        found = int(text[:8])
    except ValueError:
        found = _PRIORITY + 1
    if not -_PRIORITY <= found <= _PRIORITY:
        raise UsageError(f"the priority is a whole number from -{_PRIORITY} to {_PRIORITY}")
    return found
