"""What clients say, read with suspicion: every word may come from anybody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from radrm.core.records import Job
from radrm.core.words import JobState
from radrm.errors import UsageError

Words = dict[str, Any]

MAX_REFERENCES = 10_000
MAX_PAGE = 1000
MAX_FINISHED = 10_000
"""The latest jobs that have ended, of which anybody is told who asks for all."""


def references(words: Words, most: int = MAX_REFERENCES) -> list[str]:
    """The jobs that a request names, as written."""
    return _texts(words.get("jobs"), "job ids, tickets or names", needed=True, most=most)


def device_words(words: Words) -> list[str]:
    return _texts(words.get("devices", []), "GPU indices or UUIDs", needed=False)


def _texts(found: object, what: str, needed: bool, most: int = MAX_REFERENCES) -> list[str]:
    if not isinstance(found, list) or not all(_is_text(r) for r in found):
        raise UsageError(f"the request takes a list of {what}")
    if needed and not found:
        raise UsageError(f"the request takes at least one of {what}")
    if len(found) > most:
        raise UsageError(f"the request takes at most {most} of {what}")
    return found


def _is_text(value: object) -> bool:
    """Text that can be looked for: JSON can spell halves of characters, too."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def reason_word(words: Words) -> str | None:
    """Why a device is drained: one line; None where none is given."""
    found = words.get("reason")
    if found is None or found == "":
        return None
    if not isinstance(found, str) or not found.isprintable() or len(found) > 200:
        raise UsageError("the reason is not a line of at most 200 characters")
    return found


def raw_options(words: Words) -> Words:
    """Options as written; whether they can be read is for the option table to say."""
    found = words.get("options")
    if not isinstance(found, dict) or not found or found.keys() & {"array", "hold"}:
        raise UsageError("the request 'edit' takes a table of options, without 'array', 'hold'")
    return found


def states(words: Words) -> frozenset[JobState]:
    """The states asked for; empty where none is."""
    found = words.get("state")
    if found is None:
        return frozenset()
    names = found.upper().split(",") if isinstance(found, str) else []
    if not names or not all(name in JobState.__members__ for name in names):
        known = ", ".join(JobState.__members__)
        raise UsageError(f"{found!r} is not a state; the states are {known}")
    return frozenset(JobState[name] for name in names)


def filters(words: Words) -> Callable[[Job], bool] | None:
    """Whether a job is of the user and in one of the states asked for; None where neither is."""
    user, wanted = words.get("user"), states(words)
    if user is None and not wanted:
        return None
    if user is not None and not _is_text(user):
        raise UsageError("the request takes a user by name")
    return lambda job: (
        (user is None or job.spec.user == user) and (not wanted or job.state in wanted)
    )


def cursor(words: Words) -> int | None:
    """The id of the last job that the client knows of a long answer; None where it does not
    take one in pages."""
    found = words.get("after")
    if found is not None and (type(found) is not int or not 0 <= found < 2**62):
        raise UsageError("the request takes the id of a job to go on after")
    return found


def page(words: Words) -> tuple[int, int]:
    """Where a page begins, and how many rows it has."""
    offset, limit = words.get("offset", 0), words.get("limit", MAX_PAGE)
    if type(offset) is not int or type(limit) is not int or offset < 0 or limit < 1:
        raise UsageError("a page has an offset from 0 on and a limit from 1 on")
    return offset, min(limit, MAX_PAGE)
