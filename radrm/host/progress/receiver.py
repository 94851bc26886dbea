"""One datagram socket for each attempt, in a folder of its own.

    run/progress/          the daemon's
        SERIAL/            the attempt's: only the daemon writes there, so nobody else can put
                           a file or a link there; a container mounts it
            socket         mode 0600, owned by the job's user

Theory of operation. The file's owner and mode are the guard: the kernel lets only the job's user
(and root) send. So no datagram has to say who sent it. The daemon takes a few datagrams at a time.
The kernel keeps the next ones (`net.unix.max_dgram_qlen`) and refuses more: a sender that does not
block gets EAGAIN, and nobody else's socket is concerned.

A datagram that was not read is lost when the daemon ends. Its successor binds a new socket in the
same folder, so a job's path stays valid, also in a container that has mounted the folder.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket
import stat
from collections.abc import Collection

from radrm.host.progress.reports import MOST_BYTES
from radrm.host.sockets import receive

log = logging.getLogger("radrm")

SOCKET = "socket"
LONGEST_PATH = 107
"""Bytes of a path that every program can address, without the trick of `sockets.py`."""
_LONGEST_SERIAL = 16


class Receiver:
    """The sockets of live attempts, below the folder `path`. Used by one thread.

    `give_away`: each socket gets its job's user as owner.
    """

    def __init__(self, path: str, give_away: bool) -> None:
        self.path = path
        self._give_away = give_away
        self._mode = 0o711 if give_away else 0o700
        self._epoll = select.epoll()
        self._sockets: dict[int, socket.socket] = {}
        self._serials: dict[int, int] = {}

    def open(self, serial: int, uid: int) -> str:
        """Bind an attempt's socket and return its path; "" if that fails, with a line in the log.

        A job without it runs; only its reports are missing.
        """
        if serial in self._sockets:
            return self._path(serial)
        if len(os.fsencode(self._path(serial))) > LONGEST_PATH:
            log.warning(
                "attempt %d cannot report its progress: the path of its socket is longer than %d "
                "bytes; set RADRM_HOME to a shorter path",
                serial,
                LONGEST_PATH,
            )
            return ""
        try:
            self._bind(serial, uid)
        except OSError as error:
            log.warning("attempt %d cannot report its progress: %s", serial, error)
            return ""
        return self._path(serial)

    def _bind(self, serial: int, uid: int) -> None:
        path = self._path(serial)
        folder = os.path.dirname(path)
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.path, 0o700)  # it was removed while the daemon ran
            os.chmod(self.path, self._mode)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise OSError(f"{folder} is not a folder of this daemon")
        os.chmod(folder, self._mode)  # mkdir's own mode is cut by the umask
        opened = receive(path)
        try:
            if self._give_away:
                os.chown(path, uid, -1, follow_symlinks=False)
            self._epoll.register(opened.fileno(), select.EPOLLIN)
        except OSError:
            opened.close()
            raise
        self._sockets[serial] = opened
        self._serials[opened.fileno()] = serial

    @property
    def serials(self) -> Collection[int]:
        """The attempts that have a socket."""
        return self._sockets.keys()

    def ready(self) -> list[int]:
        """The attempts that have sent something."""
        found = self._epoll.poll(0, max(1, len(self._sockets)))
        return [self._serials[fd] for fd, _ in found]

    def read(self, serial: int, most: int) -> list[bytes]:
        """Take up to `most` datagrams of an attempt. One that is too long is cut after the first
        byte too many."""
        found: list[bytes] = []
        opened = self._sockets.get(serial)
        if opened is not None:
            with contextlib.suppress(OSError):  # no more are there
                while len(found) < most:
                    found.append(opened.recv(MOST_BYTES + 1))
        return found

    def close(self, serial: int) -> None:
        """Close the socket of an attempt that has ended, and remove its folder."""
        opened = self._sockets.pop(serial, None)
        if opened is not None:
            del self._serials[opened.fileno()]
            opened.close()
            self._remove(str(serial))

    def remove_left(self) -> None:
        """Remove the folders of attempts that have no socket here: they have ended."""
        live = set(map(str, self._sockets))
        with contextlib.suppress(OSError):
            for name in os.listdir(self.path):
                own = name.isascii() and name.isdigit() and len(name) < _LONGEST_SERIAL
                if own and name not in live:
                    self._remove(name)

    def _remove(self, name: str) -> None:
        """Remove an attempt's socket and folder; follow no link, and leave what is not radrm's."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        with contextlib.suppress(OSError):
            folder = os.open(os.path.join(self.path, name), flags)
            try:
                with contextlib.suppress(FileNotFoundError):
                    if stat.S_ISSOCK(os.lstat(SOCKET, dir_fd=folder).st_mode):
                        os.unlink(SOCKET, dir_fd=folder)
            finally:
                os.close(folder)
            os.rmdir(os.path.join(self.path, name))

    def release(self) -> None:
        """Let go of all sockets; their files stay for the next daemon."""
        for opened in self._sockets.values():
            opened.close()
        self._sockets, self._serials = {}, {}
        self._epoll.close()

    def _path(self, serial: int) -> str:
        return f"{self.path}/{serial}/{SOCKET}"
