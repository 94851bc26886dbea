"""One open watched folder: its owner, its files, claims, `done/` and `refused/`.

Theory of operation: the process has only the rights of the folder's owner. It opens the folder and
its subfolders without following links, checks what it has opened, and reaches all files through
these descriptors. So a rename of the folder or a new link changes nothing for an open `Folder`. A
lock keeps other looks out; users may change files at any moment, and `Seen` notices that.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from itertools import islice

from radrm.errors import BadFile, RadrmError
from radrm.host.storage.files import write_all
from radrm.host.transient import may_pass
from radrm.host.watched.names import DONE, REASON, REFUSED, claim_of, claimed, is_job_file, kept
from radrm.jobfile.radfile import MAX_BYTES
from radrm.jobfile.record import Record

MOST_ENTRIES = 100_000
"""The most names of a folder that one look reads."""
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class FolderError(RadrmError):
    """A look can take nothing from a folder: one line with the cause and the next step."""


class Busy(RadrmError):
    """Another look has the lock of this folder."""


class Changed(Exception):
    """A file has changed since it was seen: a program still writes it."""


class Seen(Record):
    """A file at one moment. Equal to the same file at a later moment if it has not changed."""

    device: int
    inode: int
    size: int
    changed_ns: int

    @staticmethod
    def from_status(found: os.stat_result) -> Seen:
        return Seen(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


class Folder:
    """A folder of this process's user, locked against other looks. It is a context manager.

    Raises `FolderError` if other users can write to the folder, and `Busy` if another look has
    the lock.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        with contextlib.ExitStack() as opened:
            self._fd = _open(path, path, None, opened)
            self._refused = self._below(REFUSED, opened)
            try:
                self._done = self._below(DONE, opened)
            except FolderError as error:
                # The user looks into `refused/` for reasons, so the reason goes there as well.
                _write(self._refused, DONE + REASON, f"{error}\n")
                raise
            with contextlib.suppress(OSError):
                os.unlink(DONE + REASON, dir_fd=self._refused)
            _lock(self._done, path, opened)
            self._opened = opened.pop_all()

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def _below(self, name: str, opened: contextlib.ExitStack) -> int:
        path = os.path.join(self.path, name)
        try:
            os.mkdir(name, 0o700, dir_fd=self._fd)
        except FileExistsError:
            pass
        except OSError as error:
            raise FolderError(f"cannot make the folder {path}: {error.strerror}") from error
        fd = _open(path, name, self._fd, opened)
        if os.fstat(fd).st_dev != os.fstat(self._fd).st_dev:
            raise FolderError(
                f"{path} lies on another disk; files cannot be moved there; unmount it"
            )
        return fd

    # ------------------------------------------------------------- files

    def names(self) -> tuple[list[str], list[str]]:
        """The job files, and the claims that an earlier look has not finished."""
        with os.scandir(self._fd) as entries:
            found = [entry.name for entry in islice(entries, MOST_ENTRIES)]
        return (
            sorted(name for name in found if is_job_file(name)),
            sorted(name for name in found if claimed(name)),
        )

    def seen(self, name: str) -> Seen | None:
        """The file as it is now; None if it does not exist."""
        try:
            return Seen.from_status(os.stat(name, dir_fd=self._fd, follow_symlinks=False))
        except OSError:
            return None

    # ------------------------------------------------------------- the steps of one file

    def claim(self, name: str, ticket: str) -> str:
        """Rename a file to a name that holds its ticket; return that name. Raises `OSError`."""
        claim = claim_of(ticket, name)
        os.rename(name, claim, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        return claim

    def give_back(self, claim: str, name: str) -> None:
        """Undo a claim. If there is a new file of that name, it stays a claim for the next look."""
        if self.seen(name) is None:
            os.rename(claim, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def read(self, claim: str, seen: Seen | None) -> bytes:
        """The content of a claimed file.

        Raises `BadFile` with the reason why it cannot be a job, and `Changed` if it differs from
        `seen`. Raises `OSError` for a failure of the server that may pass.
        """
        try:
            _check(os.stat(claim, dir_fd=self._fd, follow_symlinks=False))
            # O_NONBLOCK: the file may have become a FIFO since the check, and that would block.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            with open(os.open(claim, flags, dir_fd=self._fd), "rb") as file:
                before = os.fstat(file.fileno())
                _check(before)
                if seen is not None and Seen.from_status(before) != seen:
                    raise Changed
                data = file.read(MAX_BYTES + 1)
                if Seen.from_status(os.fstat(file.fileno())) != Seen.from_status(before):
                    raise Changed
                return data
        except FileNotFoundError:
            raise Changed from None
        except OSError as error:
            if may_pass(error):
                raise
            raise BadFile(f"it cannot be opened: {error.strerror}") from None

    def sync(self) -> None:
        """Write all claims to disk. A claim that a power failure undoes would get another ticket,
        and one file would become two jobs."""
        os.fsync(self._fd)

    def finish(self, claim: str) -> None:
        """Move the file of a submitted job to `done/`."""
        os.rename(claim, claim[1:], src_dir_fd=self._fd, dst_dir_fd=self._done)

    def refuse(self, claim: str, reason: str) -> None:
        """Write the reason to `refused/`, then move the file there. Raises `OSError`."""
        name = claim[1:]
        _write(self._refused, name + REASON, f"{reason}\n")
        try:
            os.rename(claim, name, src_dir_fd=self._fd, dst_dir_fd=self._refused)
        except OSError as error:
            if may_pass(error):
                raise
            # Its owner may not move a folder without write permission on it. Renamed here, it is
            # no job file any more.
            os.rename(claim, name + ".refused", src_dir_fd=self._fd, dst_dir_fd=self._fd)


def _open(path: str, name: str, above: int | None, opened: contextlib.ExitStack) -> int:
    try:
        fd = os.open(name, _FLAGS, dir_fd=above)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            what = "a symbolic link" if _is_link(name, above) else "not a folder"
            raise FolderError(f"{path} is {what}; move it away") from None
        raise FolderError(f"cannot open the folder {path}: {error.strerror}") from error
    opened.callback(os.close, fd)
    found, me = os.fstat(fd), os.geteuid()
    if found.st_uid != me:
        raise FolderError(f"{path} belongs to user {found.st_uid}, not to user {me}; move it away")
    if found.st_mode & 0o022:
        raise FolderError(
            f"others may write to {path} (mode {stat.S_IMODE(found.st_mode):04o}), so its files "
            f"may be theirs; run: chmod go-w {path}"
        )
    return fd


def _lock(done: int, path: str, opened: contextlib.ExitStack) -> None:
    """Lock the folder. Other users may not open the lock file, so they cannot hold the lock."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        lock = os.open(".lock", flags, 0o600, dir_fd=done)
    except OSError as error:
        raise FolderError(f"cannot write to {path}/{DONE}: {error.strerror}") from error
    opened.callback(os.close, lock)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise Busy(f"another process takes job files from {path} now") from None


def _is_link(name: str, above: int | None) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _check(found: os.stat_result) -> None:
    """Raise `BadFile` for anything but a regular file of this user with one name."""
    mode = found.st_mode
    if not stat.S_ISREG(mode):
        raise BadFile(f"it is {_kind(mode)}, not a regular file; put a copy of the file here")
    if found.st_uid != os.geteuid():
        raise BadFile(
            f"it belongs to user {found.st_uid}, not to user {os.geteuid()}; put a copy of it here"
        )
    if found.st_nlink != 1:
        raise BadFile(f"it has {found.st_nlink} names (hard links); put a copy of it here")
    if found.st_size > MAX_BYTES:
        raise BadFile(
            f"it has {found.st_size} bytes, and a job file has {MAX_BYTES} at most; "
            "put a script here that starts your program"
        )


def _kind(mode: int) -> str:
    kinds = {stat.S_IFLNK: "a symbolic link", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO"}
    return kinds.get(stat.S_IFMT(mode), "a device or a socket")


def _write(folder: int, name: str, text: str) -> None:
    """Write a small file completely or not at all. Raises `OSError`."""
    draft = f".{kept(name)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(draft, flags, 0o600, dir_fd=folder)
    try:
        write_all(fd, text.encode("utf-8", "replace"))
    finally:
        os.close(fd)
    os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
