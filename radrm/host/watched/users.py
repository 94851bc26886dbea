"""The watched folders of users in a system daemon's spool: `spool/users/UID`.

All users may write to the spool, so any user could make a folder there under another user's name.
Only root may write to `users`: root makes each folder and gives it to its user. The name is the
user's number, because a user's name may later belong to another user.
"""

from __future__ import annotations

import contextlib
import os
import stat

from radrm.errors import StoreError
from radrm.host.folders import OpenFolder
from radrm.host.storage.tickets import new_ticket
from radrm.jobfile.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_USERS = 1000
_AWAY = "move it away: until then no .rad file in the spool becomes a job"


class Owned(Record):
    """A watched folder and its owner."""

    path: str
    uid: int
    gid: int


class UserFolders:
    """The folders below `path`. Only root can make one; every user can find their own."""

    def __init__(self, path: str) -> None:
        self.path = path

    def prepare(self) -> None:
        """Make `users` if it is missing. Raises `StoreError` if that fails."""
        try:
            os.mkdir(self.path, 0o700)
        except FileExistsError:
            return
        except OSError as error:
            raise StoreError(f"cannot make the folder {self.path}: {error.strerror}") from error
        with self._opened() as folder:
            os.fchmod(folder.fd, 0o711)

    def make(self, uid: int, gid: int, known: bool = True) -> str:
        """The folder of this user, made if it is missing. Raises `StoreError`.

        `known`: the user is in the server's user database. Unknown users get half of the folders,
        because one user can have thousands of unknown numbers (in containers).
        """
        self.prepare()
        most = MOST_USERS if known else MOST_USERS // 2
        name, draft = str(uid), f".{new_ticket()}"
        with self._opened() as folder:
            fd = folder.fd
            try:
                if (found := _find(name, folder)) is None:
                    if (count := len(os.listdir(fd))) >= most:
                        raise StoreError(
                            f"{self.path} has {count} folders, and the limit is {most}; use "
                            "radrm submit, or ask the administrator to remove some"
                        )
                    # A draft, so that no folder with a user's number belongs to root after a kill.
                    os.mkdir(draft, 0o700, dir_fd=fd)
                    os.chown(draft, uid, gid, dir_fd=fd, follow_symlinks=False)
                    os.rename(draft, name, src_dir_fd=fd, dst_dir_fd=fd)
                    os.fsync(fd)
                    found = folder.stat(name)
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.rmdir(draft, dir_fd=fd)
                raise StoreError(
                    f"cannot make the folder {self.path}/{name}: {error.strerror}; tell the "
                    "administrator"
                ) from error
        return self._checked(uid, found)

    def path_of(self, uid: int) -> str:
        """The folder of this user, who is the caller's. Raises `StoreError` if it is missing or
        belongs to another."""
        path = f"{self.path}/{uid}"
        try:
            found = os.lstat(path)
        except OSError as error:
            raise StoreError(f"cannot open your folder {path}: {error.strerror}") from error
        return self._checked(uid, found)

    def _checked(self, uid: int, found: os.stat_result) -> str:
        path = f"{self.path}/{uid}"
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != uid:
            raise StoreError(
                f"{path} belongs to user {found.st_uid} and should be user {uid}'s folder; "
                "ask the administrator to move it away"
            )
        return path

    def all(self) -> list[Owned]:
        """All folders that belong to their users. Raises `StoreError` if `users` is another
        user's."""
        self.prepare()
        with self._opened() as folder:
            names = sorted(name for name in os.listdir(folder.fd) if name.isdecimal())[:MOST_USERS]
            found = []
            for name in names:
                with contextlib.suppress(OSError):  # its user has mounted something over it
                    found.append((name, folder.stat(name)))
        return [
            Owned(f"{self.path}/{name}", f.st_uid, f.st_gid)
            for name, f in found
            if stat.S_ISDIR(f.st_mode) and name == str(f.st_uid)
        ]

    @contextlib.contextmanager
    def _opened(self) -> Iterator[OpenFolder]:
        """The folder `users`. Raises `StoreError` if another user can write to it."""
        me = os.geteuid()
        try:
            folder = OpenFolder(self.path)
        except OSError as error:
            what = "not a folder" if os.path.lexists(self.path) else error.strerror
            raise StoreError(f"{self.path}: {what}; {_AWAY}") from error
        with folder:
            found = os.fstat(folder.fd)
            if found.st_uid != me:
                raise StoreError(f"{self.path} belongs to user {found.st_uid}; {_AWAY}")
            if found.st_mode & 0o022:
                raise StoreError(f"others may write to {self.path}; {_AWAY}")
            yield folder


def _find(name: str, folder: OpenFolder) -> os.stat_result | None:
    try:
        return folder.stat(name)
    except FileNotFoundError:
        return None
