"""The page's addresses. All are in one folder, so the page works below any prefix of a proxy."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qsl, urlencode

from msgspec import Struct, field
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from radrm import __version__
from radrm.client.text import label, warn
from radrm.core.units import SIMULATED_GPUS
from radrm.errors import RadrmError, one_line
from radrm.web.asking import Asking, act
from radrm.web.guard import SESSION_S, Guard, Session, Sessions, from_this_page, session_of
from radrm.web.live import Fragments, Live
from radrm.web.logs import Logs
from radrm.web.memory_curves import Curves
from radrm.web.rendering import STATIC, draw
from radrm.web.views import FRAGMENTS, Query, View, Views, fragments

_MOST_BODY = 8192
_BODY_S = 10.0
_SAMPLE_S = 5.0
"""How often the memory of jobs is read while nobody watches."""


class Settings(Struct, frozen=True):
    """What this server allows.

    `names`: hosts by which it is known. `commands`: it gives commands. `token`: a session is
    needed.
    """

    names: frozenset[str] = frozenset()
    commands: bool = False
    token: bool = True


class Page(Struct, dict=True):
    """The web page: its parts, and `app` for an ASGI server."""

    settings: Settings
    sessions: Sessions = field(default_factory=Sessions)

    def __post_init__(self) -> None:
        self.asking, self.curves, self.logs = Asking(), Curves(), Logs()
        self.views = Views(self.asking, self.curves, self.logs)
        self.live = Live(lambda s: not self.settings.token or self._is_open(s))
        pages: dict[str, tuple[View, str]] = {
            "/": (self.views.overview, "overview"),
            "/job": (self.views.job, "job"),
            "/history": (self.views.history, "history"),
            "/usage": (self.views.usage, "usage"),
        }
        routes = [
            Route("/open", self._open, methods=["GET"]),
            Route("/leave", self._leave, methods=["POST"]),
            Route("/events", self._events, methods=["GET"]),
            Route("/command", self._command, methods=["POST"]),
            Route("/static/{name}", self._static, methods=["GET"]),
            *(Route(path, self._shown(*how), methods=["GET"]) for path, how in pages.items()),
        ]
        self.app: ASGIApp = Guard(Starlette(routes=routes), self.settings.names)

    def link(self, base: str) -> str:
        """Return a new link that works once; without a token, the page's address."""
        if not self.settings.token:
            return f"{base}/"
        return f"{base}/open?token={self.sessions.new_link()}"

    async def sample(self) -> None:
        """Read the memory of jobs for their curves, for ever."""
        while True:
            began_s = time.monotonic()
            try:
                await self.views.gpus()
            except RadrmError:
                pass  # the next viewer sees the same error
            except Exception as error:  # the pages go on, without new points in their curves
                warn(f"the memory of jobs is no longer read: {one_line(error)}")
                return
            await asyncio.sleep(max(_SAMPLE_S, 10 * (time.monotonic() - began_s)))

    def close(self) -> None:
        self.live.closing = True
        self.asking.close()
        self.logs.close()

    # ------------------------------------------------------------- sessions

    def _is_open(self, session: Session | None) -> bool:
        return session is not None and self.sessions.is_open(session)

    def _session(self, request: Request) -> tuple[bool, Session | None]:
        """Whether the request may see the page, and its session."""
        _, session = session_of(request, self.sessions)
        return session is not None or not self.settings.token, session

    async def _open(self, request: Request) -> Response:
        purpose = request.headers.get("sec-purpose") or request.headers.get("purpose", "")
        if request.method == "HEAD" or "prefetch" in purpose:
            return PlainTextResponse("503: this link works once, so open it yourself\n", 503)
        secret = self.sessions.open(request.query_params.get("token", ""))
        if secret is None:
            return _refused("This link has been used, or is too old.")
        answer = RedirectResponse("./", 303)
        answer.set_cookie(
            self.sessions.cookie,
            secret,
            max_age=int(SESSION_S),
            path=None,
            httponly=True,
            samesite="strict",
            secure=request.headers.get("x-forwarded-proto") == "https",
        )
        return answer

    async def _leave(self, request: Request) -> Response:
        secret, session = session_of(request, self.sessions)
        form = await _form(request)
        if session is not None and from_this_page(request) and form.get("form") == session.form:
            self.sessions.close(secret)
            return _refused("You have left this page.")
        return _refused("This request did not come from the page.", 403)

    # ------------------------------------------------------------- pages

    def _shown(self, view: View, name: str) -> Callable[[Request], Awaitable[Response]]:
        async def show(request: Request) -> Response:
            allowed, session = self._session(request)
            if not allowed:
                return _refused("This page needs a link from radrm serve.")
            query = Query.of(_query(request))
            found = await view(query)
            if name == "job" and found["missing"]:
                status = 404
            else:
                status = 503 if found["trouble"] and not _is_answer(found) else 200
            words = {
                "view": name,
                "host": self.views.host,
                "simulated": SIMULATED_GPUS if self.views.simulated else "",
                "radrm": __version__,
                "commands": self.settings.commands and session is not None,
                "form": session.form if session is not None else "",
                "messages": session.said() if session is not None else [],
                "events": urlencode({"view": name, **_query(request)}) if name in FRAGMENTS else "",
                "token": self.settings.token,
            }
            return HTMLResponse(draw(f"{name}.html", **found, **words), status)

        return show

    async def _events(self, request: Request) -> Response | _Ended:
        allowed, session = self._session(request)
        if not allowed:
            return _refused("This page needs a link from radrm serve.")
        name = request.query_params.get("view", "")
        view = {"overview": self.views.overview, "job": self.views.job}.get(name)
        if view is None:
            return PlainTextResponse("404: nothing of that name is live\n", 404)
        if self.live.full(session):
            return PlainTextResponse("503: too many pages are open; close one\n", 503)
        query = Query.of(_query(request))

        async def gather() -> Fragments:
            return fragments(name, await view(query))

        return _Ended(self.live.stream((name, query), gather, session))

    async def _static(self, request: Request) -> Response:
        found = STATIC.get(request.path_params["name"])
        if found is None:
            return PlainTextResponse("404: no such file\n", 404)
        kind, data = found
        keep = {"cache-control": "public, max-age=31536000, immutable"}
        return Response(data, media_type=kind, headers=keep)

    # ------------------------------------------------------------- commands

    async def _command(self, request: Request) -> Response:
        """Give a command, if this page was allowed to, and sent it."""
        _, session = session_of(request, self.sessions)
        if session is None:
            return _refused("This page needs a link from radrm serve.")
        if not self.settings.commands:
            return _refused("This page is read-only; see radrm serve --allow-commands.", 403)
        form = await _form(request)
        if not from_this_page(request) or form.get("form") != session.form:
            return _refused("This request did not come from the page, so nothing is done.", 403)
        found = await self.views.job(Query.of({"job": form.get("job", "")}))
        if found["job"] is None:
            session.say(found["trouble"])
            return RedirectResponse("./", 303)
        job = found["job"]
        command, value = form.get("command", ""), form.get("value", "")
        session.say(await act(self.asking, command, job, value))
        return RedirectResponse(f"job?{urlencode({'job': label(job)})}", 303)


class _Ended(Response):
    """A stream in place of an answer: Starlette only calls it."""

    def __init__(self, stream: ASGIApp) -> None:
        super().__init__()
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._stream(scope, receive, send)


def _is_answer(found: dict[str, object]) -> bool:
    """Whether the daemon answered: a filter that it does not understand is no failure."""
    return not str(found["trouble"]).startswith("The daemon does not answer")


def _query(request: Request) -> dict[str, str]:
    pairs = parse_qsl(request.url.query[:4096])[:20]
    return {key: value for key, value in pairs if key != "view"}


async def _form(request: Request) -> dict[str, str]:
    """The fields of a small form; {} for any other body."""
    body = b""
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return {}

    async def read() -> None:
        nonlocal body
        async for piece in request.stream():
            body += piece
            if len(body) > _MOST_BODY:
                raise ClientDisconnect

    try:
        await asyncio.wait_for(read(), _BODY_S)
    except (asyncio.TimeoutError, ClientDisconnect):
        return {}
    return dict(parse_qsl(body.decode("utf-8", "replace"))[:20])


def _refused(why: str, status: int = 401) -> Response:
    return HTMLResponse(draw("refused.html", why=why, status=status), status)
