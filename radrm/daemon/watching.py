"""A thread that has `.rad` files made jobs: in a system daemon those in each user's folder, in
a user's own daemon those in its spool. What it makes are envelopes, which the loop takes in as
it does any."""

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
"""Of each kind that one look may add to the log."""


class Watching:
    """Begun by `start`; `folder_of` is asked in the loop's thread."""

    def __init__(self, paths: Paths, system: bool) -> None:
        self._users = UserFolders(paths.users) if system else None
        own = Owned(paths.spool, os.getuid(), os.getgid())
        home = os.environ.get("RADRM_HOME")
        self._keeper = Keeper(
            self._users.all if self._users else lambda: [own],
            paths.spool,
            self._tell,
            drop=system,
            above=paths.users if system else None,
            # A job that submits another does so to this daemon.
            extra={"RADRM_HOME": os.path.abspath(home)} if home and not system else {},
        )
        self._spool = paths.spool
        self._told: dict[str, str] = {}
        self._thread = threading.Thread(target=self._run, name="watching", daemon=True)

    def start(self) -> None:
        """Without such folders a daemon serves as well as with them."""
        remove_leftover_groups()
        if self._users is not None:
            # At once, before anybody else makes it. What is wrong, the first look at it says.
            with contextlib.suppress(StoreError):
                self._users.prepare()
        self._thread.start()

    def close(self) -> None:
        """End the looks that are under way: a later one goes on where they stopped."""
        self._keeper.stop()
        self._thread.join(10.0)

    def folder_of(self, client: Peer) -> str:
        """The watched folder of whoever asks, made if it is missing. Raises `StoreError`,
        `Refused`."""
        if self._users is not None:
            return self._users.make(client.uid, *_group(client))
        if client.uid != os.getuid():
            raise Refused(f"this daemon is user {os.getuid()}'s own and takes no files of others")
        return self._spool

    def _run(self) -> None:
        try:
            self._keeper.run()
        except Exception:  # whatever it is, the daemon serves on
            log.exception("no .rad file is taken any more; start the daemon again")

    # ------------------------------------------------------------- telling

    def _tell(self, owned: Owned, report: Report) -> None:
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
        said = "; ".join(filter(None, [report.trouble, *report.notes[:1]]))
        if said and said != self._told.get(owned.path):
            log.warning("watched folder of %s: %s", whose, said)
        self._told[owned.path] = said


def _group(client: Peer) -> tuple[int, bool]:
    """The group of a user's files: the login's. And whether the server knows that user."""
    try:
        return pwd.getpwuid(client.uid).pw_gid, True
    except KeyError:
        return client.gid, False
