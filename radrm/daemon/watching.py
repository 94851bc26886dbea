"""A thread that has the `.rad` files of watched folders submitted.

A system daemon watches each user's folder; a user's own daemon watches its spool.

Theory of operation. Every `POLL_S` the thread lists the folders that have changed. Into one with a
job file it starts a look (`host/watched/look.py`), a process that writes envelopes to the spool.
The loop takes these in like all others. A look that ends half done loses nothing: the next look,
also of the next daemon, goes on with the files that are left. A folder whose looks come to nothing
waits longer each time, so no user gets more than a part of one processor.
"""

from __future__ import annotations

import logging
import os
import pwd
import threading
import time

import msgspec
from msgspec import Struct

from radrm.daemon.intake.envelopes import user_name
from radrm.errors import Refused, StoreError
from radrm.host.folders import OpenFolder
from radrm.host.processes.errand import Errand, remove_left_groups
from radrm.host.sockets import Peer
from radrm.host.storage.paths import Paths
from radrm.host.watched import look
from radrm.host.watched.folders import Owned, UserFolders, claimed, is_job_file

log = logging.getLogger("radrm")

POLL_S = 1.0
RESCAN_S = 60.0
"""Seconds after which a folder is listed although the time of its last change is the same."""
LONGEST_PAUSE_S = 15.0
AT_ONCE = 8
"""Looks that run at the same time. They mostly wait until files are complete."""
MAX_REPORT = 2 << 20
_LINES = 5
"""Lines of each kind that one look may add to the log."""
_MAX_TEXT = 500
_GROUP = "radrm-look-"


def variables_of_home(system: bool) -> dict[str, str]:
    """Return the variables with which commands of a user talk to this daemon."""
    home = os.environ.get("RADRM_HOME")
    return {"RADRM_HOME": os.path.abspath(home)} if home and not system else {}


class Report(msgspec.Struct):
    """What a look prints. A user may change it."""

    taken: list[tuple[str, str, str]] = []
    refused: list[tuple[str, str]] = []
    notes: list[str] = []
    again: bool = False
    error: str | None = None


class _Kept(Struct):
    """The state of one folder. Times are of the monotonic clock."""

    due_s: float = 0.0
    pause_s: float = POLL_S
    changed_ns: int | None = None
    """The time of its last change when it was found without a job file,"""
    rescan_s: float = 0.0
    """and until when that counts."""
    busy: bool = False
    logged: str = ""


