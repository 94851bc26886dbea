"""The folder that an attempt's step runs it from: made by the daemon, its user's to write."""

from __future__ import annotations

import contextlib
import errno
import os
import signal

from radrm.host.attempts import folder as attempts
from radrm.host.attempts.elastic.folders import clear
from radrm.host.crossings import crossed
from radrm.host.folders import OpenFolder
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


def exists(folder: str) -> bool:
    """Whether a step's folder is in that of the attempt. It may be covered by a mount."""
    try:
        with OpenFolder(folder) as above:
            above.stat(attempts.STEP)
    except OSError as error:
        return error.errno == errno.EXDEV
    return True


def remove(folder: str) -> None:
    """Remove the step's folder from that of the attempt, as far as radrm has written it.

    It belongs to a user, so no name in it is listed and no link followed. Raises OSError: with
    ENOTEMPTY or EBUSY where its user has put something there.
    """
    with OpenFolder(folder) as above:
        try:
            own = above.below(attempts.STEP)
        except FileNotFoundError:
            return
        with own:
            for name in (*attempts.RECORDS, attempts.OVER):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=own.fd)
        os.rmdir(attempts.STEP, dir_fd=above.fd)


def clear_rest(folder: str) -> None:
    """Remove what its user has put into the step's folder, as that user. That takes some seconds
    at most, so a thread does it. What is left then stays."""
    clear(os.path.join(folder, attempts.STEP))
