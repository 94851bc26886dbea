"""Read and check the arguments of requests, because any user can send anything.

Every function raises `UsageError` for an unusable argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

from radrm.core.records import Job
from radrm.core.units import spelled_out
from radrm.core.words import JobState
from radrm.errors import UsageError
from radrm.jobfile.options import FIXED
from radrm.jobfile.values import shown

Words = dict[str, Any]
"""A request: one JSON object."""

MAX_REFERENCES = 10_000
MAX_PAGE = 1000
MAX_FINISHED = 10_000
"""Most ended jobs, the latest, in an answer about all jobs."""


def references(words: Words, most: int = MAX_REFERENCES) -> list[str]:
    """The jobs that a request names, as the client wrote them."""
    return _texts(words.get("jobs"), "job ids, tickets or names", needed=True, most=most)


def device_words(words: Words) -> list[str]:
    """The devices that a request names, each alone: `0-3,5` are five. None means all."""
    found: dict[str, None] = {}
    for text in _texts(words.get("devices", []), "GPU indices or UUIDs", needed=False):
        for word in text.split(","):
            try:
                found |= dict.fromkeys(spelled_out(word.strip()))
            except ValueError as cause:
                raise UsageError(str(cause)) from None
        if len(found) > MAX_REFERENCES:
            raise UsageError(f"the request names more than {MAX_REFERENCES} GPUs")
    return list(found)


def _texts(found: object, what: str, needed: bool, most: int = MAX_REFERENCES) -> list[str]:
    if not isinstance(found, list) or not all(is_text(r) for r in found):
        raise UsageError(f"the request takes a list of {what}")
    if needed and not found:
        raise UsageError(f"the request takes at least one of {what}")
    if len(found) > most:
        raise UsageError(f"the request takes at most {most} of {what}")
    return found


def is_text(value: object) -> TypeGuard[str]:
    """Whether a value is text that UTF-8 can encode: JSON can also spell half a character."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def reason_word(words: Words) -> str | None:
    """Why devices are drained, in one line; None if the client gives no reason."""
    found = words.get("reason")
    if found is None or found == "":
        return None
    if not isinstance(found, str) or not found.isprintable() or len(found) > 200:
        raise UsageError("the reason is not a line of at most 200 characters")
    return found


def raw_options(words: Words) -> Words:
    """The options of an edit or requeue as the client wrote them. The option table reads them."""
    found = words.get("options")
    if not isinstance(found, dict) or not found or found.keys() & FIXED:
        without = ", ".join(map(repr, sorted(FIXED)))
        raise UsageError(f"the request takes a table of options, without {without}")
    return found


def states(words: Words) -> frozenset[JobState]:
    """The states that the client asks for; empty if it names none."""
    found = words.get("state")
    if found is None:
        return frozenset()
    names = found.upper().split(",") if isinstance(found, str) else []
    if not names or not all(name in JobState.__members__ for name in names):
        known = ", ".join(JobState.__members__)
        raise UsageError(f"{shown(str(found))} is not a state; the states are {known}")
    return frozenset(JobState[name] for name in names)


def asks_for_ended(words: Words) -> bool:
    """Whether the client asks also for jobs that have ended."""
    return bool(words.get("all")) or any(each.final for each in states(words))


def filters(words: Words) -> Callable[[Job], bool] | None:
    """A test whether a job has the user and one of the states that the client asks for; None if
    it asks for neither."""
    user, wanted = words.get("user"), states(words)
    if user is None and not wanted:
        return None
    if user is not None and not is_text(user):
        raise UsageError("the request takes a user by name")
    return lambda job: (
        (user is None or job.spec.user == user) and (not wanted or job.state in wanted)
    )


def cursor(words: Words) -> int | None:
    """The id of the last job on the page before, 0 for the first page; None if the client does
    not ask in pages."""
    found = words.get("after")
    if found is not None and (type(found) is not int or not 0 <= found < 2**62):
        raise UsageError("the request takes the id of the job after which the page begins")
    return found


def page(words: Words) -> tuple[int, int]:
    """The first row of a page, and how many rows it has."""
    offset, limit = words.get("offset", 0), words.get("limit", MAX_PAGE)
    if type(offset) is not int or type(limit) is not int or offset < 0 or limit < 1:
        raise UsageError("a page has an offset from 0 on and a limit from 1 on")
    return offset, min(limit, MAX_PAGE)
