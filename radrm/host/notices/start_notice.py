"""The main program of the process that sends one notice, as the job's user.

    python -I -S start_notice.py       (`Wanted` as JSON on standard input)

The answer goes to standard output, as JSON: `error` (None: sent) and `final` (another try would
fail, too). The process ends itself at its time limit, even if the daemon is dead. All imports come
before the change of user, because that user may have no right to read this Python installation.
"""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import sys
from importlib import import_module

if not __package__:
    # With `-I` Python adds no folder of ours to `sys.path`; the package is three folders up.
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)))

from radrm.host.attempts.job_process import CannotStart, drop_rights
from radrm.host.processes.errand import confine
from radrm.jobfile.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LIMIT_S = 30
"""Seconds after which the process is ended."""
_REQUEST_S = 15
"""Seconds that a server may leave a request without an answer."""
_MOST_SAID = 4096
_TRY_AGAIN = frozenset({408, 425, 429})
"""Answers of a client's error that may pass."""


class Wanted(Record):
    """A URL to which `body` is sent, or a command that gets it on its standard input; and as which
    user. With `uid` and `gid` None it is this process's user."""

    body: str
    user: str
    url: str = ""
    command: list[str] = []
    environment: dict[str, str] = {}
    uid: int | None = None
    gid: int | None = None
    cgroup: str | None = None


class Failed(Exception):
    """The notice is not sent. `final`: another try would fail, too."""

    def __init__(self, why: str, final: bool = False) -> None:
        super().__init__(why)
        self.final = final


def main() -> None:
    with open(0, "rb", closefd=False) as source:
        wanted = Wanted(**json.loads(source.read()))
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    answer: dict[str, Any] = {"error": None, "final": False}
    try:
        _send(wanted)
    except Failed as error:
        answer = {"error": str(error), "final": error.final}
    except (CannotStart, OSError, ValueError) as error:
        answer["error"] = str(error)
    with open(1, "wb", closefd=False) as out:
        out.write(json.dumps(answer).encode())


def _send(wanted: Wanted) -> None:
    confine(LIMIT_S, wanted.cgroup)
    if wanted.url:  # Python would import these only while it sends
        for name in ("urllib.request", "http.client", "ssl", "encodings.idna", "stringprep"):
            import_module(name)
    try:
        home = pwd.getpwuid(os.getuid() if wanted.uid is None else wanted.uid).pw_dir or "/"
    except KeyError:
        home = "/"
    drop_rights({"uid": wanted.uid, "gid": wanted.gid, "user": wanted.user})
    os.umask(0o077)
    try:
        os.chdir(home)
    except OSError:
        home = "/"
    if wanted.url:
        _post(wanted)
    else:
        _run(wanted, home)


def _post(wanted: Wanted) -> None:
    import urllib.error
    import urllib.request

    class Refuses(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any, **__: Any) -> None:
            return None  # the answer is then an error

    headers = {"Content-Type": "application/json", "User-Agent": "radrm"}
    request = urllib.request.Request(wanted.url, wanted.body.encode(), headers, method="POST")
    opener = urllib.request.build_opener(Refuses)  # with the proxies of its environment
    try:
        with opener.open(request, timeout=_REQUEST_S):
            pass
    except urllib.error.HTTPError as error:
        if 300 <= error.code < 400:
            why = f"it answers {error.code}, with another address, which is not followed"
            raise Failed(why, final=True) from None
        final = 400 <= error.code < 500 and error.code not in _TRY_AGAIN
        raise Failed(f"it answers {error.code} {error.reason}", final) from None
    except (OSError, ValueError, RuntimeError) as error:
        cause = getattr(error, "reason", error)  # of a URLError
        words = cause.strerror if isinstance(cause, OSError) else str(cause)
        raise Failed(f"no answer: {words or type(cause).__name__}") from None


def _run(wanted: Wanted, home: str) -> None:
    """Run the command, with few variables and the token of this process.

    Input and errors are files in memory: nobody waits for an end that the program leaves open.
    """
    path, *words = wanted.command
    if path.startswith("~/"):
        path = os.path.join(home, path[2:])
    own = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": home, "LANG": "C.UTF-8"}
    tokens = {key: value for key, value in os.environ.items() if key.startswith("RADRM_")}
    user = {"USER": wanted.user, "LOGNAME": wanted.user}
    with open(os.memfd_create("body"), "wb+") as body, open(os.memfd_create("said"), "rb+") as said:
        body.write(wanted.body.encode())
        body.seek(0)
        try:
            process = subprocess.Popen(
                [path, *words],
                stdin=body,
                stdout=subprocess.DEVNULL,
                stderr=said,
                env={**own, **user, **wanted.environment, **tokens},
                start_new_session=True,
            )
        except OSError as error:
            raise Failed(f"cannot run {path}: {error.strerror}", True) from None
        try:
            code = process.wait(LIMIT_S - 2)
        except subprocess.TimeoutExpired:
            raise Failed(f"the program takes longer than {LIMIT_S - 2} s") from None
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # the daemon may be dead: nobody else would
            except OSError:
                pass  # the group has no process
        if code:
            text = os.pread(said.fileno(), _MOST_SAID, 0).decode("utf-8", "replace")
            last = next((f": {x.strip()}" for x in reversed(text.split("\n")) if x.strip()), "")
            how = f"signal {-code}" if code < 0 else code
            raise Failed(f"{os.path.basename(path)} ends with {how}{last}")


if __name__ == "__main__":
    main()
