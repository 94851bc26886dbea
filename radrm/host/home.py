"""The home's marker: which folders are radrm's own, and up to where numbers were given.

    state/radrm-home.json   the daemon's alone, written anew as a whole

A folder is radrm's where the marker recorded it (owner, device, inode). A folder that no
marker knows is adopted only where nothing foreign lies in it; a link never is. So a spool
that leads to a shared folder is refused before anything in it is looked at.

Job ids and serials name folders that may outlive the store. They are given in blocks that
the marker reserves beforehand, so that a store that was deleted, or an older copy of it,
never leads to the same number twice. A block costs a few milliseconds once in a thousand.
"""

from __future__ import annotations

import json
import logging
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from radrm.errors import StoreError
from radrm.host.attempts import folder as attempts
from radrm.host.storage.files import open_folder, write_durably
from radrm.host.storage.paths import Paths
from radrm.host.storage.spool import FOREIGN, kind_of
from radrm.host.storage.store import Store

log = logging.getLogger("radrm")

BLOCK = 1000
"""Numbers that are reserved at once. After a store was lost, at most so many stay unused."""
_LARGEST_NUMBER = 10**15
_LARGEST_MARKER = 1 << 20
_ELSEWHERE = "move it away and radrm makes a new one, or set RADRM_HOME to a folder of your own"


@dataclass(frozen=True, slots=True)
class Reserved:
    """Numbers of one kind: every one below `seen` was given, none from `below` on."""

    seen: int = 1
    below: int = 1


@dataclass(frozen=True, slots=True)
class _Place:
    """A folder that radrm must have made. `ours` tells whether it wrote an entry there."""

    name: str
    path: str
    mode: int
    ours: Callable[[int, str, os.stat_result], bool]


