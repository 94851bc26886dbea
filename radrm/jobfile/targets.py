"""Who is told about a job, and of which events: the values of `--notify`."""

from __future__ import annotations

import re

from radrm.errors import shown
from radrm.jobfile.record import Record

EVENTS = ("end", "fail", "oom", "start", "idle", "silent", "held", "misplaced")
"""`end`: any end. `fail`: an end that is not COMPLETED. `oom`: an attempt hit GPU out-of-memory.
`start`: the first start. The others are warnings."""
WARNINGS = ("idle", "silent", "held", "misplaced")
KINDS = ("mail", "webhook", "command")
_MOST = 1000
_WANTED = (
    "a mail address, mail, http://..., https://..., or the absolute path of a program, with "
    ":EVENT,... or without"
)
_NAME = r"[A-Za-z0-9_+=][A-Za-z0-9._+=%-]{0,63}"
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,253}[A-Za-z0-9])?"
_URL = re.compile(
    rf"https?://(?:{_HOST}|\[[0-9A-Fa-f:.]{{2,45}}\])(?::[0-9]{{1,5}})?(?:[/?][!-~]*)?"
)


class Target(Record):
    """Where notices of some events go. `kind`: one of `KINDS`.

    `address` is a mail address ("" for the user's own mailbox), a URL, or the path of a program,
    which may begin with `~/`.
    """

    kind: str
    address: str
    events: tuple[str, ...]

    @property
    def place(self) -> str:
        """The target for the log: without a URL's path, which may be a secret."""
        if self.kind == "webhook":
            return "webhook at " + re.split("[/?]", self.address.partition("//")[2])[0]
        return f"{self.kind} {self.address}".rstrip()


def target_of(given: str) -> Target:
    """Return the target that `--notify` names. Raises ValueError with what to write."""
    if len(given) > _MOST or not given.isprintable() or not given.strip():
        raise ValueError(f"{shown(given)} is not printable text of 1 to {_MOST} characters")
    rest, events = _events(given)
    if re.fullmatch("https?://.*", rest):
        if not _URL.fullmatch(rest):
            raise ValueError(f"{shown(rest)} is not a URL with a host, and without user and spaces")
        return Target("webhook", rest, events)
    path = rest.removeprefix("exec:")
    if path != rest or re.match("~?/", path):
        if not re.match("~?/", path) or path.endswith("/"):
            raise ValueError(f"{shown(path)} is not the path of a program; begin it with / or ~/")
        return Target("command", path, events)
    if rest == "mail":
        return Target("mail", "", events)
    if len(rest) > 254 or not re.fullmatch(rf"{_NAME}@{_HOST}", rest):
        raise ValueError(f"{shown(given)} is not {_WANTED}")
    return Target("mail", rest, events)


def _events(given: str) -> tuple[str, tuple[str, ...]]:
    """Split off the events at the end. Without any, they are `end` and all warnings."""
    head, colon, tail = given.rpartition(":")
    words = tail.split(",")
    # A URL may end in a port or path, and a mistyped event must not become a part of a path.
    if not colon or not head or not re.fullmatch("[A-Za-z]+(,[A-Za-z]*)*", tail):
        return given, ("end", *WARNINGS)
    unknown = [word for word in words if word not in EVENTS]
    if head.lower() in ("exec", "http", "https", "mailto") or unknown:
        raise ValueError(
            f"{shown(unknown[0] if unknown else given)} is not one of the events "
            f"{', '.join(EVENTS)}"
        )
    return head, tuple(dict.fromkeys(words))


def notify_option(given: str) -> str | None:
    """Return the target as written; None for `none`, which removes earlier ones."""
    if given == "none":
        return None
    target_of(given)
    return given