class Watching:
    """`start` begins the thread; the loop's thread calls `folder_of`."""

    def __init__(self, paths: Paths, system: bool) -> None:
        self._users = UserFolders(paths.users) if system else None
        self._spool = paths.spool
        self._extra = variables_of_home(system)
        self._kept: dict[str, _Kept] = {}
        self._wrong = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watching", daemon=True)

    def start(self) -> None:
        """Begin to watch. A failure does not keep the daemon from serving."""
        remove_left_groups(_GROUP)
        self._find()  # before another user can make the folder of folders
        self._thread.start()

    def close(self) -> None:
        """End the thread. A look under way ends by itself."""
        self._stop.set()
        self._thread.join(10.0)

    def folder_of(self, client: Peer) -> str:
        """The watched folder of the client's user, made if it is missing. Raises `StoreError`
        and `Refused`."""
        if self._users is None and client.uid != os.getuid():
            raise Refused(f"this daemon is user {os.getuid()}'s own and takes no files of others")
        if self._users is None:
            return self._spool
        try:
            return self._users.make(client.uid, pwd.getpwuid(client.uid).pw_gid)
        except KeyError:  # as in a container
            return self._users.make(client.uid, client.gid, known=False)

    def _run(self) -> None:
        while not self._stop.wait(POLL_S):
            try:
                self.poll(time.monotonic())
            except Exception:  # the rest of the daemon works without watched folders
                log.exception("the watched folders cannot be listed; trying again")

    def poll(self, now_s: float) -> None:
        """Start the looks that are due; the folder that has waited longest comes first."""
        found = self._find()
        self._kept = {each.path: self._kept.get(each.path) or _Kept() for each in found}
        for owned in sorted(found, key=lambda each: self._kept[each.path].due_s):
            kept, running = self._kept[owned.path], sum(k.busy for k in self._kept.values())
            if kept.busy or kept.due_s > now_s or running >= AT_ONCE:
                continue
            if self._may_have_files(owned, kept, now_s):
                kept.busy = True
                threading.Thread(target=self._look, args=(owned, kept), daemon=True).start()

    def _find(self) -> list[Owned]:
        try:
            own = [Owned(self._spool, os.getuid(), os.getgid())]
            found, wrong = self._users.all() if self._users is not None else own, ""
        except (StoreError, OSError) as error:
            found, wrong = [], str(error)
        if wrong and wrong != self._wrong:
            log.error("%s", wrong)
        self._wrong = wrong
        return found

    def _may_have_files(self, owned: Owned, kept: _Kept, now_s: float) -> bool:
        """True if a look may find a file. Opens no file, and no file system that a user mounted."""
        try:
            with self._opened(owned.path) as it:
                changed_ns = os.fstat(it.fd).st_mtime_ns
                if changed_ns == kept.changed_ns and now_s < kept.rescan_s:
                    return False
                with os.scandir(it.fd) as entries:
                    if any(is_job_file(each.name) or claimed(each.name) for each in entries):
                        return True
        except OSError:
            return False
        kept.changed_ns, kept.rescan_s = changed_ns, now_s + RESCAN_S
        return False

    def _opened(self, path: str) -> OpenFolder:
        if self._users is None:
            return OpenFolder(path)
        with OpenFolder(os.path.dirname(path)) as above:
            return above.below(os.path.basename(path))

    def _look(self, owned: Owned, kept: _Kept) -> None:
        """In a thread of its own: have the folder looked into, and decide when the next one is."""
        try:
            report = self._report(owned)
        except OSError as error:
            report = Report(error=f"no look can be started: {error.strerror}")
        in_vain = not report.taken and not report.refused and (report.again or report.error)
        kept.due_s = time.monotonic() + kept.pause_s
        kept.pause_s = min(2 * kept.pause_s, LONGEST_PAUSE_S) if in_vain else POLL_S
        kept.changed_ns, kept.busy = None, False
        self._log(owned, kept, report)

    def _report(self, owned: Owned) -> Report:
        wanted = look.Wanted(owned.path, self._spool, extra=self._extra).as_dict()
        if self._users is not None:
            wanted |= {"uid": owned.uid, "gid": owned.gid}
        errand = Errand(look.__file__, wanted, _GROUP, look.LIMIT_S, MAX_REPORT)
        try:
            errand.wait()
            return msgspec.json.decode(errand.output, type=Report)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return Report(error=f"{owned.path}: the look into it ended without a report")
        finally:
            errand.end(thorough=True)

    def _log(self, owned: Owned, kept: _Kept, report: Report) -> None:
        whose = user_name(owned.uid)
        taken = [f"{name} is submitted ({job}), {ticket}" for name, ticket, job in report.taken]
        refused = [f"{name} is refused: {reason}" for name, reason in report.refused]
        for level, lines in ((logging.INFO, taken), (logging.WARNING, refused)):
            for line in lines[:_LINES]:
                log.log(level, "%s", f"of {whose} the job file {line}"[:_MAX_TEXT])
            if len(lines) > _LINES:
                log.log(level, "%d more of %s", len(lines) - _LINES, whose)
        cause = "; ".join(filter(None, [report.error, *report.notes[:1]]))[:_MAX_TEXT]
        if cause and cause != kept.logged:
            log.warning("watched folder of %s: %s", whose, cause)
        kept.logged = cause
