"""The folder of each job for its checkpoints: made before the first attempt, removed if empty.

Theory of operation. The daemon makes the folder as its own and then gives it to the job's user.
A daemon that is killed in between leaves its own folder, and the next launch gives it away.
After the job's end the daemon removes an empty folder; a user removes what a job has saved. A
daemon that is killed before that leaves the folder, and the next daemon removes it at its start.
Users own these folders, may replace them, and may mount something over them. So every name is used
below a descriptor of the parent folder, no link is followed, and no mount entered (`OpenFolder`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Callable

from radrm.core.records import Job
from radrm.host.folders import OpenFolder
from radrm.jobfile.slurm.words import STEPS

_NAME = re.compile(r"([0-9]{1,15})(\.[0-9]{1,15})?")


def _name(job: Job) -> str:
    """The folder's name: another one each time that a job begins anew. The old one stays."""
    return f"{job.id}.{job.anew}" if job.anew else str(job.id)


class Checkpoints:
    """Manages the folder `path`. `give_away`: each job's folder gets its user as owner."""

    def __init__(self, path: str, give_away: bool) -> None:
        self.path = path
        self._give_away = give_away

    def make(self, job: Job, uid: int, gid: int) -> None:
        """Make a job's folder if it is missing. Raises `OSError`."""
        name = _name(job)
        with self._open() as folder:
            try:
                os.mkdir(name, 0o700, dir_fd=folder.fd)
            except FileExistsError:
                found = folder.stat(name)
                if found.st_uid != os.geteuid() or not stat.S_ISDIR(found.st_mode):
                    return
            if self._give_away:
                os.chown(name, uid, gid, dir_fd=folder.fd, follow_symlinks=False)

    def of(self, job: Job) -> str:
        """The path of a job's folder."""
        return os.path.join(self.path, _name(job))

    def remove_empty(self, job: Job) -> None:
        """Remove the folder of an ended job if it is empty."""
        # It is not removed if it is not empty. Most are gone: the runner removes an empty one.
        with contextlib.suppress(OSError):
            os.close(os.open(self.of(job), os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC))
            with self._open() as folder:
                self._remove_empty(folder, _name(job), job.spec.uid)

    def remove_left(self, ended_owner: Callable[[int], int | None]) -> None:
        """Remove the empty folders of all ended jobs. `ended_owner` gives the user of an ended
        job, None for any other."""
        with contextlib.suppress(OSError), self._open() as folder:
            for name in os.listdir(folder.fd):
                found = _NAME.fullmatch(name)
                uid = ended_owner(int(found[1])) if found else None
                if uid is not None:
                    with contextlib.suppress(OSError):
                        self._remove_empty(folder, name, uid)

    def _remove_empty(self, folder: OpenFolder, name: str, uid: int) -> None:
        """Remove a folder that this user owns, or one that was not given away yet."""
        owner = uid if self._give_away else os.geteuid()
        if folder.stat(name).st_uid not in (owner, os.geteuid()):
            return
        try:
            os.rmdir(name, dir_fd=folder.fd)
        except OSError:
            self._remove_steps(folder, name)
            os.rmdir(name, dir_fd=folder.fd)

    def _remove_steps(self, folder: OpenFolder, name: str) -> None:
        """Remove what the steps of a job as Slurm's leave there."""
        with contextlib.suppress(OSError), folder.below(name) as own:
            os.unlink(STEPS, dir_fd=own.fd)

    def _open(self) -> OpenFolder:
        """The folder. It may be a link to another disk, but the daemon owns it."""
        folder = OpenFolder(self.path, links=True)
        if os.fstat(folder.fd).st_uid != os.geteuid():
            folder.close()
            raise PermissionError(errno.EPERM, "it is another user's", self.path)
        return folder
