"""`radrm serve`: the web page."""

from __future__ import annotations

import ipaddress
import os
from typing import Annotated

import typer

from radrm.cli.options import address
from radrm.client.text import warn
from radrm.errors import RadrmError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

_PORT = 8765


def serve(
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:]PORT", help=f"Where to listen; 127.0.0.1:{_PORT} by default; 0: any."
        ),
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="Let --listen be an address that others reach.")
    ] = False,
    unix: Annotated[
        str | None,
        typer.Option("--socket", metavar="PATH", help="Listen there, for a reverse proxy."),
    ] = None,
    group: Annotated[
        str | None, typer.Option(metavar="GROUP", help="With --socket: who may connect, too.")
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="A name of the page beside localhost, as its proxy's."),
    ] = None,
    no_token: Annotated[
        bool,
        typer.Option("--no-token", help="With --socket: all who reach the socket see the page."),
    ] = False,
    allow_commands: Annotated[
        bool, typer.Option("--allow-commands", help="Cancel, hold, release, requeue, priority.")
    ] = False,
) -> None:
    """Show GPUs, jobs, logs and the history as a live web page.

    It prints a link that works once; `kill -USR1` of its process prints another. It sees and does
    what you may. It needs the extra `web`.

    \b
    Examples:
      radrm serve
      ssh -L 8765:127.0.0.1:8765 SERVER radrm serve
      radrm serve --allow-commands
      radrm serve --socket /run/radrm-page/socket --group www-data --name gpu.example.org
    """
    if unix is None and (group is not None or no_token):
        raise UsageError("--group and --no-token go with --socket")
    if unix is not None and (listen is not None or public):
        raise UsageError("take --listen or --socket")
    if no_token and allow_commands:
        raise UsageError(
            "--allow-commands needs the links: with --no-token, all who reach the socket would "
            "give commands as you"
        )
    try:
        from radrm.web.app import Page, Settings
        from radrm.web.serving import listen_tcp, listen_unix
        from radrm.web.serving import serve as run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in (
            *("starlette", "uvicorn", "jinja2", "markupsafe", "h11"),
        ):
            raise
        from radrm.extras import lacks

        raise RadrmError(lacks("radrm serve", "starlette", "web")) from None
    host, port = _address(listen or str(_PORT), public)
    listener = listen_tcp(host, port) if unix is None else listen_unix(unix, _group(group))
    names = frozenset(each.lower().removesuffix(".") for each in name or ())
    page = Page(Settings(names, allow_commands, not no_token))
    base = _base(listener, sorted(names))

    def ready() -> None:
        print(f"Open, once: {page.link(base)}" if not no_token else f"Serving {base}/", flush=True)

    if unix is None and not ipaddress.ip_address(host).is_loopback:
        warn(f"{host} can be reached by others, and nothing is encrypted: who reads the link or")
        warn("the cookie on its way sees what you see; ssh -L or a proxy with TLS is safer")
    warn(f"serving on {unix or f'{host}:{listener.getsockname()[1]}'}; Ctrl-C ends it")
    try:
        run(page, listener, ready)
    finally:
        listener.close()
        if unix is not None:
            try:
                os.unlink(unix)
            except FileNotFoundError:
                pass


def _address(text: str, public: bool) -> tuple[str, int]:
    """Return where to listen. Raises `UsageError`."""
    host, port = address(text, _PORT)
    if not host.is_loopback and not public:
        raise UsageError(
            f"others reach {host}, and the page is not encrypted; take ssh -L, a proxy with "
            "--socket, or add --public"
        )
    return str(host), port


def _group(name: str | None) -> int | None:
    import grp

    try:
        return None if name is None else grp.getgrnam(name).gr_gid
    except KeyError:
        raise UsageError(f"--group={name}: there is no such group") from None


def _base(listener: socket.socket, names: list[str]) -> str:
    """The page's address in a browser: that of its proxy, if it has a name."""
    if isinstance(listener.getsockname(), str):
        return f"https://{names[0] if names else 'YOUR-PROXY'}"
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
