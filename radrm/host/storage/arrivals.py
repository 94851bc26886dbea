"""The daemon's half of the spool: find what waits, open it once, serve the users in turn.

Theory of operation. Names come from inotify, from clients that ask for their tickets, and from a
listing in pieces; any of them may name a file twice or too late, so a name only means: look. A
user's envelopes wait in the order of their tickets, and users take turns, so that one user's
flood does not delay the others. What is not provably an envelope stays where it is: it is never
opened again, moved or removed. All memory here is a cache: a restart lists the folder anew.
"""

from __future__ import annotations

import errno
import heapq
import logging
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from msgspec import Struct

from radrm.host.crossings import crossed
from radrm.host.folders import OpenFolder, is_single_file
from radrm.host.storage.files import fsync_folder
from radrm.host.storage.spool import (
    DRAFT,
    ENVELOPE,
    SUFFIX,
    Arrival,
    is_draft,
    kind_of,
    read_envelope_file,
    which_file,
)
from radrm.host.storage.tickets import new_ticket
from radrm.host.wall import wall_s

log = logging.getLogger("radrm")

LISTED_AT_ONCE = 3_000
"""Names of one piece of a listing: 30 ms at the most. Anybody may put a million there."""
KEPT_OF_ONE_USER = 10_000
"""Names of one user that are held in memory (1 MiB). The others are found again by a later
listing, once these have been taken in."""
DRAFT_AGE_S = 24 * 3600.0
"""To write a draft takes milliseconds; one that is a day old was left by a killed `submit`."""
_GONE = errno.ENOENT, errno.EXDEV, errno.EBUSY
"""The errors of a name that has gone, or that something is mounted over."""
MOVED_AT_ONCE = 1000
"""Envelopes beyond a user's limit that a piece of a listing moves away: 50 ms."""


class SpoolUse(Struct):
    """A user's envelopes in the spool: their number, and their bytes."""

    files: int = 0
    size: int = 0


def _any(uid: int) -> tuple[int, int]:
    return 0, 0


