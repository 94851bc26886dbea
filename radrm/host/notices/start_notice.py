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
import select
import signal
import subprocess
import sys
import time
from importlib import import_module

if not __package__:
    # With `-I` Python adds no folder of ours to `sys.path`; the package is three folders up.
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)))

from radrm.errors import plain
from radrm.host.attempts.job_process import CannotStart, drop_rights
from radrm.host.processes.confined import confine
from radrm.jobfile.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LIMIT_S = 30
"""Seconds after which the process is ended."""
_REQUEST_S = 15
"""Seconds that a server may leave a request without an answer."""
_MOST_SAID = 4096
_LONGEST = 300
_PATH = "/usr/local/bin:/usr/bin:/bin"
_PASSING = frozenset({408, 425, 429})
"""Answers of a client's error that may pass."""


class Wanted(Record):
    """What to send, where, and as which user. With `uid` and `gid` None it is this process's user.

    `text` is for people, `chat` the JSON for a webhook, `environment` are variables of a program.
    """

    kind: str
    address: str
    subject: str
    text: str
    chat: dict[str, Any]
    user: str
    uid: int | None = None
    gid: int | None = None
    sendmail: str = "/usr/sbin/sendmail"
    mail_from: str = ""
    mail_domain: str = ""
    environment: dict[str, str] = {}
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
    if answer["error"] is not None:
        answer["error"] = plain(answer["error"])[:_LONGEST]
    with open(1, "wb", closefd=False) as out:
        out.write(json.dumps(answer).encode())


def _send(wanted: Wanted) -> None:
    confine(LIMIT_S, wanted.cgroup)
    _import_all(wanted)
    home = _home(os.getuid() if wanted.uid is None else wanted.uid)
    drop_rights({"uid": wanted.uid, "gid": wanted.gid, "user": wanted.user})
    os.umask(0o077)
    try:
        os.chdir(home)
    except OSError:
        home = "/"
    if wanted.kind == "mail":
        _mail(wanted, home)
    elif wanted.kind == "webhook":
        _post(wanted)
    else:
        _command(wanted, home)


def _import_all(wanted: Wanted) -> None:
    """Import what Python would import only while it sends: a dummy shows what a mail needs."""
    if wanted.kind == "webhook":
        for name in ("urllib.request", "http.client", "ssl", "encodings.idna", "stringprep"):
            import_module(name)
    elif wanted.kind == "mail":
        _mail_of("me@example.org", "me@example.org", "\u00e4 " * 60, "\u00e4 " * 200)


def _home(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_dir or "/"
    except KeyError:
        return "/"


# ------------------------------------------------------------------ mail


def _mail(wanted: Wanted, home: str) -> None:
    domain = f"@{wanted.mail_domain}" if wanted.mail_domain else ""
    to = wanted.address or f"{wanted.user}{domain}"
    mail = _mail_of(to, wanted.mail_from, wanted.subject, wanted.text)
    sender = ["-f", wanted.mail_from] if wanted.mail_from else []
    # The parser lets no address begin with a hyphen.
    _run([wanted.sendmail, "-i", *sender, to], mail, _environment(wanted, home))


def _mail_of(to: str, sender: str, subject: str, text: str) -> bytes:
    from email.message import EmailMessage
    from email.policy import SMTP

    mail = EmailMessage(policy=SMTP.clone(linesep="\n"))
    mail["To"] = to
    if sender:
        mail["From"] = sender
    mail["Subject"] = subject
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Mailer"] = "radrm"
    mail.set_content(text)
    return mail.as_bytes()


# ------------------------------------------------------------------ webhook


def _post(wanted: Wanted) -> None:
    import urllib.error
    import urllib.request

    class Refuses(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any, **__: Any) -> None:
            return None  # the answer is then an error

    request = urllib.request.Request(
        wanted.address,
        data=json.dumps(wanted.chat).encode(),
        headers={"Content-Type": "application/json", "User-Agent": "radrm"},
        method="POST",
    )
    opener = urllib.request.build_opener(Refuses)  # with the proxies of its environment
    try:
        with opener.open(request, timeout=_REQUEST_S):
            pass
    except urllib.error.HTTPError as error:
        if 300 <= error.code < 400:
            why = f"it answers {error.code}, with another address, which is not followed"
            raise Failed(why, final=True) from None
        final = 400 <= error.code < 500 and error.code not in _PASSING
        raise Failed(f"it answers {error.code} {error.reason}", final) from None
    except urllib.error.URLError as error:
        raise Failed(f"no answer: {_cause(error.reason)}") from None
    except (OSError, ValueError, RuntimeError) as error:
        raise Failed(f"no answer: {_cause(error)}") from None


def _cause(error: object) -> str:
    """Return the cause of a failed request in words, without the number of an error."""
    words = error.strerror if isinstance(error, OSError) else None
    return words or str(error) or type(error).__name__


# ------------------------------------------------------------------ programs


def _command(wanted: Wanted, home: str) -> None:
    path = wanted.address
    if path.startswith("~/"):
        path = os.path.join(home, path[2:])
    _run([path], wanted.text.encode(), _environment(wanted, home))


def _environment(wanted: Wanted, home: str) -> dict[str, str]:
    """The environment of a program: few variables, and the token of this process."""
    own = {"PATH": _PATH, "HOME": home, "USER": wanted.user, "LOGNAME": wanted.user}
    tokens = {key: value for key, value in os.environ.items() if key.startswith("RADRM_")}
    return {**own, "LANG": "C.UTF-8", **wanted.environment, **tokens}


def _run(command: list[str], data: bytes, environment: dict[str, str]) -> None:
    """Run a program with `data` on its standard input. Raises `Failed` if it fails."""
    name = os.path.basename(command[0])
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        raise Failed(f"cannot run {command[0]}: {error.strerror}", True) from None
    assert process.stdin is not None and process.stderr is not None
    try:
        with process.stdin as to:  # less than a pipe holds, so this never waits
            to.write(data)
    except OSError:
        pass  # it does not read its input
    try:
        said = _last_words(process)
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)  # the daemon may be dead: nobody else would
        except OSError:
            pass  # the group has no process
    if process.returncode:
        how = f"signal {-process.returncode}" if process.returncode < 0 else process.returncode
        raise Failed(f"{name} ends with {how}{': ' + said if said else ''}")


def _last_words(process: subprocess.Popen[bytes]) -> str:
    """Wait for a program's end. Return the last line of what it first wrote as an error.

    A process that it leaves may keep the pipe open, so the end of the pipe does not count.
    """
    assert process.stderr is not None
    source, said = process.stderr.fileno(), b""
    os.set_blocking(source, False)
    ended = os.pidfd_open(process.pid)
    until = time.monotonic() + LIMIT_S - 2
    open_ends = [ended, source]
    while True:
        ready, _, _ = select.select(open_ends, [], [], max(0.0, until - time.monotonic()))
        if source in ready:
            part = os.read(source, 1 << 16)
            said = (said + part)[:_MOST_SAID]
            if not part:
                open_ends.remove(source)
        elif ended in ready:
            process.wait()
            break
        elif not ready:
            raise Failed(f"the program takes longer than {LIMIT_S - 2} s")
    lines = said.decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


if __name__ == "__main__":
    main()
