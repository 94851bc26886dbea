"""The environment of a user's login, for jobs that nobody submitted from a shell.

The user's own shell is asked, as a login shell, within a time limit. Where it does not
answer (a shell that lets nobody in, a profile that hangs), there is what every login has.
All of this runs with the user's rights.
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

from radrm.host.attempts.procfs import TOKEN_VARIABLE
from radrm.jobfile.record import Record

LIMIT_S = 10.0
MAX_ENVIRONMENT = 2 << 20
"""Bytes: what the kernel gives a new process at most, by default."""
_MAX_SETTINGS = 1 << 16
_NOT_THE_LOGINS = ("_", "SHLVL", "OLDPWD", "PWD", TOKEN_VARIABLE)
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/games"
_ROOTS_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SETTING = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)")


class User(Record):
    """A user as the server's user database has them. `home` and `shell` may not exist."""

    name: str
    uid: int
    home: str
    shell: str


class Login(Record):
    """What a login gives. `note` says why it is not what the user's own shell gives."""

    environment: dict[str, str]
    umask: int
    note: str | None = None


def log_in(user: User, limit_s: float = LIMIT_S, etc: str = "/etc") -> Login:
    """Never raises. May take `limit_s` and starts the user's shell."""
    plain = defaults(user, etc)
    try:
        answer = _ask(user, plain, limit_s)
    except (OSError, ValueError) as error:
        return Login(plain.environment, plain.umask, f"the login shell {user.shell}: {error}")
    environment = {k: v for k, v in answer.environment.items() if k not in _NOT_THE_LOGINS}
    return Login(_with_radrm(environment), answer.umask)


def defaults(user: User, etc: str = "/etc") -> Login:
    """What every login has, whatever shell: from the user database and the server's settings."""
    definitions = dict(_words(f"{etc}/login.defs"))
    key, path = ("ENV_SUPATH", _ROOTS_PATH) if user.uid == 0 else ("ENV_PATH", _PATH)
    environment = {
        "PATH": definitions.get(key, path).removeprefix("PATH="),
        **_settings(f"{etc}/default/locale"),
        **_settings(f"{etc}/environment"),
        "HOME": user.home,
        "SHELL": user.shell,
        "USER": user.name,
        "LOGNAME": user.name,
    }
    umask = definitions.get("UMASK", "")
    octal = re.fullmatch("[0-7]{1,4}", umask) is not None
    return Login(_with_radrm(environment), int(umask, 8) & 0o777 if octal else 0o022)


def _with_radrm(environment: dict[str, str]) -> dict[str, str]:
    """A job may call radrm: where the PATH has none, the folder of this one is its last."""
    ours, path = os.path.dirname(sys.executable), environment.get("PATH", "")
    if any(os.path.exists(f"{folder}/radrm") for folder in path.split(":") if folder):
        return environment
    if not os.path.exists(f"{ours}/radrm"):
        return environment
    return {**environment, "PATH": f"{path}:{ours}" if path else ours}


# ------------------------------------------------------------------ the user's shell


def _ask(user: User, plain: Login, limit_s: float) -> Login:
    """Raises OSError and ValueError (with the reason) where the shell gives no answer."""
    mark = f"radrm-{secrets.token_hex(8)}"
    # Words that every shell understands, csh and fish too. A profile may have printed before,
    # and may have started what keeps the pipe open behind.
    asked = f"echo {mark}; umask; /usr/bin/env -0; echo {mark}"
    shell = subprocess.Popen(
        # By this name it knows that it is a login shell.
        [f"-{os.path.basename(user.shell)}", "-c", asked],
        executable=user.shell,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # The token: so that whoever started this look finds what a profile leaves behind.
        env={**plain.environment, TOKEN_VARIABLE: os.environ.get(TOKEN_VARIABLE, "")},
        umask=plain.umask,
        cwd=user.home if os.access(user.home, os.X_OK) else "/",
        start_new_session=True,
    )
    assert shell.stdout is not None
    try:
        printed = _read(shell.stdout.fileno(), f"\0{mark}\n".encode(), limit_s)
    finally:
        try:
            os.killpg(shell.pid, signal.SIGKILL)  # and what its profile may have started
        except OSError:
            pass
        shell.stdout.close()
        shell.wait()
    _, found, answer = printed.rpartition(f"{mark}\n".encode())
    umask, line, variables = answer.partition(b"\n")
    if not found or not line or not re.fullmatch(rb"\s*[0-7]{1,4}\s*", umask):
        raise ValueError("it told no environment; the server's own settings are used")
    pairs = (pair.partition(b"=") for pair in variables.split(b"\0") if b"=" in pair)
    told = {os.fsdecode(key): os.fsdecode(value) for key, _, value in pairs}
    return Login(told, int(umask, 8) & 0o777)


def _read(source: int, end: bytes, limit_s: float) -> bytes:
    """What is printed before `end`, or until there is no more."""
    until = time.monotonic() + limit_s
    printed = b""
    while True:
        left = until - time.monotonic()
        if left <= 0 or not select.select([source], [], [], left)[0]:
            raise ValueError(f"it took longer than {limit_s:g} s; the server's settings are used")
        part = os.read(source, 1 << 16)
        printed += part
        if printed.endswith(end) or not part:
            return printed.removesuffix(end)
        if len(printed) > MAX_ENVIRONMENT:
            raise ValueError(
                f"it printed more than {MAX_ENVIRONMENT >> 20} MiB; the server's settings are used"
            )


# ------------------------------------------------------------------ the server's settings


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_MAX_SETTINGS).splitlines()
    except OSError:
        return []


def _words(path: str) -> list[tuple[str, str]]:
    """`NAME value` lines, as of login.defs."""
    lines = [line.split() for line in _lines(path)]
    return [(w[0], w[1]) for w in lines if len(w) > 1 and not w[0].startswith("#")]


def _settings(path: str) -> dict[str, str]:
    """`NAME=value` lines, as of /etc/environment."""
    found = (_SETTING.fullmatch(line.strip()) for line in _lines(path))
    return {m[1]: m[2].strip().strip("\"'") for m in found if m is not None}
