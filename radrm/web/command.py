"""`radrm serve`: the web page."""

from __future__ import annotations

import ipaddress
import os

from radrm.cli.listening import address
from radrm.cli.parameters import FLAG, TEXT, TEXTS, Parameter
from radrm.client.text import say, warn
from radrm.errors import RadrmError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

_PORT = 8765


_LISTEN = f"Where to listen; 127.0.0.1:{_PORT} by default; 0: any."
_NAME = "A name of the page beside localhost, as its proxy's."
_COMMANDS = "Cancel, hold, release, requeue, priority."
SERVE_PARAMETERS = (
    Parameter("listen", TEXT, _LISTEN, "[HOST:]PORT", ("--listen",)),
    Parameter(
        *("public", FLAG, "Let --listen be an address that others reach."), flags=("--public",)
    ),
    Parameter("unix", TEXT, "Listen there, for a reverse proxy.", "PATH", ("--socket",)),
    Parameter("group", TEXT, "With --socket: who may connect, too.", "GROUP", ("--group",)),
    Parameter("name", TEXTS, _NAME, "HOST", ("--name",)),
    Parameter(
        *("no_token", FLAG, "With --socket: all who reach the socket see the page."),
        flags=("--no-token",),
    ),
    Parameter("allow_commands", FLAG, _COMMANDS, flags=("--allow-commands",)),
)


def serve(
    listen: str,
    public: bool,
    unix: str,
    group: str,
    name: list[str],
    no_token: bool,
    allow_commands: bool,
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
    if not unix and (group or no_token):
        raise UsageError("--group and --no-token go with --socket")
    if unix and (listen or public):
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
    listener = listen_unix(unix, _group(group)) if unix else listen_tcp(host, port)
    names = frozenset(each.lower().removesuffix(".") for each in name)
    page = Page(Settings(names, allow_commands, not no_token))
    base = _base(listener, sorted(names))

    def ready() -> None:
        say(f"Open, once: {page.link(base)}" if not no_token else f"Serving {base}/")

    if not unix and not ipaddress.ip_address(host).is_loopback:
        warn(f"{host} can be reached by others, and nothing is encrypted: who reads the link or")
        warn("the cookie on its way sees what you see; ssh -L or a proxy with TLS is safer")
    warn(f"serving on {unix or f'{host}:{listener.getsockname()[1]}'}; Ctrl-C ends it")
    try:
        run(page, listener, ready)
    finally:
        listener.close()
        if unix:
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


def _group(name: str) -> int | None:
    import grp

    try:
        return grp.getgrnam(name).gr_gid if name else None
    except KeyError:
        raise UsageError(f"--group={name}: there is no such group") from None


def _base(listener: socket.socket, names: list[str]) -> str:
    """The page's address in a browser: that of its proxy, if it has a name."""
    if isinstance(listener.getsockname(), str):
        return f"https://{names[0] if names else 'YOUR-PROXY'}"
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
