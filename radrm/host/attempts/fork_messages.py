"""The messages between a daemon and its forker: one JSON object and descriptors each.

The daemon asks for a runner with its `folder`, its `token` and whether it is `gated`, and
gives the runner's standard output and its gate. The answer has its `pid` and `start_ticks`, and a
pidfd; or `errno`, if it cannot be forked. `READY` is the forker's first message, `STALE` its last.

The forker imports this file, so it imports only what Python brings.
"""

from __future__ import annotations

import array
import json
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

READY, STALE = {"ready": True}, {"stale": True}
MOST_FDS = 2
_LONGEST = 1 << 16
_SPACE = socket.CMSG_SPACE(MOST_FDS * array.array("i").itemsize)


def send(to: socket.socket, words: dict[str, Any], fds: list[int]) -> None:
    """Send one message. Raises `OSError`; EMSGSIZE for one that is too long."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    to.sendmsg([json.dumps(words).encode()], rights)


def receive(by: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """Receive one message with its descriptors; None: the other end is closed. Raises `OSError`."""
    data, rights, flags, _ = by.recvmsg(_LONGEST, _SPACE, socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for level, kind, raw in rights:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(raw[: len(raw) - len(raw) % fds.itemsize])
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        # A process that may open no more files gets no descriptor.
        return {"errno": 24}, list(fds)
    return (json.loads(data) if data else None), list(fds)
