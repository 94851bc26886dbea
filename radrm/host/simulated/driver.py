"""The simulated driver: a process that outlives the daemon, as a real driver does.

Theory of operation:

- **One driver per lock file.** The kernel releases the lock with the process, so it is never
  stale. The lock file also holds the clock's anchors: the next driver continues that clock.
- **One thread.** Each turn first reads everything that has arrived, then answers one line of each
  client. So a dead process's memory is free before any reading of that turn, and a busy client
  delays no other.
- **Clients are untrusted.** The length of a line, the number of clients and each user's part of
  them are limited. A wrong line gets an error and ends the connection. The driver does not read
  from a client that does not read its answers.
- **End.** The driver ends after `LINGER_S` without a client, so a restarted daemon finds it.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import resource
import selectors
import signal
import socket
import sys
import time
from pathlib import Path

import msgspec

from radrm.errors import RadrmError
from radrm.host.clock import Clock, boot_id
from radrm.host.simulated.requests import Answer, BadRequest, Service
from radrm.host.sockets import Peer, listen, peer
from radrm.simulated.model import Model, Reader
from radrm.simulated.spec import parse

LINGER_S = 60.0
EXIT_LOCKED = 3
_LONGEST_LINE = 65536
_MOST_CLIENTS = 4096
_KEPT_FOR_OWNER = 32
_KEPT_FILES = 32


class _Client:
    """One connection, with the bytes that wait to be answered and those that wait to be sent."""

    def __init__(self, sock: socket.socket, who: Peer) -> None:
        self.sock = sock
        self.peer = who
        self.reader = Reader()
        self.inbox = bytearray()
        self.outbox = bytearray()
        self.ended = False
        """The driver reads nothing more from it, and still sends the answers in `outbox`."""

    def next_line(self) -> bytes | None:
        end = self.inbox.find(b"\n")
        if end < 0:
            return None
        line = bytes(self.inbox[:end])
        del self.inbox[: end + 1]
        return line


class Driver:
    """The loop: reads lines, passes them to the service, sends the answers."""

    def __init__(self, server: socket.socket, service: Service, linger_s: float) -> None:
        server.setblocking(False)
        self._server = server
        self._service = service
        self._linger_s = linger_s
        self._clients: dict[int, _Client] = {}
        self._unanswered: set[int] = set()
        self._next_key = 0
        self._most = min(_MOST_CLIENTS, _raise_file_limit() - _KEPT_FILES)
        self._selector = selectors.DefaultSelector()
        self._selector.register(server, selectors.EVENT_READ, None)

    def serve(self) -> None:
        """Serve until a quit request, or until `linger_s` real seconds without a client."""
        idle_since = time.monotonic()
        while not self._service.quitting:
            if self._clients:
                idle_since = time.monotonic()
            left_s = idle_since + self._linger_s - time.monotonic()
            if left_s <= 0:
                return
            # Read everything that has arrived before answering anything. So a reading never
            # contains the memory of a process that died before the reading's request.
            ready, self._unanswered = self._unanswered, set()
            for selected, _ in self._selector.select(0 if ready else left_s):
                if selected.data is None:
                    self._accept()
                else:
                    self._receive(selected.data)
                    ready.add(selected.data)
            for key in ready:
                self._answer_one(key)
                self._send(key)

    def close(self) -> None:
        for client in self._clients.values():
            client.sock.close()
        self._selector.close()
        self._server.close()

    # ------------------------------------------------------------------ one client

    def _accept(self) -> None:
        try:
            sock, _ = self._server.accept()
        except OSError:
            return  # the client closed its end first
        who = peer(sock)
        sock.setblocking(False)
        if not self._has_place(who):
            try:
                sock.send(_line({"error": "too many clients"}))
            except OSError:
                pass  # the client closed its end
            sock.close()
            return
        self._clients[self._next_key] = _Client(sock, who)
        self._selector.register(sock, selectors.EVENT_READ, self._next_key)
        self._next_key += 1

    def _has_place(self, who: Peer) -> bool:
        """True if this user may have another connection.

        Some places are for the driver's own user, so that other users cannot lock out its daemon.
        """
        if who.uid in (0, os.geteuid()):
            return len(self._clients) < self._most
        same_user = sum(client.peer.uid == who.uid for client in self._clients.values())
        return len(self._clients) < self._most - _KEPT_FOR_OWNER and same_user < self._most // 4

    def _receive(self, key: int) -> None:
        client = self._clients[key]
        while not client.ended and len(client.inbox) <= _LONGEST_LINE:
            try:
                data = client.sock.recv(_LONGEST_LINE)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if data:
                client.inbox += data
            else:
                client.ended = True
                self._service.forget(key)

    def _answer_one(self, key: int) -> None:
        """Answer one line of a client; its next line waits for the next turn."""
        client = self._clients[key]
        if client.outbox:
            return  # it has not read the previous answer
        line = client.next_line()
        if line is None and len(client.inbox) > _LONGEST_LINE:
            self._disconnect(key, client, f"a line is longer than {_LONGEST_LINE} bytes")
        if line is None:
            return
        try:
            answer = self._service.answer(key, client.peer, client.reader, line)
        except BadRequest as error:
            self._disconnect(key, client, str(error))
        except Exception as error:  # an error that one client causes must not end the others
            print(f"request {line[:200]!r} of {client.peer}: {error!r}", file=sys.stderr)
            self._disconnect(key, client, f"the driver failed: {error!r}")
        else:
            client.outbox += _line(answer)

    def _disconnect(self, key: int, client: _Client, why: str) -> None:
        """Answer with an error, and end the connection after the client has read it."""
        client.outbox += _line({"error": why})
        client.inbox.clear()
        client.ended = True
        self._service.forget(key)

    def _send(self, key: int) -> None:
        client = self._clients[key]
        try:
            if client.outbox:
                del client.outbox[: client.sock.send(client.outbox)]
        except BlockingIOError:
            pass
        except OSError:
            client.ended = True
            client.inbox.clear()
            client.outbox.clear()
        more = b"\n" in client.inbox
        if client.ended and not client.outbox and not more:
            self._service.forget(key)
            self._selector.unregister(client.sock)
            client.sock.close()
            del self._clients[key]
            return
        if more and not client.outbox:
            self._unanswered.add(key)
        wanted = selectors.EVENT_WRITE if client.outbox or client.ended else selectors.EVENT_READ
        if self._selector.get_key(client.sock).events != wanted:
            self._selector.modify(client.sock, wanted, key)


def _line(answer: Answer) -> bytes:
    return msgspec.json.encode(answer) + b"\n"


def _raise_file_limit() -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, min(hard, _MOST_CLIENTS + _KEPT_FILES))
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


# ---------------------------------------------------------------------- the process


def _take_lock(path: Path) -> int | None:
    """The open lock file, or None if another driver runs."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _resume_clock(lock: int, scale: float) -> Clock:
    """The clock of the previous driver, so that time never jumps back.

    A new clock starts with another scale or another boot.
    """
    try:
        left = json.loads(os.pread(lock, 4096, 0))
        if (left["boot_id"], left["scale"]) == (boot_id(), scale):
            return Clock(scale, float(left["anchor_boot_s"]), float(left["anchor_wall_s"]))
    except (ValueError, KeyError, TypeError):
        pass  # no earlier driver, or its anchors are damaged
    clock = Clock(scale)
    kept = {
        "boot_id": boot_id(),
        "scale": scale,
        "anchor_boot_s": clock.anchor_boot_s,
        "anchor_wall_s": clock.anchor_wall_s,
    }
    os.ftruncate(lock, 0)
    os.pwrite(lock, json.dumps(kept).encode(), 0)
    return clock


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m radrm.host.simulated.driver")
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--lock", type=Path, required=True, help="one driver per lock file")
    parser.add_argument("--spec", required=True, help="for example sim:4xA100-40GB")
    parser.add_argument("--scale", type=float, default=1.0, help="times real time")
    parser.add_argument("--linger", type=float, default=LINGER_S, help="real seconds alone")
    parser.add_argument("--detach", action="store_true", help="return once it answers")
    args = parser.parse_args(argv)
    path = args.socket.absolute()
    try:
        devices = parse(args.spec)
        lock = _take_lock(args.lock)
        if lock is None:
            print(f"another driver holds {args.lock}", file=sys.stderr)
            return EXIT_LOCKED
        clock = _resume_clock(lock, args.scale)
        # All users may use root's simulated GPUs, as they may use real ones.
        server = listen(path, 0o666 if os.geteuid() == 0 else 0o600)
    except (RadrmError, OSError, ValueError) as error:
        print(f"the simulated GPUs cannot start: {error}", file=sys.stderr)
        return 2
    # The parent exits only now, when clients can connect: its exit code reports the start.
    if args.detach and os.fork():
        os._exit(0)
    os.chdir("/")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    service = Service(Model(devices, clock.now().boot_s), clock, args.spec)
    driver = Driver(server, service, args.linger)
    try:
        driver.serve()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        # Release the lock last. Before that, no other driver can make a socket file that this
        # `unlink` would remove.
        path.unlink(missing_ok=True)
        driver.close()
        os.close(lock)
    return 0


if __name__ == "__main__":
    sys.exit(main())
