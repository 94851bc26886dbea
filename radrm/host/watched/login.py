"""The environment of a user's login, for jobs that were not submitted from a shell.

The user's own shell prints it, as a login shell, within a time limit. If it gives no answer (a
`nologin` shell, a profile that hangs), a job gets the few variables of every login. All of this
runs with the user's rights.
"""

from __future__ import annotations

import os
import re
import secrets
import select
import signal
import subprocess
import sys
import time

from radrm.host.processes.procfs import TOKEN_VARIABLE
from radrm.jobfile.record import Record

LIMIT_S = 10.0
MAX_ENVIRONMENT = 2 << 20
"""Bytes: the most that the kernel gives a new process by default."""
_NOT_THE_LOGINS = ("_", "SHLVL", "OLDPWD", "PWD", TOKEN_VARIABLE)
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class User(Record):
    """A user's entry in the server's user database. `home` and `shell` may not exist."""

    name: str
    home: str
    shell: str


class Login(Record):
    """The environment and umask of a login. `note` is the reason why the user's own shell did not
    give them."""

    environment: dict[str, str]
    umask: int
    note: str | None = None


def log_in(user: User, limit_s: float = LIMIT_S) -> Login:
    """The user's login. Starts the user's shell, takes at most `limit_s`, and never raises."""
    plain = {"PATH": _PATH, "HOME": user.home, "SHELL": user.shell}
    plain |= {"USER": user.name, "LOGNAME": user.name}
    try:
        found = _ask(user, plain, limit_s)
    except (OSError, ValueError) as error:
        note = f"the login shell {user.shell}: {error}; the variables of every login are used"
        found = Login(plain, 0o022, note)
    environment = {k: v for k, v in found.environment.items() if k not in _NOT_THE_LOGINS}
    return Login(_with_radrm(environment), found.umask, found.note)


def _with_radrm(environment: dict[str, str]) -> dict[str, str]:
    """The environment with radrm in its PATH, because a job may call it. An existing one wins."""
    ours, path = os.path.dirname(sys.executable), environment.get("PATH", "")
    has_one = any(os.path.exists(f"{folder}/radrm") for folder in path.split(":") if folder)
    if has_one or not os.path.exists(f"{ours}/radrm"):
        return environment
    return {**environment, "PATH": f"{path}:{ours}" if path else ours}


def _ask(user: User, plain: dict[str, str], limit_s: float) -> Login:
    """The answer of the user's shell. Raises OSError and ValueError (with the reason)."""
    mark = f"radrm-{secrets.token_hex(8)}"
    # Every shell understands these words, also csh and fish. The marks enclose the answer, because
    # a profile may print before it, and may leave a process that keeps the pipe open after it.
    asked = f"echo {mark}; umask; /usr/bin/env -0; echo {mark}"
    shell = subprocess.Popen(
        # The hyphen makes it a login shell.
        [f"-{os.path.basename(user.shell)}", "-c", asked],
        executable=user.shell,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # The process that started this look ends all processes that have its token.
        env={**plain, TOKEN_VARIABLE: os.environ.get(TOKEN_VARIABLE, "")},
        umask=0o022,
        cwd=user.home if os.access(user.home, os.X_OK) else "/",
        start_new_session=True,
    )
    assert shell.stdout is not None
    try:
        printed = _read(shell.stdout.fileno(), f"\0{mark}\n".encode(), limit_s)
    finally:
        try:
            os.killpg(shell.pid, signal.SIGKILL)  # also processes that its profile started
        except OSError:
            pass  # the group has no process
        shell.stdout.close()
        shell.wait()
    _, found, answer = printed.rpartition(f"{mark}\n".encode())
    umask, line, variables = answer.partition(b"\n")
    if not found or not line or not re.fullmatch(rb"\s*[0-7]{1,4}\s*", umask):
        raise ValueError("it printed no environment")
    pairs = (pair.partition(b"=") for pair in variables.split(b"\0") if b"=" in pair)
    environment = {os.fsdecode(key): os.fsdecode(value) for key, _, value in pairs}
    return Login(environment, int(umask, 8) & 0o777)


def _read(source: int, end: bytes, limit_s: float) -> bytes:
    """All bytes before `end`, or before the end of the output. Raises ValueError."""
    until = time.monotonic() + limit_s
    printed = b""
    while True:
        left = until - time.monotonic()
        if left <= 0 or not select.select([source], [], [], left)[0]:
            raise ValueError(f"it took longer than {limit_s:g} s")
        part = os.read(source, 1 << 16)
        printed += part
        if printed.endswith(end) or not part:
            return printed.removesuffix(end)
        if len(printed) > MAX_ENVIRONMENT:
            raise ValueError(f"it printed more than {MAX_ENVIRONMENT >> 20} MiB")
