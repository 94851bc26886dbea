"""Write files so that a crash leaves the old or the new content, never half.

The runner imports this before it starts a job, so paths are plain text here:
`pathlib` alone would cost a third of what Python itself takes to start.
"""

from __future__ import annotations

import fcntl
import os

from radrm.host.crossings import crossed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_DRAWN = 6
"""Random bytes in the name of a draft."""


def write_durably(path: str | os.PathLike[str], data: bytes, mode: int = 0o600) -> None:
    """Put `data` into the file `path`, with exactly the permissions `mode`.

    When this returns, the file survives a power failure; when it raises `OSError`, the
    file is as it was. A process killed in between may leave a hidden `.NAME.*.tmp`.
    """
    folder, name = os.path.split(os.fspath(path))
    above = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        write_whole(path, data, mode, synced=True)
        os.fsync(above)
    finally:
        os.close(above)
    crossed("file durable", name)


def write_whole(
    path: str | os.PathLike[str],
    data: bytes,
    mode: int = 0o600,
    synced: bool = False,
    before: Callable[[], None] | None = None,
) -> None:
    """As `write_durably`, but a power failure may leave the file empty, or no name of it; `synced`:
    only the name may be lost. `before` is called when all but the name is there; if it raises, no
    name comes."""
    folder, name = os.path.split(os.fspath(path))
    temporary = os.path.join(folder, f".{name}.{os.urandom(_DRAWN).hex()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(temporary, flags, mode)
    try:
        try:
            os.fchmod(fd, mode)  # open's own mode is cut by the umask
            write_all(fd, data)
            crossed("file written", name)
            if synced:
                os.fsync(fd)
                crossed("file synced", name)
            if before is not None:
                before()
            os.rename(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
        crossed("file renamed", name)
    finally:
        os.close(fd)


def remove_drafts(path: str) -> None:
    """Remove what killed processes have left of `write_durably` to the file `path`.

    No process may be writing it now. Raises `OSError`.
    """
    folder, name = os.path.split(path)
    for found in os.listdir(folder):
        start, _, drawn = found.removesuffix(".tmp").rpartition(".")
        is_draft = found.endswith(".tmp") and start == f".{name}" and len(drawn) == 2 * _DRAWN
        if is_draft and not drawn.strip("0123456789abcdef"):
            os.unlink(os.path.join(folder, found))


def open_folder(path: str | os.PathLike[str]) -> int:
    """A descriptor of the folder itself: never of one that a link leads to. Raises `OSError`."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def fsync_folder(path: str | os.PathLike[str]) -> None:
    """Make the names in a folder survive a power failure."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def take_lock(path: str | os.PathLike[str]) -> int | None:
    """A descriptor that holds the lock of this file, which is made where it is missing; None if
    another process holds it. The kernel frees it with the process, so none is ever stale.

    Raises `OSError`.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    lock = os.open(path, flags, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        if not isinstance(error, BlockingIOError):
            raise
        return None
    return lock


def write_all(fd: int, data: bytes) -> None:
    """Write all of `data`: `os.write` may stop early, on a nearly full disk for one."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
