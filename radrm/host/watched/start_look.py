"""The main program of a look's process: it becomes the folder's owner, looks, and reports.

    python -I -S start_look.py       (`Wanted` as JSON on standard input)

The report goes to standard output, as JSON. The process ends itself at its time limit, even if the
daemon is dead. All imports come before the change of user, because that user may have no right to
read this Python installation.
"""

from __future__ import annotations

import json
import os
import pwd
import sys
from importlib import import_module

if not __package__:
    # With `-I` Python adds no folder of ours to `sys.path`; the package is three folders up.
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)))

from radrm.errors import plain
from radrm.host.attempts.job_process import CannotStart, drop_rights
from radrm.host.processes.confined import confine
from radrm.host.storage.spool import Spool
from radrm.host.watched.folder import Busy, Folder, FolderError
from radrm.host.watched.login import User, log_in
from radrm.host.watched.taking import Look, Report
from radrm.jobfile.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

for _name in ("datetime", "difflib", "shlex"):
    import_module(_name)  # the parser of job files imports these only when it needs them

LIMIT_S = 60
"""Seconds after which a look's process is ended."""


class Wanted(Record):
    """What to look into, and as which user. With `uid` and `gid` None it is this process's user."""

    folder: str
    spool: str
    uid: int | None = None
    gid: int | None = None
    moved: list[str] = []
    extra: dict[str, str] = {}
    """Variables that the jobs get in addition to those of the login."""
    cgroup: str | None = None


def main() -> None:
    with open(0, "rb", closefd=False) as source:
        wanted = Wanted(**json.loads(source.read()))
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    try:
        report = _look(wanted)
    except Busy as error:
        report = Report([], [], more=False, unsettled=1, notes=[str(error)])
    except (FolderError, CannotStart, OSError, ValueError) as error:
        report = Report([], [], error=str(error))
    with open(1, "wb", closefd=False) as out:
        # `plain` here as well as in the reader, because a name may hold bytes that are not UTF-8.
        out.write(plain(json.dumps(report.as_dict(), ensure_ascii=False)).encode())


def _look(wanted: Wanted) -> Report:
    confine(LIMIT_S, wanted.cgroup)
    user = user_of(os.getuid() if wanted.uid is None else wanted.uid)
    launch: dict[str, Any] = {"uid": wanted.uid, "gid": wanted.gid, "user": user.name}
    drop_rights(launch)
    os.umask(0o077)
    with Folder(wanted.folder) as folder:
        look = Look(
            folder, Spool(wanted.spool), user.home, lambda: log_in(user), wanted.moved, wanted.extra
        )
        return look.run()


def user_of(uid: int) -> User:
    """The entry of a user; a user without one gets a number as name and no home folder."""
    try:
        found = pwd.getpwuid(uid)
    except KeyError:
        return User(str(uid), uid, "/nonexistent", "/bin/sh")
    return User(found.pw_name, uid, found.pw_dir or "/nonexistent", found.pw_shell or "/bin/sh")


if __name__ == "__main__":
    main()
