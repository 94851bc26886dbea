"""What stands before every request: its Host, its session, and the headers of every answer.

Theory of operation. Other users of the server reach the port, and other pages in the reader's
browser can send requests to it. So a request needs the cookie of a session, and a Host that is
an address or a known name (against DNS rebinding). A command also needs the secret of the session's
forms, and a browser that says it comes from this page. No answer lets a browser run or load
anything but the page's own files.
"""

from __future__ import annotations

import ipaddress

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from radrm.client.text import warn
from radrm.errors import one_line
from radrm.web.sessions import Session, Sessions

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
