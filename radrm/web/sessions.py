"""Who may see the page: links that work once, and the sessions that they begin.

A link has 256 random bits and is dead after its first use, or `LINK_S`. A session ends `SESSION_S`
after its beginning, or with the process. Nothing is stored.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

LINK_S = 3600.0
SESSION_S = 12 * 3600.0
MOST_LINKS = 8
MOST_SESSIONS = 64
_MOST_MESSAGES = 5


@dataclass(slots=True)
class Session:
    """One browser. `form` is the secret of its forms; `messages` are shown once."""

    until_s: float
    form: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    messages: list[str] = field(default_factory=list)
    streams: int = 0

    def say(self, message: str) -> None:
        self.messages = [*self.messages, message][-_MOST_MESSAGES:]

    def said(self) -> list[str]:
        """Return the messages that were not shown yet."""
        found, self.messages = self.messages, []
        return found


class Sessions:
    """Links and sessions. `now` returns seconds of a clock that only goes forward."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._links: dict[str, float] = {}
        self._sessions: dict[str, Session] = {}
        # The cookies of all servers on one host meet: this name keeps them apart.
        self.cookie = f"radrm-{secrets.token_hex(8)}"

    def new_link(self) -> str:
        """Return the secret of a new link. The oldest of `MOST_LINKS` dies with it."""
        while len(self._links) >= MOST_LINKS:
            del self._links[next(iter(self._links))]
        link = secrets.token_urlsafe(32)
        self._links[link] = self._now() + LINK_S
        return link

    def open(self, link: str) -> str | None:
        """Use a link. Returns the secret of a new session; None if the link is dead."""
        # Every link is compared, so that the time tells nothing of any of them.
        given = link.encode("utf-8", "replace")
        found = [each for each in self._links if secrets.compare_digest(each.encode(), given)]
        if not found or self._links.pop(found[0]) < self._now():
            return None
        while len(self._sessions) >= MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        secret = secrets.token_urlsafe(32)
        self._sessions[secret] = Session(self._now() + SESSION_S)
        return secret

    def find(self, secret: str) -> Session | None:
        """Return the session with this secret; None if it has ended."""
        session = self._sessions.get(secret)
        if session is not None and session.until_s < self._now():
            del self._sessions[secret]
            return None
        return session

    def is_open(self, session: Session) -> bool:
        return self._now() <= session.until_s and session in self._sessions.values()

    def close(self, secret: str) -> None:
        self._sessions.pop(secret, None)
