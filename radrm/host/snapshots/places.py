"""Where copies lie, their notes, and removing them.

snapshots/          the user's own, 0700
    TICKET/         a copy; the ticket of the first job that was submitted with it
        note.json   what it is a copy of, for which jobs, and its files
        files/      the copy
"""

from __future__ import annotations

import contextlib
import json
import os
import stat

from radrm.errors import BadFile
from radrm.host.snapshots.copying import copy_files
from radrm.host.storage.files import fsync_folder, open_folder, write_all
from radrm.host.storage.tickets import is_ticket
from radrm.jobfile.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from radrm.host.snapshots.listing import Found

_NOTE, _FILES = "note.json", "files"
_MOST_NOTE = 16 * 1024 * 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LINK = -1
"""The size of a link in a note."""
_CACHES = "__pycache__"
"""Folders that Python makes beside the files that it imports."""


class Note(Record):
    """What is known of a copy. `files`: path, size and time of change (ns) of each file; of a
    link the size is `LINK`. `spool`: where its jobs were submitted."""

    source: str
    spool: str
    tickets: tuple[str, ...]
    files: tuple[tuple[str, int, int], ...]


def files_folder(place: str, name: str) -> str:
    """The folder that holds the files of the copy `name`."""
    return os.path.join(place, name, _FILES)


def make(place: str, name: str, note: Note, files: Sequence[Found]) -> None:
    """Make the copy `name` in the user's folder of copies. Raises `BadFile`."""
    folder = os.path.join(place, name)
    try:
        os.makedirs(place, 0o700, exist_ok=True)
        found = os.lstat(place)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise BadFile(f"--snapshot: {place} is no folder of yours; move it away")
        os.mkdir(folder, 0o700)
        os.mkdir(os.path.join(folder, _FILES), 0o700)
        _write_note(folder, note)
    except OSError as error:
        raise BadFile(f"--snapshot: cannot make {folder}: {error.strerror}") from None
    copy_files(note.source, files, os.path.join(folder, _FILES))


def _write_note(folder: str, note: Note) -> None:
    document = {"version": 1, **note.as_dict()}
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(os.path.join(folder, _NOTE), flags, 0o600)
    try:
        write_all(handle, json.dumps(document).encode("ascii"))
        os.fsync(handle)
    finally:
        os.close(handle)
    fsync_folder(folder)


def copies(place: str) -> list[str]:
    """The names of the copies there, the oldest first."""
    try:
        return sorted(name for name in os.listdir(place) if is_ticket(name))
    except OSError:
        return []


def read_note(place: str, name: str) -> Note | None:
    """The note of a copy; None where there is none that radrm has written."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with open(os.open(os.path.join(place, name, _NOTE), flags), "rb") as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                return None
            return parse_note(file.read(_MOST_NOTE + 1))
    except OSError:
        return None


def parse_note(data: bytes) -> Note | None:
    """The note in these bytes; None for anything else. No path in it leads out of the copy."""
    if len(data) > _MOST_NOTE:
        return None
    try:
        document = json.loads(data)
        if document.pop("version") != 1:
            return None
        note = Note(**{**document, "tickets": (*document["tickets"],)})
        files = tuple((path, size, changed) for path, size, changed in note.files)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    sound = (
        isinstance(note.source, str)
        and isinstance(note.spool, str)
        and all(isinstance(each, str) and is_ticket(each) for each in note.tickets)
        and all(map(_is_file, files))
    )
    return Note(note.source, note.spool, note.tickets, files) if sound else None


def _is_file(found: tuple[Any, Any, Any]) -> bool:
    path, size, changed = found
    if not isinstance(path, str) or "\0" in path or type(size) is not int:
        return False
    parts = path.split("/")
    return type(changed) is int and not {"", os.curdir, os.pardir} & {*parts}


def remove(place: str, name: str, note: Note) -> bool:
    """Remove the files of a copy that nobody has changed, then the note. Returns whether nothing
    is left.

    No link is followed: somebody may have put one in the place of a folder, to what is copied.
    """
    folders: dict[str, list[tuple[str, int, int]]] = {"": []}
    for path, size, changed_ns in note.files:
        above, _, last = path.rpartition("/")
        folders.setdefault(above, []).append((last, size, changed_ns))
        while above := above.rpartition("/")[0]:
            folders.setdefault(above, [])
    for above in sorted(folders, reverse=True):  # what is below a folder comes before it
        with _opened(place, name, _FILES, *above.split("/") if above else ()) as folder:
            if folder is None:
                continue
            for last, size, changed_ns in folders[above]:
                _unlink_unchanged(folder, last, size, changed_ns)
            with _opened_below(folder, _CACHES) as cache:
                for found in os.listdir(cache) if cache is not None else ():
                    if found.endswith(".pyc"):
                        os.unlink(found, dir_fd=cache)
            for gone in (_CACHES, *_folders_in(folder)):
                with contextlib.suppress(OSError):
                    os.rmdir(gone, dir_fd=folder)
    with _opened(place, name) as folder:
        if folder is not None:
            with contextlib.suppress(OSError):
                os.unlink(_NOTE, dir_fd=folder)
                os.rmdir(_FILES, dir_fd=folder)
    with contextlib.suppress(OSError):
        os.rmdir(os.path.join(place, name))
    return not os.path.lexists(os.path.join(place, name))


@contextlib.contextmanager
def _opened(place: str, *names: str) -> Iterator[int | None]:
    """A descriptor of a folder, by one folder after the other; None if one of them is none."""
    with contextlib.ExitStack() as opened:
        try:
            folder: int | None = open_folder(place)
        except OSError:
            folder = None
        for each in names:
            if folder is not None:
                opened.callback(os.close, folder)
                try:
                    folder = os.open(each, _FOLDER, dir_fd=folder)
                except OSError:
                    folder = None
        if folder is not None:
            opened.callback(os.close, folder)
        yield folder


@contextlib.contextmanager
def _opened_below(folder: int, name: str) -> Iterator[int | None]:
    try:
        below: int | None = os.open(name, _FOLDER, dir_fd=folder)
    except OSError:
        below = None
    try:
        yield below
    finally:
        if below is not None:
            os.close(below)


def _folders_in(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [each.name for each in entries if each.is_dir(follow_symlinks=False)]


def _unlink_unchanged(folder: int, name: str, size: int, changed_ns: int) -> None:
    with contextlib.suppress(OSError, ValueError):
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            unchanged = size == LINK
        else:
            unchanged = (found.st_size, found.st_mtime_ns) == (size, changed_ns)
        if unchanged and not stat.S_ISDIR(found.st_mode):
            os.unlink(name, dir_fd=folder)
