"""AF_UNIX sockets at any path depth, and who is at the other end.

A socket's address holds 107 bytes; folders may lie deeper. So the parent folder is opened
and the socket addressed through it, as `/proc/self/fd/N/name`. Imported by the light
submit path: nothing heavier than `socket` belongs here.
"""

from __future__ import annotations

import os
import socket
import stat
import struct

from radrm.errors import Unreachable
from radrm.jobfile.record import Record

_BACKLOG = 4096
_TIMEVAL = struct.Struct("ll")
_UCRED = struct.Struct("iII")


class Peer(Record):
    """The process that connected (or listened), as the kernel tells it."""

    pid: int
    uid: int
    gid: int


def listen(
    path: str | os.PathLike[str], mode: int = 0o600, backlog: int = _BACKLOG
) -> socket.socket:
    """A listening stream socket at `path` with this file mode; `backlog` connections may wait
    to be accepted.

    A socket file that lies there is replaced: the caller holds a lock which proves that
    nobody listens on it. Raises OSError; anything but a socket is left alone.
    """
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.fchmod(server.fileno(), mode)  # so the file never has more rights than this
        parent, address = _through_parent(path)
        try:
            try:
                if stat.S_ISSOCK(os.lstat(address).st_mode):
                    os.unlink(address)
            except FileNotFoundError:
                pass
            server.bind(address)
            os.chmod(address, mode)  # the umask took some away
        finally:
            os.close(parent)
        server.listen(backlog)
    except BaseException:
        server.close()
        raise
    return server


def connect(path: str | os.PathLike[str], timeout_s: float) -> socket.socket:
    """A stream socket connected to `path`; its reads and writes have the same time limit.

    Raises Unreachable when nobody listens there, or nobody accepts in time.
    """
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # A connect waits for a full backlog only while the socket blocks, up to this limit.
        limit = divmod(max(1, int(timeout_s * 1e6)), 1_000_000)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEVAL.pack(*limit))
        parent, address = _through_parent(path)
        try:
            client.connect(address)
        finally:
            os.close(parent)
        client.settimeout(timeout_s)
    except OSError as error:
        client.close()
        cause = "nobody accepts" if isinstance(error, BlockingIOError) else error.strerror
        raise Unreachable(f"nobody answers at {os.fspath(path)}: {cause}") from error
    return client


def peer(sock: socket.socket) -> Peer:
    """Who is at the other end of a connected socket."""
    found = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    return Peer(*_UCRED.unpack(found))


def _through_parent(path: str | os.PathLike[str]) -> tuple[int, str]:
    """A descriptor of the parent folder, to be closed, and the address through it."""
    parent, name = os.path.split(os.path.abspath(path))
    folder = os.open(parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    return folder, f"/proc/self/fd/{folder}/{name}"
