"""What a group chooses when it sets radrm up, and the configuration that says so.

Who may submit is no setting: it is the group of the spool's folder, so the kernel decides. A daemon
keeps the group and the mode that root gives this folder.
"""

from __future__ import annotations

import grp
import os
import re
from contextlib import suppress

from msgspec import Struct

from radrm.errors import UsageError
from radrm.host.storage.paths import paths_for

ALL = "all"
"""In place of a group: every user of the server."""
WEB_GROUPS = ("www-data", "nginx", "caddy", "http", "apache")
"""The groups of web servers, of Debian, Red Hat, Caddy, Arch and SUSE."""
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.IGNORECASE)


class Choices(Struct, frozen=True):
    """`users`: a Unix group, or `ALL`; None: as it is. `page`: the name under which a web server
    shows the page; empty: none."""

    users: str | None = None
    share: bool = True
    mps: bool = False
    mail: bool = False
    page: str = ""


def configuration(choices: Choices) -> str:
    """The text of a configuration file, with remarks."""
    alone = "" if not choices.share else "# "
    told = '["mail:fail"]' if choices.mail else "[]"
    return f"""\
# radrm on this server, written by radrm service install. radrm config show lists all settings.
# After a change: radrm config check, then sudo radrm config reload. Running jobs run on.

# Without the next line, several jobs share a GPU where memory and load allow it.
{alone}policy = "exclusive"

[mps]
# CUDA MPS: jobs of one user share a GPU with less loss than time-sliced. A job that faults ends
# its user's other jobs on that GPU.
enabled = {str(choices.mps).lower()}

[notify]
# Who hears of jobs without --notify: ["mail:fail"] mails their user when they fail.
default = {told}

# What one user may have; 0 is no limit.
# [limits]
# gpus = 4
# running_jobs = 20
"""


def spool_command(users: str) -> list[str]:
    """The command that lets these users submit, and no others."""
    mode, group = ("1777", "root") if users == ALL else ("1770", users)
    return ["install", "-d", "-o", "root", "-g", group, "-m", mode, paths_for({}, 0).spool]


def check_users(users: str) -> str:
    """Return who may submit. Raises `UsageError` for no group."""
    if users != ALL:
        try:
            grp.getgrnam(users)
        except (KeyError, ValueError):
            raise UsageError(
                f"there is no group {users!r}; make it (sudo groupadd gpu), or say {ALL}"
            ) from None
    return users


def check_page(host: str) -> str:
    """Return the name of the page. Raises `UsageError` for none that a unit can hold."""
    if not _HOST.fullmatch(host):
        raise UsageError(f"{host[:60]!r} is no name of a host, as gpu.example.org")
    return host


def web_group() -> str:
    """Return the group of the web server of this machine. Raises `UsageError` without one."""
    found = _web_group()
    if found is None:
        raise UsageError(
            f"no web server is installed here (no group {', '.join(WEB_GROUPS)}); install one, as "
            "nginx, or leave out --page"
        )
    return found


def has_web_server() -> bool:
    """Whether some web server is installed here."""
    return _web_group() is not None


def _web_group() -> str | None:
    for name in WEB_GROUPS:
        with suppress(KeyError):
            return grp.getgrnam(name).gr_name
    return None


def has_mail() -> bool:
    """Whether mails can be sent from here."""
    return os.access("/usr/sbin/sendmail", os.X_OK)
