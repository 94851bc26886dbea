"""AF_UNIX sockets at any path depth, and the process at the other end.

A socket's address holds 107 bytes, and a path may be longer. So these functions open the
parent folder and address the socket through it, as `/proc/self/fd/N/name`. Every command
imports this file and has to start fast: `socket` alone takes a tenth of one, so only who needs its
class imports it.
"""

from __future__ import annotations

import _socket
import os
import stat
import struct

from radrm.errors import Unreachable
from radrm.jobfile.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

_BACKLOG = 4096
_TIMEVAL = struct.Struct("ll")
_UCRED = struct.Struct("iII")


class Peer(Record):
    """The process that connected (or listened), as the kernel identifies it."""

    pid: int
    uid: int
    gid: int


def listen(
    path: str | os.PathLike[str], mode: int = 0o600, backlog: int = _BACKLOG
) -> socket.socket:
    """A listening stream socket at `path` with this file mode.

    At most `backlog` connections wait to be accepted. An existing socket file is replaced, so
    the caller must hold a lock that no other listener can hold. Any other file stays, and the
    call raises OSError.
    """
    server = _bound(path, _socket.SOCK_STREAM, mode)
    try:
        server.listen(backlog)
    except BaseException:
        server.close()
        raise
    return server


def receive(path: str | os.PathLike[str], mode: int = 0o600) -> socket.socket:
    """A non-blocking datagram socket at `path` with this file mode, to receive.

    An existing socket file is replaced, as by `listen`. Raises OSError.
    """
    server = _bound(path, _socket.SOCK_DGRAM, mode)
    server.setblocking(False)
    return server


def _bound(path: str | os.PathLike[str], kind: int, mode: int) -> socket.socket:
    import socket

    server = socket.socket(socket.AF_UNIX, kind)
    try:
        # Before `bind`, so that the file never grants more rights than `mode`, not even briefly.
        os.fchmod(server.fileno(), mode)
        parent, address = _through_parent(path)
        try:
            try:
                if stat.S_ISSOCK(os.lstat(address).st_mode):
                    os.unlink(address)
            except FileNotFoundError:
                pass
            try:
                server.bind(address)
            except OSError as error:  # it does not say where
                raise OSError(error.errno, error.strerror, os.fspath(path)) from None
            os.chmod(address, mode)  # `bind` applied the umask
        finally:
            os.close(parent)
    except BaseException:
        server.close()
        raise
    return server


def connect(path: str | os.PathLike[str], timeout_s: float) -> socket.socket:
    """A stream socket connected to `path`. `timeout_s` limits the connection, each read and write.

    Raises Unreachable if no process listens there, or none accepts in time.
    """
    import socket

    client = socket.socket(fileno=connect_bare(path, timeout_s).detach())
    client.settimeout(timeout_s)
    return client


def connect_bare(path: str | os.PathLike[str], timeout_s: float) -> _socket.socket:
    """As `connect`, without the methods of `socket.socket`."""
    client = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        # A non-blocking connect fails at once on a full backlog. A blocking one waits, and only
        # SO_SNDTIMEO limits that wait; `settimeout` would make the socket non-blocking.
        limit = divmod(max(1, int(timeout_s * 1e6)), 1_000_000)
        client.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDTIMEO, _TIMEVAL.pack(*limit))
        parent, address = _through_parent(path)
        try:
            client.connect(address)
        finally:
            os.close(parent)
        client.settimeout(timeout_s)
    except OSError as error:
        client.close()
        late = f"no connection within {timeout_s:g} s"
        cause = late if isinstance(error, BlockingIOError) else error.strerror
        raise Unreachable(f"no process answers at {os.fspath(path)}: {cause}") from error
    return client


def peer(sock: _socket.socket) -> Peer:
    """The process at the other end of a connected socket, as it was when it connected."""
    found = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _UCRED.size)
    return Peer(*_UCRED.unpack(found))


def _through_parent(path: str | os.PathLike[str]) -> tuple[int, str]:
    """A descriptor of the parent folder (the caller closes it), and the address through it."""
    parent, name = os.path.split(os.path.abspath(path))
    folder = os.open(parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    return folder, f"/proc/self/fd/{folder}/{name}"
