"""The folder of each job for its checkpoints: made before the first attempt, removed if empty.

Theory of operation. The daemon makes the folder as its own and then gives it to the job's user.
A daemon that is killed in between leaves its own folder, and the next launch gives it away.
After the job's end the daemon removes an empty folder; a user removes what a job has saved. A
daemon that is killed before that leaves the folder, and the next daemon removes it at its start.
Users own these folders and may replace them. So every name is used below a descriptor of the
parent folder, and no link is followed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable

_LONGEST_ID = 16


class Checkpoints:
    """Manages the folder `path`. `give_away`: each job's folder gets its user as owner."""

    def __init__(self, path: str, give_away: bool) -> None:
        self.path = path
        self._give_away = give_away

    def make(self, job_id: int, uid: int, gid: int) -> None:
        """Make a job's folder if it is missing. Raises `OSError`."""
        name, folder = str(job_id), self._open()
        try:
            try:
                os.mkdir(name, 0o700, dir_fd=folder)
            except FileExistsError:
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if found.st_uid != os.geteuid() or not stat.S_ISDIR(found.st_mode):
                    return
            if self._give_away:
                os.chown(name, uid, gid, dir_fd=folder, follow_symlinks=False)
        finally:
            os.close(folder)

    def remove_empty(self, job_id: int, uid: int) -> None:
        """Remove the folder of an ended job of `uid` if it is empty."""
        with contextlib.suppress(OSError):  # it is not empty
            folder = self._open()
            try:
                self._remove_empty(folder, str(job_id), uid)
            finally:
                os.close(folder)

    def remove_left(self, ended_owner: Callable[[int], int | None]) -> None:
        """Remove the empty folders of all ended jobs. `ended_owner` gives the user of an ended
        job, None for any other."""
        with contextlib.suppress(OSError):
            folder = self._open()
            try:
                for name in os.listdir(folder):
                    if not (name.isascii() and name.isdigit() and len(name) < _LONGEST_ID):
                        continue
                    uid = ended_owner(int(name))
                    if uid is not None:
                        with contextlib.suppress(OSError):
                            self._remove_empty(folder, name, uid)
            finally:
                os.close(folder)

    def _remove_empty(self, folder: int, name: str, uid: int) -> None:
        """Remove a folder that this user owns, or one that was not given away yet."""
        owner = uid if self._give_away else os.geteuid()
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if found.st_uid in (owner, os.geteuid()):
            os.rmdir(name, dir_fd=folder)

    def _open(self) -> int:
        """A descriptor of the folder. It may be a link to another disk, but the daemon owns it."""
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if os.fstat(folder).st_uid != os.geteuid():
            os.close(folder)
            raise PermissionError(errno.EPERM, "it is another user's", self.path)
        return folder
