"""The places that a daemon has opened and goes on to name: held by descriptor, and looked at again.

Theory of operation. A person may remove, move or replace a folder under a running daemon, or point
a link elsewhere; another daemon may make it anew. The descriptor keeps the inode from being given
out again. So a path that leads to another inode, or to nothing, is no longer the place that was
opened, and nothing may be written or taken there by name.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import stat
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from radrm.errors import StoreError, plain
from radrm.host.attempts import folder as attempts
from radrm.host.folders import OpenFolder
from radrm.host.newer import MARKER_VERSION, marker_of
from radrm.host.storage.files import remove_drafts, write_durably
from radrm.host.storage.paths import Paths
from radrm.host.storage.spool import FOREIGN, kind_of
from radrm.host.storage.store import Store
from radrm.host.watched.folders import reserved

_GONE = FileNotFoundError, NotADirectoryError


class HomeLost(StoreError):
    """A place of the daemon's home is not the one that it has opened: the daemon ends."""


class Held:
    """Places by their paths. A few microseconds for each look."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[int, int, int]] = {}
        """The descriptor, device and inode of each."""

    def hold(self, *paths: str) -> None:
        """Hold what is there now. Raises `OSError`."""
        for path in paths:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            found = os.fstat(fd)
            self._places[path] = fd, found.st_dev, found.st_ino

    def lost(self) -> str | None:
        """The first path that does not lead to the held place any more. A disk that does not
        answer proves nothing."""
        for path, (_, device, inode) in self._places.items():
            try:
                found = os.stat(path)
            except _GONE:
                return path
            except OSError:
                continue
            if (found.st_dev, found.st_ino) != (device, inode):
                return path
        return None

    def check(self) -> None:
        """Raise `HomeLost` unless all paths lead where they led."""
        path = self.lost()
        if path is not None:
            raise HomeLost(
                f"{plain(path)} was removed or replaced while this daemon used it, so it ends and "
                "jobs run on; start another one: radrm daemon"
            )

    def __del__(self) -> None:
        while self._places:
            os.close(self._places.popitem()[1][0])


# ------------------------------------------------------------------
# The home's marker: which folders belong to radrm, and which job ids and serials it has used.
#
#     state/radrm-home.json   only the daemon writes it, always as a whole file
#
# Theory of operation:
#
# - **Folders.** A folder belongs to radrm if the marker records its owner, device and inode.
#   radrm adopts an unrecorded folder only if it holds nothing foreign. It never adopts a link.
#   So it refuses a spool that leads to a shared folder before it reads any file there.
# - **Numbers.** Job ids and serials name folders that may outlive the store. The marker reserves
#   numbers in blocks of a thousand before radrm uses the first of a block. So no number is used
#   twice, even if the store is deleted or replaced by an older copy.
# - **One writer.** The daemon's lock allows one daemon per home, so nothing else writes the marker.
# - **Place.** The home is held by descriptor. If a path of it leads elsewhere (removed, moved, made
#   anew by another daemon), `check` raises: no number is reserved and no decision acted on there.
# - **Restart.** A kill after a reservation leaves at most one block unused.


log = logging.getLogger("radrm")

BLOCK = 1000
"""Numbers that one write reserves. After the loss of a store at most this many stay unused."""
_LARGEST_NUMBER = 10**15
_WRITTEN = ("radrm-home.json",)
"""What daemons write into the state folder itself."""
_LARGEST_MARKER = 1 << 20
_ELSEWHERE = "move it away and radrm makes a new one, or set RADRM_HOME to a folder of your own"


class Reserved(Struct, frozen=True):
    """Numbers of one kind: all below `seen` are used, and none from `below` on is used."""

    seen: int = 1
    below: int = 1


class _Place(Struct, frozen=True):
    """A folder that radrm must have made. `ours` is true for an entry that radrm writes there."""

    name: str
    path: str
    mode: int
    ours: Callable[[OpenFolder, str, os.stat_result], bool]


class Home:
    """The home of one daemon, which holds its lock. Raises `StoreError` with the next step."""

    def __init__(self, paths: Paths, system: bool) -> None:
        self._paths = paths
        self._marker = marker_of(paths)
        self._store_id: int | None = None
        self._jobs = Reserved()
        self._serials = Reserved()
        for name in _WRITTEN:
            with contextlib.suppress(OSError):  # a read-only disk is told of elsewhere
                remove_drafts(f"{paths.state}/{name}")  # of killed daemons
        known = self._read_marker()
        self._folders = self._check_folders(known, system)
        self._held = Held()
        places = [each.path for each in _places(paths, system)]
        self.hold(paths.state, *places, paths.checkpoints)
        self._marked: object = None
        """The identity of the store that the marker was written for; None without a marker."""
        numbers = _numbers(known.get("numbers"))
        if numbers is not None:
            self._marked, self._jobs, self._serials = numbers

    # ------------------------------------------------------------- the place

    def hold(self, *paths: str) -> None:
        """Count these paths to the home, as they are now. Raises `StoreError`."""
        try:
            self._held.hold(*paths)
        except OSError as error:
            raise StoreError(f"cannot open {error.filename}: {error.strerror}") from error

    @property
    def is_here(self) -> bool:
        """Whether all paths of the home still lead to what this daemon has opened."""
        return self._held.lost() is None

    # ------------------------------------------------------------- folders

    def _check_folders(self, known: dict[str, Any], system: bool) -> dict[str, Any]:
        """The marker's record of each folder. Raises `StoreError` for a foreign one."""
        state_device = os.stat(self._paths.state).st_dev
        recorded = known.get("folders")
        recorded = recorded if isinstance(recorded, dict) else {}
        found = {}
        for place in _places(self._paths, system):
            try:
                folder = OpenFolder(place.path)
            except OSError as error:
                raise StoreError(
                    f"the {place.name} folder {place.path} cannot be opened: {error.strerror}; "
                    f"{_ELSEWHERE}"
                ) from error
            with folder:
                status = os.fstat(folder.fd)
                if not _is_recorded(recorded.get(place.name), status, state_device):
                    self._adopt(place, folder, status)
            found[place.name] = {
                "uid": status.st_uid,
                "device": status.st_dev,
                "inode": status.st_ino,
            }
        return found

    def _adopt(self, place: _Place, folder: OpenFolder, status: os.stat_result) -> None:
        """Raise `StoreError` for a folder that holds anything that radrm does not write there."""
        mode = stat.S_IMODE(status.st_mode)
        if mode & 0o777 & ~place.mode:
            raise StoreError(
                f"the {place.name} folder {place.path} was not made by radrm: its mode is "
                f"{mode:04o}, not {place.mode:04o}; {_ELSEWHERE}"
            )
        with os.scandir(folder.fd) as entries:
            for name in (entry.name for entry in entries):
                try:
                    ours = place.ours(folder, name, folder.stat(name))
                except FileNotFoundError:
                    continue  # a client has removed it meanwhile
                except OSError as error:
                    if error.errno != errno.EXDEV:
                        raise
                    ours = place.mode & stat.S_ISVTX != 0  # users may mount something there
                if not ours:
                    raise StoreError(
                        f"the {place.name} folder {place.path} was not made by radrm: it holds "
                        f"{name[:80]!r}; {_ELSEWHERE}"
                    )

    # ------------------------------------------------------------- numbers

    def open_store(self, alive: Callable[[], None] | None = None) -> Store:
        """The store. It uses no job id and no serial that was used before.

        `alive` is called again and again while the store works, because that may take long.
        """
        store = Store(self._paths.database, self.cover, alive)
        self.hold(self._paths.database)
        store.check_home = self._held.check
        self._store_id = store.identity()
        jobs, serials = store.next_job_id(), store.next_serial()
        if self._has_replaced_store(jobs, serials):
            jobs, serials = max(jobs, self._jobs.below), max(serials, self._serials.below)
            jobs = max([jobs, *(n + 1 for n in self._job_ids_on_disk())])
            serials = max([serials, *(n + 1 for n in _numbers_in(self._paths.attempts))])
        if (jobs, serials) != (store.next_job_id(), store.next_serial()):
            store.begin_numbers(jobs, serials)
            log.warning(
                "the store %s is not the one that was here before (deleted, or an older copy): "
                "radrm knows only the jobs in it, and new job ids start at %d; to get the other "
                "jobs back, stop the daemon and restore a copy of the store",
                self._paths.database,
                jobs,
            )
        try:
            self._reserve(jobs, serials)
        except StoreError as error:
            # On a full disk the daemon starts all the same. `cover` tries again before it uses a
            # number that is not reserved.
            log.error("%s", error)
        return store

    def _has_replaced_store(self, jobs: int, serials: int) -> bool:
        """Whether this store is another one than the marker's, or an older copy of it.

        `jobs` and `serials` are the numbers that it would use next. Without a marker nobody knows.
        """
        if self._marked is None:
            return True
        behind = jobs < self._jobs.seen or serials < self._serials.seen
        return self._marked != self._store_id or behind

    def cover(self, job_id: int, serial: int) -> None:
        """Reserve these numbers on disk, before they are used. Raises `StoreError`."""
        if job_id >= self._jobs.below or serial >= self._serials.below:
            self._reserve(max(job_id, self._jobs.seen), max(serial, self._serials.seen))

    def _reserve(self, job_id: int, serial: int) -> None:
        jobs, serials = Reserved(job_id, job_id + BLOCK), Reserved(serial, serial + BLOCK)
        document = {
            "version": MARKER_VERSION,
            "folders": self._folders,
            "numbers": {
                "store": self._store_id,
                "jobs": [jobs.seen, jobs.below],
                "serials": [serials.seen, serials.below],
            },
        }
        self._held.check()
        try:
            write_durably(self._marker, json.dumps(document, indent=1).encode("ascii") + b"\n")
        except OSError as error:
            raise StoreError(
                f"cannot write {self._marker}: {error.strerror}; free some space there"
            ) from error
        self._jobs, self._serials = jobs, serials

    def _job_ids_on_disk(self) -> list[int]:
        """The ids of jobs that have a checkpoint folder or an attempt folder."""
        found = _numbers_in(self._paths.checkpoints)
        for serial in _numbers_in(self._paths.attempts):
            folder = os.path.join(self._paths.attempts, str(serial))
            launch, _ = attempts.read_record(folder, attempts.LAUNCH)
            if launch is not None and 0 < launch["job_id"] < _LARGEST_NUMBER:
                found.append(launch["job_id"])
        return found

    # ------------------------------------------------------------- the marker

    def _read_marker(self) -> dict[str, Any]:
        """The marker's content; empty if there is no marker, or it cannot be read."""
        try:
            fd = os.open(self._marker, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with open(fd, "rb") as file:
                document = json.loads(file.read(_LARGEST_MARKER))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            log.warning("%s cannot be read, so radrm replaces it: %s", self._marker, error)
            return {}
        if not isinstance(document, dict) or document.get("version") != MARKER_VERSION:
            log.warning("%s has another version, so radrm replaces it", self._marker)
            return {}
        return document


def _places(paths: Paths, system: bool) -> tuple[_Place, ...]:
    me = os.geteuid()

    def in_spool(_: OpenFolder, name: str, found: os.stat_result) -> bool:
        # All users may write to a system's spool, so their files prove nothing about its maker.
        known = kind_of(name) is not FOREIGN or reserved(name, system)
        return known or (system and found.st_uid != me)

    def in_store(_: OpenFolder, name: str, found: os.stat_result) -> bool:
        # By its start, because radrm advises to keep copies of the database beside it.
        return name.startswith(os.path.basename(paths.database)) and stat.S_ISREG(found.st_mode)

    def in_attempts(parent: OpenFolder, name: str, found: os.stat_result) -> bool:
        if not (name.isascii() and name.isdigit() and stat.S_ISDIR(found.st_mode)):
            return False
        with parent.below(name) as folder:
            return found.st_uid == me and all(map(attempts.is_own_name, os.listdir(folder.fd)))

    return (
        _Place("spool", paths.spool, 0o1777 if system else 0o700, in_spool),
        _Place("store", paths.store, 0o700, in_store),
        _Place("attempts", paths.attempts, 0o711 if system else 0o700, in_attempts),
    )


def _is_recorded(recorded: object, found: os.stat_result, state_device: int) -> bool:
    """True if the marker records this folder.

    A boot may change device numbers. So the folder's device must be the recorded one, or that
    of the state folder, which lies on the same disk in most homes.
    """
    if not isinstance(recorded, dict):
        return False
    same = (recorded.get("uid"), recorded.get("inode")) == (found.st_uid, found.st_ino)
    return same and found.st_dev in (recorded.get("device"), state_device)


def _numbers_in(path: str) -> list[int]:
    """The numbers that name folders in `path`."""
    try:
        with os.scandir(path) as entries:
            names = [e.name for e in entries if e.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    numbers = [int(n) for n in names if len(n) < 16 and n.isascii() and n.isdigit()]
    return [n for n in numbers if n < _LARGEST_NUMBER]


def _numbers(found: object) -> tuple[object, Reserved, Reserved] | None:
    """The marker's store, its job ids and its serials; None if the marker holds none."""
    if not isinstance(found, dict) or found.get("store") is None:
        return None
    reserved = []
    for kind in ("jobs", "serials"):
        pair = found.get(kind)
        if not isinstance(pair, list) or len(pair) != 2:
            return None
        if not all(type(n) is int and 0 < n < _LARGEST_NUMBER for n in pair):
            return None
        reserved.append(Reserved(*pair))
    return found.get("store"), reserved[0], reserved[1]