class Home:
    """The home of one daemon, which holds its lock. Raises `StoreError`, with the next step."""

    def __init__(self, paths: Paths, system: bool) -> None:
        self._paths = paths
        self._marker = f"{paths.state}/radrm-home.json"
        self._store_id: int | None = None
        self._jobs = Reserved()
        self._serials = Reserved()
        known = self._read_marker()
        self.had_store = os.path.isfile(paths.database)
        """Whether a store lay here before this daemon began."""
        self._folders = self._check_folders(known, system)
        self._marked: object = None
        """The store that numbers were given for; None where no marker tells."""
        numbers = _numbers(known.get("numbers"))
        if numbers is not None:
            self._marked, self._jobs, self._serials = numbers

    # ------------------------------------------------------------- folders

    def _check_folders(self, known: dict[str, Any], system: bool) -> dict[str, Any]:
        """What is to be recorded of each folder."""
        state_device = os.stat(self._paths.state).st_dev
        recorded = known.get("folders")
        recorded = recorded if isinstance(recorded, dict) else {}
        # Earlier releases wrote no marker. Where they kept a store, the folders are theirs.
        adopt = not known and self.had_store
        found = {}
        for place in _places(self._paths, system):
            try:
                folder = open_folder(place.path)
            except OSError as error:
                raise StoreError(
                    f"the {place.name} folder {place.path} cannot be opened: {error.strerror}; "
                    f"{_ELSEWHERE}"
                ) from error
            try:
                status = os.fstat(folder)
                if not adopt and not _is_recorded(recorded.get(place.name), status, state_device):
                    self._adopt(place, folder, status)
            finally:
                os.close(folder)
            found[place.name] = {
                "uid": status.st_uid,
                "device": status.st_dev,
                "inode": status.st_ino,
            }
        return found

    def _adopt(self, place: _Place, folder: int, status: os.stat_result) -> None:
        """Refuse a folder that holds anything that radrm does not write there."""
        mode = stat.S_IMODE(status.st_mode)
        if mode & 0o777 & ~place.mode:
            raise StoreError(
                f"the {place.name} folder {place.path} was not made by radrm: its mode is "
                f"{mode:04o}, not {place.mode:04o}; {_ELSEWHERE}"
            )
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    ours = place.ours(folder, entry.name, entry.stat(follow_symlinks=False))
                except FileNotFoundError:
                    continue
                if not ours:
                    raise StoreError(
                        f"the {place.name} folder {place.path} was not made by radrm: it holds "
                        f"{entry.name[:80]!r}; {_ELSEWHERE}"
                    )

    # ------------------------------------------------------------- numbers

    def open_store(self) -> Store:
        """The store, which gives no job id and no serial that was given before."""
        store = Store(self._paths.database, self.cover)
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
                "jobs that it does not hold are forgotten, and new ids go on from %d; to have them "
                "back, stop the daemon and restore a copy of the store",
                self._paths.database,
                jobs,
            )
        try:
            self._reserve(jobs, serials)
        except StoreError as error:  # on a full disk it serves all the same, from what it has
            log.error("%s", error)
        return store

    def _has_replaced_store(self, jobs: int, serials: int) -> bool:
        """Whether the store, which would give these numbers next, is not the one that the
        marker was written for, as it then was. Of one that earlier releases kept nothing is
        known."""
        if self._marked is None:
            return not self.had_store
        behind = jobs < self._jobs.seen or serials < self._serials.seen
        return self._marked != self._store_id or behind

    def cover(self, job_id: int, serial: int) -> None:
        """Have these numbers reserved on disk before they are given. Raises `StoreError`."""
        if job_id >= self._jobs.below or serial >= self._serials.below:
            self._reserve(max(job_id, self._jobs.seen), max(serial, self._serials.seen))

    def _reserve(self, job_id: int, serial: int) -> None:
        jobs, serials = Reserved(job_id, job_id + BLOCK), Reserved(serial, serial + BLOCK)
        document = {
            "version": 1,
            "folders": self._folders,
            "numbers": {
                "store": self._store_id,
                "jobs": [jobs.seen, jobs.below],
                "serials": [serials.seen, serials.below],
            },
        }
        try:
            write_durably(self._marker, json.dumps(document, indent=1).encode("ascii") + b"\n")
        except OSError as error:
            raise StoreError(
                f"cannot write {self._marker}: {error.strerror}; free some space there"
            ) from error
        self._jobs, self._serials = jobs, serials

    def _job_ids_on_disk(self) -> list[int]:
        """Of jobs that have a folder for checkpoints, or an attempt that was not forgotten."""
        found = _numbers_in(self._paths.checkpoints)
        for serial in _numbers_in(self._paths.attempts):
            folder = os.path.join(self._paths.attempts, str(serial))
            launch, _ = attempts.read_record(folder, attempts.LAUNCH)
            if launch is not None and 0 < launch["job_id"] < _LARGEST_NUMBER:
                found.append(launch["job_id"])
        return found

    # ------------------------------------------------------------- the marker

    def _read_marker(self) -> dict[str, Any]:
        """What the marker says; nothing where there is none, or none that can be read."""
        try:
            fd = os.open(self._marker, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with open(fd, "rb") as file:
                document = json.loads(file.read(_LARGEST_MARKER))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            log.warning("%s cannot be read and is written anew: %s", self._marker, error)
            return {}
        if not isinstance(document, dict) or document.get("version") != 1:
            log.warning("%s is of another version and is written anew", self._marker)
            return {}
        return document


def _places(paths: Paths, system: bool) -> tuple[_Place, ...]:
    me = os.geteuid()

    def in_spool(_: int, name: str, found: os.stat_result) -> bool:
        """A system's spool is open to all: what others put there says nothing about it."""
        return kind_of(name) is not FOREIGN or (system and found.st_uid != me)

    def in_store(_: int, name: str, found: os.stat_result) -> bool:
        """With copies that somebody keeps beside it, as radrm advises."""
        return name.startswith(os.path.basename(paths.database)) and stat.S_ISREG(found.st_mode)

    def in_attempts(parent: int, name: str, found: os.stat_result) -> bool:
        if not (name.isascii() and name.isdigit() and stat.S_ISDIR(found.st_mode)):
            return False
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        folder = os.open(name, flags, dir_fd=parent)
        try:
            return found.st_uid == me and all(map(attempts.is_own_name, os.listdir(folder)))
        finally:
            os.close(folder)

    return (
        _Place("spool", paths.spool, 0o1777 if system else 0o700, in_spool),
        _Place("store", paths.store, 0o700, in_store),
        _Place("attempts", paths.attempts, 0o711 if system else 0o700, in_attempts),
    )


def _is_recorded(recorded: object, found: os.stat_result, state_device: int) -> bool:
    """Device numbers may change with every boot, but a folder stays on the home's own disk,
    unless the marker was written for another."""
    if not isinstance(recorded, dict):
        return False
    same = (recorded.get("uid"), recorded.get("inode")) == (found.st_uid, found.st_ino)
    return same and found.st_dev in (recorded.get("device"), state_device)


def _numbers_in(path: str) -> list[int]:
    """Of the folders in there that are named by one."""
    try:
        with os.scandir(path) as entries:
            names = [e.name for e in entries if e.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    numbers = [int(n) for n in names if len(n) < 16 and n.isascii() and n.isdigit()]
    return [n for n in numbers if n < _LARGEST_NUMBER]


def _numbers(found: object) -> tuple[object, Reserved, Reserved] | None:
    """The store that numbers were given for, and those of jobs and of attempts."""
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