class Turns:
    """The names that wait, by user. Users take turns; each user's smallest name comes first."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[str]] = {}
        self._users: deque[int] = deque()
        self._names: set[str] = set()
        self.left_out = False
        """True once a user had more than can be held: then only a new listing finds the rest."""

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def __len__(self) -> int:
        return len(self._names)

    def add(self, name: str, uid: int) -> None:
        """Have a name wait, unless it does already."""
        if name in self._names:
            return
        if uid not in self._waiting:
            self._waiting[uid] = []
            self._users.append(uid)
        names = self._waiting[uid]
        heapq.heappush(names, name)
        self._names.add(name)
        if len(names) > 2 * KEPT_OF_ONE_USER:
            self._waiting[uid] = kept = heapq.nsmallest(KEPT_OF_ONE_USER, names)
            self._names.difference_update(set(names).difference(kept))
            self.left_out = True

    def first(self, uid: int) -> None:
        """Give the next turn to this user."""
        if uid in self._waiting:
            self._users.remove(uid)
            self._users.appendleft(uid)

    def take(self, rests: Callable[[int], bool] = lambda uid: False) -> tuple[str, int] | None:
        """The name whose turn it is, and its user; None when none waits but those of users who
        rest."""
        for _ in range(len(self._users)):
            uid = self._users.popleft()
            if rests(uid):
                self._users.append(uid)
                continue
            names = self._waiting[uid]
            name = heapq.heappop(names)
            self._names.remove(name)
            if names:
                self._users.append(uid)
            else:
                del self._waiting[uid]
            return name, uid
        return None

    def any_of(self, rests: Callable[[int], bool]) -> bool:
        """True if a name of a user waits who does not rest."""
        return any(not rests(uid) for uid in self._users)


class Arrivals:
    """The folder `path` as the daemon reads it; what is refused goes to the folder `refused`.
    `leave` says which names are no envelopes and yet not foreign.

    Every method that touches the folder raises `OSError` where the machine does not let it.
    """

    def __init__(
        self,
        path: str,
        refused: str,
        leave: Callable[[str], bool] = lambda _: False,
        room: Callable[[int], tuple[int, int]] = _any,
    ) -> None:
        """`room` returns how many files and bytes a user may have in the spool; 0: any number."""
        self.path = path
        self.turns = Turns()
        self._spool: int | None = None
        """A descriptor of the folder as it was first opened."""
        self._refused = refused
        self._leave = leave
        self._room = room
        self._uses: dict[int, SpoolUse] = {}
        """The envelopes of each user, as the last whole listing found them."""
        self._counted: dict[int, SpoolUse] = {}
        """The same in the listing under way."""
        self._moved: Counter[int] = Counter()
        self._left_to_move = 0
        self._listing: Any = None
        """What `os.scandir` returned, while a listing is under way."""
        self._foreign = 0
        self._example = ""
        self._reported = 0
        self.refused_bytes = 0
        """The bytes that were refused since the start."""

    def _open(self) -> OpenFolder:
        """The spool. Raises `OSError` for another folder than the first time: it belongs to another
        daemon."""
        folder = OpenFolder(self.path)
        if self._spool is None:
            self._spool = os.dup(folder.fd)  # held, so that its inode is not given out again
        elif not os.path.samestat(os.fstat(self._spool), os.fstat(folder.fd)):
            folder.close()
            raise OSError(errno.ESTALE, "it is another folder than before", self.path)
        return folder

    def __del__(self) -> None:
        if self._spool is not None:
            os.close(self._spool)

    # ------------------------------------------------------------- finding

    def notice(self, names: Iterable[str]) -> None:
        """Have these names wait: they have just come, or a client asks for them."""
        wanted = [n for n in names if kind_of(n) is ENVELOPE and n not in self.turns]
        if not wanted:
            return
        with self._open() as folder:
            for name in wanted:
                self._add(folder, name)

    def list_anew(self) -> None:
        """Begin a listing of the whole folder."""
        self._end_listing()
        with self._open() as folder:
            self._listing = os.scandir(folder.fd)
        self._foreign, self._example = 0, ""
        self._counted, self._moved = {}, Counter()
        self.turns.left_out = False

    def list_on(self) -> bool:
        """Look at the next piece of a listing that was begun; True while there is more."""
        if self._listing is None:
            return False
        self._left_to_move = MOVED_AT_ONCE
        try:
            with self._open() as folder:
                piece = list(islice(self._listing, LISTED_AT_ONCE))
                for entry in piece:
                    self._sort(folder, entry.name)
        except OSError:
            self._end_listing()
            raise
        if len(piece) == LISTED_AT_ONCE:
            return True
        self._end_listing()
        self._uses = self._counted
        self._tell_foreign()
        self._tell_moved()
        return False

    def use_of(self, uid: int) -> SpoolUse:
        """What a user has in the spool; if many names are there, what the last listing found."""
        found = SpoolUse()
        try:
            folder = self._open()
        except OSError:
            return self._uses.get(uid) or found
        with folder, os.scandir(folder.fd) as entries:
            for number, entry in enumerate(entries):
                if number >= LISTED_AT_ONCE:
                    return self._uses.get(uid) or SpoolUse()
                if kind_of(entry.name) is ENVELOPE:
                    with _while_there():
                        here = folder.stat(entry.name)
                        found.files += here.st_uid == uid
                        found.size += here.st_size * (here.st_uid == uid)
        return found

    @property
    def listing(self) -> bool:
        """True while a listing is under way."""
        return self._listing is not None

    def _end_listing(self) -> None:
        if self._listing is not None:
            self._listing.close()
            self._listing = None

    def _sort(self, folder: OpenFolder, name: str) -> None:
        """One name of a listing. What is not radrm's costs its name, and is never opened."""
        kind = kind_of(name)
        if kind is ENVELOPE:
            self._add(folder, name, counts=True)
        elif kind is DRAFT and is_draft(folder, name, wall_s() - DRAFT_AGE_S):
            log.info("the spool's draft %r is removed: the submit that wrote it was killed", name)
            with _while_there():
                os.unlink(name, dir_fd=folder.fd)
        elif kind is not DRAFT and not self._leave(name):
            self._note_foreign(name)

    def _add(self, folder: OpenFolder, name: str, counts: bool = False) -> None:
        """Have an envelope wait, unless it `counts` and is beyond its user's limit."""
        with _while_there():
            found = folder.stat(name)
            if not is_single_file(found):
                self._note_foreign(name)
            elif not (counts and self._is_beyond(found) and self._move(name, found)):
                self.turns.add(name, found.st_uid)

    def _is_beyond(self, found: os.stat_result) -> bool:
        """Count an envelope of a listing; True if its user has too much with it."""
        use = self._counted.setdefault(found.st_uid, SpoolUse())
        files, size = self._room(found.st_uid)
        if 0 < files <= use.files or 0 < size < use.size + found.st_size:
            return True
        use.files += 1
        use.size += found.st_size
        return False

    def _move(self, name: str, found: os.stat_result) -> bool:
        """Move what is beyond a limit to the refused files. False if that has to wait."""
        if not self._left_to_move:
            return False
        self._left_to_move -= 1
        uid, gid, size = found.st_uid, found.st_gid, found.st_size
        self.refuse(Arrival(name, uid, gid, None, "it is too much", which_file(found), size))
        self._moved[uid] += 1
        return True

    def _tell_moved(self) -> None:
        for uid, count in sorted(self._moved.items()):
            files, size = self._room(uid)
            log.warning(
                "uid %d has too much in the spool: at most %d files, %d MiB; "
                "%d submissions were moved to %s",
                *(uid, files, size >> 20, count, self._refused),
            )

    def _note_foreign(self, name: str) -> None:
        self._foreign += 1
        self._example = self._example or name

    def _tell_foreign(self) -> None:
        """Log one line, and again only for twice as many: every user can put files there."""
        if self._foreign >= max(1, 2 * self._reported):
            log.warning(
                "%d name(s) in the spool are not radrm's and stay as they are, such as %r; "
                "radrm doctor lists them, radrm submit submits a job file",
                self._foreign,
                self._example,
            )
            self._reported = self._foreign

    # ------------------------------------------------------------- opening and removing

    def read(self, name: str) -> Arrival | None:
        """See `read_envelope_file`."""
        with self._open() as folder:
            return read_envelope_file(folder, name)

    def remove(self, arrival: Arrival) -> None:
        """After its row is committed. Not synced: should it come back, the row is known."""
        with self._open() as folder, _while_there():
            if _is_same(folder, arrival):
                crossed("envelope taken in")
                os.unlink(arrival.name, dir_fd=folder.fd)
                crossed("envelope removed")

    def refuse(self, arrival: Arrival) -> None:
        """Move what is no envelope out of the way, unread and unlost, under a name of ours."""
        try:
            os.mkdir(self._refused, 0o700)
        except FileExistsError:
            pass
        else:
            fsync_folder(os.path.dirname(self._refused))
        with OpenFolder(self._refused) as refused, self._open() as folder, _while_there():
            if _is_same(folder, arrival):
                name = f"{new_ticket()}{SUFFIX}"
                os.rename(arrival.name, name, src_dir_fd=folder.fd, dst_dir_fd=refused.fd)
                self.refused_bytes += arrival.size


def _is_same(folder: OpenFolder, arrival: Arrival) -> bool:
    """True while the file that was read lies there: its owner may have put another there."""
    return which_file(folder.stat(arrival.name)) == arrival.file


@contextmanager
def _while_there() -> Iterator[None]:
    """Leave a file that has gone, or that its owner has mounted something over."""
    try:
        yield
    except OSError as error:
        if error.errno not in _GONE:
            raise
