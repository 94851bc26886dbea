"""A thread that submits the `.rad` files of watched folders.

A system daemon watches each user's folder; a user's own daemon watches its spool.

Theory of operation. The thread starts looks (`host/watched/`), processes that write envelopes to
the spool. The loop takes these in like all others, so the two threads share nothing but the
spool. A look that ends half done loses nothing: the next look, also of the next daemon, continues
with the files that are left.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pwd
import threading
from collections import Counter

from radrm.daemon.intake.envelopes import user_name
from radrm.errors import Refused, StoreError
from radrm.host.sockets import Peer
from radrm.host.storage.paths import Paths
from radrm.host.watched.keeper import Keeper
from radrm.host.watched.looking import remove_leftover_groups
from radrm.host.watched.taking import Report
from radrm.host.watched.users import Owned, UserFolders

log = logging.getLogger("radrm")

_LINES = 5
"""Lines of each level that one look may add to the log."""


def variables_of_home(system: bool) -> dict[str, str]:
    """Return the variables with which commands of a user talk to this daemon."""
    home = os.environ.get("RADRM_HOME")
    return {"RADRM_HOME": os.path.abspath(home)} if home and not system else {}


class Watching:
    """`start` begins the thread; the loop's thread calls `folder_of`."""

    def __init__(self, paths: Paths, system: bool) -> None:
        self._users = UserFolders(paths.users) if system else None
        own = Owned(paths.spool, os.getuid(), os.getgid())
        self._keeper = Keeper(
            self._users.all if self._users else lambda: [own],
            paths.spool,
            self._log_report,
            drop=system,
            above=paths.users if system else None,
            extra=variables_of_home(system),
        )
        self._spool = paths.spool
        self._logged: dict[str, str] = {}
        self._thread = threading.Thread(target=self._run, name="watching", daemon=True)

    def start(self) -> None:
        """Begin to watch. A failure does not keep the daemon from serving."""
        remove_leftover_groups()
        if self._users is not None:
            # Before another user can make the folder. The first look reports an error.
            with contextlib.suppress(StoreError):
                self._users.prepare()
        self._thread.start()

    def close(self) -> None:
        """End the running looks; the next daemon's looks continue where they stopped."""
        self._keeper.stop()
        self._thread.join(10.0)

    def folder_of(self, client: Peer) -> str:
        """The watched folder of the client's user, made if it is missing. Raises `StoreError`
        and `Refused`."""
        if self._users is not None:
            return self._users.make(client.uid, *_group(client))
        if client.uid != os.getuid():
            raise Refused(f"this daemon is user {os.getuid()}'s own and takes no files of others")
        return self._spool

    def _run(self) -> None:
        try:
            self._keeper.run()
        except Exception:  # the rest of the daemon works without watched folders
            log.exception("no .rad file is taken any more; start the daemon again")

    # ------------------------------------------------------------- the log

    def _log_report(self, owned: Owned, report: Report) -> None:
        whose = user_name(owned.uid)
        lines: Counter[int] = Counter()

        def line(level: int, text: str) -> None:
            lines[level] += 1
            if lines[level] <= _LINES:
                log.log(level, "%s", text)

        for name, ticket, job in report.taken:
            line(logging.INFO, f"the job file {name} of {whose} is submitted ({job}), {ticket}")
        for name, reason in report.refused:
            line(logging.WARNING, f"the job file {name} of {whose} is refused: {reason}")
        for level, count in lines.items():
            if count > _LINES:
                log.log(level, "%d more of %s", count - _LINES, whose)
        cause = "; ".join(filter(None, [report.error, *report.notes[:1]]))
        if cause and cause != self._logged.get(owned.path):
            log.warning("watched folder of %s: %s", whose, cause)
        self._logged[owned.path] = cause


def _group(client: Peer) -> tuple[int, bool]:
    """The login group of a user, and whether the server knows the user.

    A user without a login (as in a container) has the group of the connection.
    """
    try:
        return pwd.getpwuid(client.uid).pw_gid, True
    except KeyError:
        return client.gid, False
