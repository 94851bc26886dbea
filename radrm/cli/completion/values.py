"""The candidates for a value. Those that only the daemon knows are asked for within a second."""

from __future__ import annotations

import os

from radrm.client.connection import Client
from radrm.errors import RadrmError, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from radrm.cli.completion.line import Place

_LIMIT_S = 1.0
_MOST = 200
"""Jobs that are looked at. Nobody reads more candidates."""
_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+,/-")
"""Characters that no shell gives a meaning. Names are chosen by other users, too."""
_OF_UNFINISHED = frozenset({"cancel", "hold", "release", "edit", "checkpoint", "migrate", "resize"})
"""Commands that have nothing to do with jobs that have ended."""


def candidates(place: Place, known: dict[str, Any]) -> list[tuple[str, str]]:
    """The values that begin as the word does, each with its help. Without a daemon that answers
    there are none of its own."""
    kind = place.values
    try:
        if isinstance(kind, list):
            found = [(word, "") for word in kind]
        elif kind == "settings":
            found = [(f"{key}=", "") for key in known["settings"]]
        elif kind in _ASK:
            found = list(_ASK[kind](place))
        else:
            return []
    except (RadrmError, OSError):
        return []
    return [(text, about) for text, about in dict(found).items() if text.startswith(place.start)]


def _jobs(place: Place) -> Iterator[tuple[str, str]]:
    """The user's own jobs, by label and by name; root's: all jobs."""
    words: dict[str, Any] = {"all": place.command not in _OF_UNFINISHED}
    if place.start and set(place.start) <= _SAFE and not place.start[0].isdigit():
        words["jobs"] = [f"{place.start}*"]
    elif os.getuid() != 0:
        words["user"] = _me()
    rows = _ask("page", **words, offset=0, limit=_MOST)["jobs"]
    for row in rows:
        several = row.get("count", 1) > 1
        label = str(row["array_id"] if several else row["label"])
        yield label, plain(f"{row['name']}, {row['state']}")
    for row in rows:
        if _is_safe(row["name"]):
            yield row["name"], plain(f"job {row['label']}, {row['state']}")


def _gpus(place: Place) -> Iterator[tuple[str, str]]:
    for gpu in _ask("gpus"):
        yield str(gpu["index"]), plain(f"{gpu['name']}, {gpu['state']}")


def _users(place: Place) -> Iterator[tuple[str, str]]:
    for each in _ask("shares")["users"]:
        if _is_safe(each["user"]):
            yield each["user"], f"{each['running']} running, {each['waiting']} waiting"


_ASK = {"jobs": _jobs, "gpus": _gpus, "users": _users}


def _is_safe(name: str) -> bool:
    return bool(name) and set(name) <= _SAFE and not name.startswith("-")


def _me() -> str:
    import pwd  # only here: root asks for all jobs

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _ask(op: str, **words: Any) -> Any:
    with Client(limit_s=_LIMIT_S) as client:
        return client.ask(op, **words) if client.is_up() else _NOTHING.get(op, [])


_NOTHING: dict[str, Any] = {"page": {"jobs": []}, "shares": {"users": []}}
