"""Who may see the page: links that work once, sessions, host and headers of every request.

Theory of operation. Other users of the server reach the port, and other pages in the reader's
browser can send requests to it. So a request needs the cookie of a session, and a Host that is
an address or a known name (against DNS rebinding). A command also needs the secret of the session's
forms, and a browser that says it comes from this page. No answer lets a browser run or load
anything but the page's own files.

A link has 256 random bits and is dead after its first use, or `LINK_S`. A session ends `SESSION_S`
after its beginning, or with the process. Nothing is stored.
"""

from __future__ import annotations

import ipaddress
import secrets
import time
from collections.abc import Callable

from msgspec import Struct, field
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from radrm.client.text import warn
from radrm.errors import one_line

LINK_S = 3600.0
SESSION_S = 12 * 3600.0
MOST_LINKS = 8
MOST_SESSIONS = 64
_MOST_MESSAGES = 5


class Session(Struct):
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


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Guard:
    """Lets requests to known hosts through, and adds the headers to every answer.

    `names`: hosts beside `localhost` and addresses. An error in the page itself becomes one line
    here and a short answer there.
    """

    def __init__(self, app: ASGIApp, names: frozenset[str]) -> None:
        self._app = app
        self._names = names | {"localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = False

        async def safe(message: Message) -> None:
            nonlocal began
            if message["type"] == "http.response.start":
                began = True
                headers = [*message.get("headers", ()), *_HEADERS]
                if all(name != b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                message = {**message, "headers": headers}
            await send(message)

        hosts = Headers(scope=scope).getlist("host")
        try:
            if len(hosts) != 1 or not is_known(hosts[0], self._names):
                text = "421: this host is not known here; name it: radrm serve --name HOST\n"
                await PlainTextResponse(text, 421)(scope, receive, safe)
            else:
                await self._app(scope, receive, safe)
        except Exception as error:  # whatever it is, the others' pages go on
            warn(f"a request failed: {one_line(error)}")
            if began:
                raise
            await PlainTextResponse("500: the page failed\n", 500)(scope, receive, safe)


def is_known(host: str, names: frozenset[str]) -> bool:
    """Whether a Host is an address or one of the names. An address cannot be rebound."""
    bare = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    if bare.startswith("[") and bare.endswith("]"):
        bare = bare[1:-1]
    try:
        ipaddress.ip_address(bare)
    except ValueError:
        return bare.lower().removesuffix(".") in names
    return True


def session_of(request: Request, sessions: Sessions) -> tuple[str, Session | None]:
    """The secret in a request's cookie, and its session; None without one."""
    # Of all pages on this host name; `SimpleCookie` drops all of them for a single odd one.
    secret = request.cookies.get(sessions.cookie, "")
    return secret, sessions.find(secret)


def from_this_page(request: Request) -> bool:
    """Whether a browser says that this page, and no other, sent the request."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("origin", "")
    return origin.partition("://")[2] == request.headers.get("host")
