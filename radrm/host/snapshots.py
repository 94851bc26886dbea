"""`--snapshot`: copies of the code with which jobs were submitted. All of it runs as the user.

Theory of operation. `radrm submit` copies the files that git would take (without git all but
`.git`), syncs, writes a note about the copy, and only then submits, so a job that was acknowledged
finds its code after a power failure. A later `radrm submit --snapshot` of the same user removes a
copy: the files of its note that nobody has touched since. What jobs have written there stays.

snapshots/          the user's own, 0700
    TICKET/         a copy; the ticket of the first job that was submitted with it
        note.json   what it is a copy of, for which jobs, and its files
        files/      the copy
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import shutil
import stat
import subprocess
from itertools import islice

from radrm.errors import BadFile
from radrm.host.storage.files import fsync_folder, write_all
from radrm.host.storage.tickets import is_ticket
from radrm.jobfile.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST_FILES = 20_000
MOST_BYTES = 512 * 1024 * 1024
_MOST_NOTE = 16 * 1024 * 1024
_MOST_LISTED = 5 * MOST_FILES
"""With logs and what is no file. A folder with more is not looked through to its end."""
_MOST_OF_GIT = 64 * 1024 * 1024
_GIT = ("-c", "core.fsmonitor=false", "ls-files", "-z", "--cached", "--others")
_LOG = re.compile(r"(.*/)?radrm-\d+(_\d+)?(\.attempt\d+)?\.(out|err)", re.DOTALL)
_STEP = "list what is no code in .gitignore, or name a smaller folder: --snapshot=DIR"


class Note(Record):
    """What is known of a copy. `spool`: where its jobs were submitted."""

    source: str
    spool: str
    tickets: tuple[str, ...]
    files: tuple[str, ...]


def files_folder(place: str, name: str) -> str:
    """The folder that holds the files of the copy `name`."""
    return os.path.join(place, name, "files")


# ------------------------------------------------------------------ which files


def files_of(folder: str) -> tuple[str, ...]:
    """The paths of the files and links to copy, sorted. Raises `BadFile` for none, and for too many
    or too large ones."""
    found, size = [], 0
    known = _of_git(folder)
    listed = set(islice(_walk(folder, "") if known is None else known, _MOST_LISTED + 1))
    if len(listed) > _MOST_LISTED:
        raise BadFile(f"--snapshot: {folder} has too many files to look at; {_STEP}")
    for path in sorted(listed):
        try:
            seen = os.lstat(os.path.join(folder, path))
        except OSError:
            continue  # git also lists files that were removed
        if _LOG.fullmatch(path) or not (stat.S_ISREG(seen.st_mode) or stat.S_ISLNK(seen.st_mode)):
            continue
        found.append(path)
        size += seen.st_size
        if len(found) > MOST_FILES:
            raise BadFile(
                f"--snapshot: {folder} has more than {MOST_FILES} files, which is the most; {_STEP}"
            )
    if size > MOST_BYTES:
        raise BadFile(
            f"--snapshot: the files of {folder} have {size >> 20} MiB, and {MOST_BYTES >> 20} MiB "
            f"is the most; {_STEP}"
        )
    if not found:
        raise BadFile(f"--snapshot: {folder} has no files to copy; name another folder")
    return tuple(found)


def _of_git(folder: str) -> Iterator[str] | None:
    """The files that git knows there and those that it does not ignore; None without a work tree.

    Raises `BadFile` if git prints no end of them.
    """
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    try:
        git = subprocess.Popen(
            ["git", "-C", folder, *_GIT, "--exclude-standard"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
    except OSError:
        return None  # no git here
    with git:
        assert git.stdout is not None
        data = git.stdout.read(_MOST_OF_GIT + 1)
        if len(data) > _MOST_OF_GIT:
            git.kill()
            raise BadFile(f"--snapshot: git lists too many files in {folder}; {_STEP}")
        if git.wait() != 0:
            return None
    return _with_inner(folder, map(os.fsdecode, filter(None, data.split(b"\0"))))


def _with_inner(folder: str, names: Iterable[str]) -> Iterator[str]:
    """These paths; for another repository in the folder, the files in it."""
    for name in names:
        path = os.path.join(folder, name)
        inner = os.path.isdir(path) and not os.path.islink(path)
        yield from _walk(folder, name.rstrip("/")) if inner else (name,)


def _walk(folder: str, below: str) -> Iterator[str]:
    """The paths of all files below a folder, in it and in its folders; links are not followed."""

    def wrong(error: OSError) -> None:
        why = f"cannot read the folder {error.filename}: {error.strerror}"
        raise BadFile(f"--snapshot: {why}") from None

    for top, folders, files in os.walk(
        os.path.normpath(os.path.join(folder, below)), onerror=wrong
    ):
        links = [name for name in folders if os.path.islink(os.path.join(top, name))]
        folders[:] = [name for name in folders if name != ".git"]
        yield from (os.path.relpath(os.path.join(top, name), folder) for name in (*links, *files))


# ------------------------------------------------------------------ making a copy


def make(place: str, name: str, note: Note) -> None:
    """Make the copy `name` in the user's folder of copies. Raises `BadFile`."""
    folder, files = os.path.join(place, name), files_folder(place, name)
    try:
        os.makedirs(place, 0o700, exist_ok=True)
        found = os.lstat(place)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise BadFile(f"--snapshot: {place} is no folder of yours; move it away")
        os.mkdir(folder, 0o700)
        try:
            os.mkdir(files, 0o700)
            for path in note.files:
                with contextlib.suppress(FileNotFoundError):  # it is gone since it was listed
                    _copy(note.source, path, os.path.join(files, path))
            _sync(folder)
            handle = os.open(f"{folder}/note.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(handle, "wb", buffering=0):
                write_all(handle, json.dumps(note.as_dict()).encode("ascii"))
                os.fsync(handle)
            fsync_folder(folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    except OSError as error:
        why = f"cannot copy {note.source} to {folder}: {error.strerror}; nothing was submitted"
        raise BadFile(f"--snapshot: {why}") from None


def _sync(folder: str) -> None:
    """Write this file system to disk: one call for all files, which waits for no other disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(handle) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(handle)


def _copy(source: str, path: str, copy: str) -> None:
    """Copy a file with its mode and times. A link out of the folder leads where it has led."""
    os.makedirs(os.path.dirname(copy), 0o700, exist_ok=True)
    original = os.path.join(source, path)
    if os.path.islink(original):
        leads = os.readlink(original)
        at = os.path.normpath(os.path.join(os.path.dirname(path), leads))
        outside = not os.path.isabs(leads) and at.split(os.sep)[0] == os.pardir
        os.symlink(os.path.normpath(os.path.join(source, at)) if outside else leads, copy)
    else:
        shutil.copy2(original, copy, follow_symlinks=False)


# ------------------------------------------------------------------ removing one


def copies(place: str) -> list[str]:
    """The names of the copies there, the oldest first."""
    try:
        return sorted(name for name in os.listdir(place) if is_ticket(name))
    except OSError:
        return []


def read_note(place: str, name: str) -> Note | None:
    """Return the note of a copy; None if it has none, or one that is not the user's own."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with open(os.open(os.path.join(place, name, "note.json"), flags), "rb") as file:
            own = os.fstat(file.fileno()).st_uid == os.geteuid()
            return parse_note(file.read(_MOST_NOTE)) if own else None
    except OSError:
        return None


def parse_note(data: bytes) -> Note | None:
    """The note in these bytes; None for anything else."""
    try:
        found = Note(**json.loads(data))
        note = Note(found.source, found.spool, tuple(found.tickets), tuple(found.files))
    except (ValueError, TypeError, RecursionError):
        return None
    words = (note.source, note.spool, *note.tickets, *note.files)
    sound = all(isinstance(word, str) for word in words) and all(map(is_ticket, note.tickets))
    return note if sound else None


def remove(place: str, name: str, note: Note) -> bool:
    """Remove what nobody has touched since the copy was made. Returns whether nothing is left.

    The time of a change of a file's record (ctime) is nobody's to set. No link is followed.
    """
    folder, top = os.path.join(place, name), files_folder(place, name)
    try:
        made_ns, copied = os.lstat(f"{folder}/note.json").st_ctime_ns, frozenset(note.files)
    except FileNotFoundError:  # another `radrm submit` removes it
        return True
    for above, folders, files, handle in os.fwalk(top, topdown=False):
        cache = os.path.basename(above) == "__pycache__"
        for each in (*folders, *files):
            path = os.path.relpath(os.path.join(above, each), top)
            with contextlib.suppress(OSError):
                found = os.stat(each, dir_fd=handle, follow_symlinks=False)
                untouched = path in copied and found.st_ctime_ns <= made_ns
                if stat.S_ISDIR(found.st_mode):
                    os.rmdir(each, dir_fd=handle)
                elif untouched or (cache and each.endswith(".pyc")):
                    os.unlink(each, dir_fd=handle)
    with contextlib.suppress(OSError):
        os.unlink(f"{folder}/note.json")
        os.rmdir(top)
        os.rmdir(folder)
    return not os.path.lexists(folder)
