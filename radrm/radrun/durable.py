"""Write a file so that a reader, and a crash, finds all of it or the one before."""

from __future__ import annotations

import contextlib
import os


def write_durably(folder: str, name: str, data: bytes) -> None:
    """Write a file under another name, sync it, and give it its name. Raises OSError."""
    path = os.path.join(folder, name)
    draft = os.path.join(folder, f".{name}.{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        with open(os.open(draft, flags, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(draft, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise
    sync_folder(folder)


def sync_folder(path: str) -> None:
    """Sync the names in a folder. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
