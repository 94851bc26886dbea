"""The folder that an attempt's step runs it from: made by the daemon, its user's to write."""

from __future__ import annotations

import contextlib
import os
import signal

from radrm.host.attempts import folder as attempts
from radrm.host.crossings import crossed
from radrm.host.storage.files import fsync_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.host.attempts.folder import Fields

WAKE = signal.SIGRTMAX
"""Tells a step that there is news: nothing else sends this signal, and the step blocks it."""


def make(folder: str, record: Fields) -> None:
    """Make the step's folder in that of the attempt, with a copy of its launch record. OSError."""
    uid, gid = record["uid"], record["gid"]
    path = os.path.join(folder, attempts.STEP)
    os.mkdir(path, 0o700)
    # The step is the user, and in Slurm's groups: nothing of that is changed or left.
    attempts.write_record(path, attempts.LAUNCH, {**record, "uid": None, "gid": None})
    if uid is not None:
        os.chown(os.path.join(path, attempts.LAUNCH), uid, gid, follow_symlinks=False)
        os.chown(path, uid, gid, follow_symlinks=False)
    fsync_folder(folder)
    crossed("attempt handed over")


def wake(pidfd: int | None) -> None:
    """Tell a step that there is news for it."""
    if pidfd is not None:
        with contextlib.suppress(OSError):  # it has ended
            signal.pidfd_send_signal(pidfd, WAKE)


def remove(folder: str) -> None:
    """Remove the step's folder from that of the attempt, as far as radrm has written it.

    It belongs to a user, so no name in it is listed and no link followed. Raises OSError.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    above = os.open(folder, flags)
    try:
        try:
            own = os.open(attempts.STEP, flags, dir_fd=above)
        except FileNotFoundError:
            return
        try:
            for name in (*attempts.RECORDS, attempts.OVER):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=own)
        finally:
            os.close(own)
        os.rmdir(attempts.STEP, dir_fd=above)
    finally:
        os.close(above)
