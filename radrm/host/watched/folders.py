"""The names in a watched folder, and the folders of users: `spool/users/UID` of a system daemon.

train.rad                   a job file
.TICKET.train.rad           a job file that a look has claimed: its envelope has this ticket
done/TICKET.train.rad       a submitted job file
refused/TICKET.train.rad    a refused job file; TICKET.train.rad.txt holds the reason

All users may write to a system's spool, so any user could make a folder there under another user's
name. Only root may write to `users`: root makes each folder and gives it to its user. The name is
the user's number, because a user's name may later belong to another user.
"""

from __future__ import annotations

import contextlib
import os
import stat

from radrm.errors import StoreError, plain
from radrm.host.folders import OpenFolder
from radrm.host.storage.tickets import LENGTH, is_ticket
from radrm.jobfile.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIX, REASON = ".rad", ".txt"
DONE, REFUSED, USERS = "done", "refused", "users"
MOST_USERS = 1000
_LONGEST = 180
"""Bytes of a name that are kept, so that the ticket and a suffix also fit into 255 bytes."""
_AWAY = "move it away: until then no .rad file in the spool becomes a job"


def is_job_file(name: str) -> bool:
    """True for the name of a job file that no look has claimed."""
    return name.endswith(SUFFIX) and not name.startswith(".")


def kept(name: str) -> str:
    """The name as it follows a ticket: printable, with limited length."""
    stem = plain(name).removesuffix(SUFFIX).replace("/", "\ufffd")
    return stem.encode()[:_LONGEST].decode("utf-8", "ignore") + SUFFIX


def claim_of(ticket: str, name: str) -> str:
    """The name of a claimed file."""
    return f".{ticket}.{kept(name)}"


def claimed(name: str) -> tuple[str, str] | None:
    """The ticket and the file's own name in the name of a claimed file; None for other names."""
    ticket, rest = name[1 : LENGTH + 1], name[LENGTH + 2 :]
    ours = name[:1] == "." and name[LENGTH + 1 : LENGTH + 2] == "." and is_ticket(ticket)
    return (ticket, rest) if ours and is_job_file(rest) else None


def reserved(name: str, system: bool) -> bool:
    """True for names in a spool that belong to watched folders and not to envelopes.

    The spool of a user's own daemon is a watched folder itself; a system's holds `users`.
    """
    if system:
        return name == USERS
    return name in (DONE, REFUSED) or is_job_file(name) or claimed(name) is not None


class Owned(Record):
    """A watched folder and its owner."""

    path: str
    uid: int
    gid: int


class UserFolders:
    """The folders below `path`. Only root can make one; every user can find their own."""

    def __init__(self, path: str) -> None:
        self.path = path

    def make(self, uid: int, gid: int, known: bool = True) -> str:
        """The folder of this user, made if it is missing. Raises `StoreError`.

        `known`: the user is in the server's user database. Unknown users get half of the folders,
        because one user can have thousands of unknown numbers (in containers).
        """
        most, name = MOST_USERS if known else MOST_USERS // 2, str(uid)
        with self._opened() as folder:
            try:
                names = os.listdir(folder.fd)
                if name not in names and len(names) >= most:
                    raise StoreError(
                        f"{self.path} has {len(names)} folders, and the limit is {most}; use "
                        "radrm submit, or ask the administrator to remove some"
                    )
                if name not in names:
                    os.mkdir(name, 0o700, dir_fd=folder.fd)
                    os.fsync(folder.fd)
                if folder.stat(name).st_uid == os.geteuid() != uid:  # also after a kill
                    os.chown(name, uid, gid, dir_fd=folder.fd, follow_symlinks=False)
            except OSError as error:
                raise StoreError(
                    f"cannot make the folder {self.path}/{name}: {error.strerror}; tell the "
                    "administrator"
                ) from error
        return self.path_of(uid)

    def path_of(self, uid: int) -> str:
        """The folder of this user. Raises `StoreError` if it is missing or belongs to another."""
        path = f"{self.path}/{uid}"
        try:
            found = os.lstat(path)
        except OSError as error:
            raise StoreError(f"cannot open your folder {path}: {error.strerror}") from error
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != uid:
            raise StoreError(
                f"{path} belongs to user {found.st_uid} and should be user {uid}'s folder; "
                "ask the administrator to move it away"
            )
        return path

    def all(self) -> list[Owned]:
        """All folders that belong to their users. Raises `StoreError` if `users` is another
        user's."""
        found = []
        with self._opened() as folder:
            names = sorted(name for name in os.listdir(folder.fd) if name.isdecimal())
            for name in names[:MOST_USERS]:
                with contextlib.suppress(OSError):  # its user has mounted something over it
                    seen = folder.stat(name)
                    if stat.S_ISDIR(seen.st_mode) and name == str(seen.st_uid):
                        found.append(Owned(f"{self.path}/{name}", seen.st_uid, seen.st_gid))
        return found

    @contextlib.contextmanager
    def _opened(self) -> Iterator[OpenFolder]:
        """The folder `users`, made if it is missing. Raises `StoreError` if another user can write
        to it."""
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.path, 0o711)
            folder = OpenFolder(self.path)
        except OSError as error:
            raise StoreError(f"{self.path}: {error.strerror}; {_AWAY}") from error
        with folder:
            found, me = os.fstat(folder.fd), os.geteuid()
            if found.st_uid != me:
                raise StoreError(f"{self.path} belongs to user {found.st_uid}; {_AWAY}")
            if found.st_mode & 0o022:
                raise StoreError(f"others may write to {self.path}; {_AWAY}")
            if stat.S_IMODE(found.st_mode) != 0o711:  # the umask has cut it
                os.fchmod(folder.fd, 0o711)
            yield folder
