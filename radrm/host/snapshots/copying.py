"""Copy files and links. Nothing outside the folder is followed, opened or written."""

from __future__ import annotations

import contextlib
import os
import stat

from radrm.errors import BadFile
from radrm.host.storage.files import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from radrm.host.snapshots.listing import Found

_PIECE = 1024 * 1024


def copy_files(source: str, files: Iterable[Found], target: str) -> None:
    """Copy these files of the folder `source` to the new folder `target`, with their modes and
    times. A file is copied as long as it was when it was listed. Raises `BadFile`.

    A link stays a link; one that leads out of the folder by a relative path gets an absolute one.
    """
    made = {""}
    for each in files:
        try:
            _make_folders(target, os.path.dirname(each.path), made)
            copy = os.path.join(target, each.path)
            original = os.path.join(source, each.path)
            if each.link:
                os.symlink(_leads(source, each.path, os.readlink(original)), copy)
            else:
                _copy(original, copy, each.size)
                os.utime(copy, ns=(each.changed_ns, each.changed_ns))
        except FileNotFoundError:
            continue  # it is gone since it was listed
        except OSError as error:
            raise BadFile(
                f"--snapshot: cannot copy {os.path.join(source, each.path)} to {target}: "
                f"{error.strerror}; nothing was submitted"
            ) from None
    _sync(target)


def _make_folders(target: str, path: str, made: set[str]) -> None:
    if path not in made:
        _make_folders(target, os.path.dirname(path), made)
        os.mkdir(os.path.join(target, path), 0o700)
        made.add(path)


def _copy(original: str, copy: str, size: int) -> None:
    # It may have become a link or a pipe since it was listed.
    source = os.open(original, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(source).st_mode
        if not stat.S_ISREG(mode):
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        target = os.open(copy, flags, 0o600)
        try:
            while size > 0 and (data := os.read(source, min(size, _PIECE))):
                write_all(target, data)
                size -= len(data)
            os.fchmod(target, stat.S_IMODE(mode) & 0o777 | stat.S_IRUSR | stat.S_IWUSR)
        finally:
            os.close(target)
    finally:
        os.close(source)


def _leads(source: str, path: str, text: str) -> str:
    """The text of the copy of a link."""
    if os.path.isabs(text):
        return text
    leads = os.path.normpath(os.path.join(os.path.dirname(path), text))
    if leads == os.pardir or leads.startswith(os.pardir + os.sep):
        return os.path.normpath(os.path.join(source, leads))
    return text


def _sync(folder: str) -> None:
    """Write everything of the file system to disk: one call, whatever the number of files."""
    with contextlib.suppress(OSError, AttributeError, ImportError):
        import ctypes

        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if ctypes.CDLL(None).syncfs(handle) == 0:
                return
        finally:
            os.close(handle)
    os.sync()
