"""The modelled driver: a process that outlives the daemon, as a driver does.

One per lock file. It ends by itself once nobody has been connected for a while. Every
client is a stranger: lines are bounded, clients are bounded, a client that sends garbage
is answered and let go, and one that does not read its answers is not read either.
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
from radrm.modelled.model import Model, Reader
from radrm.modelled.spec import parse

LINGER_S = 60.0
EXIT_LOCKED = 3
_LONGEST_LINE = 65536
_MOST_CLIENTS = 4096
_KEPT_FOR_OWNER = 32
_KEPT_FILES = 32


class _Client:
    """One connection: bytes read but not answered, bytes answered but not sent."""

    def __init__(self, sock: socket.socket, who: Peer) -> None:
        self.sock = sock
        self.peer = who
        self.reader = Reader()
        self.inbox = bytearray()
        self.outbox = bytearray()
        self.ended = False
        """Nothing more will be read; what is answered is still sent."""

    def next_line(self) -> bytes | None:
        end = self.inbox.find(b"\n")
        if end < 0:
            return None
        line = bytes(self.inbox[:end])
        del self.inbox[: end + 1]
        return line


class Driver:
    """The loop: reads lines, has the service answer them, sends the answers."""

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
        """Until asked to quit, or nobody has been connected for `linger_s` real seconds."""
        lonely_since = time.monotonic()
        while not self._service.quitting:
            if self._clients:
                lonely_since = time.monotonic()
            left_s = lonely_since + self._linger_s - time.monotonic()
            if left_s <= 0:
                return
            # Everything that has arrived is read before anything is answered: memory of a
            # process that died before a reading was asked for is never in that reading.
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
            return
        who = peer(sock)
        sock.setblocking(False)
        if not self._has_place(who):
            try:
                sock.send(_line({"error": "too many clients"}))
            except OSError:
                pass
            sock.close()
            return
        self._clients[self._next_key] = _Client(sock, who)
        self._selector.register(sock, selectors.EVENT_READ, self._next_key)
        self._next_key += 1

    def _has_place(self, who: Peer) -> bool:
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
        """Answer one line: nobody gets more of the driver's time than others."""
        client = self._clients[key]
        if client.outbox:
            return
        line = client.next_line()
        if line is None and len(client.inbox) > _LONGEST_LINE:
            self._let_go(key, client, f"a line is longer than {_LONGEST_LINE} bytes")
        if line is None:
            return
        try:
            answer = self._service.answer(key, client.peer, client.reader, line)
        except BadRequest as error:
            self._let_go(key, client, str(error))
        except Exception as error:  # whatever one client provokes, the others go on
            print(f"request {line[:200]!r} of {client.peer}: {error!r}", file=sys.stderr)
            self._let_go(key, client, f"the driver failed: {error!r}")
        else:
            client.outbox += _line(answer)

    def _let_go(self, key: int, client: _Client, why: str) -> None:
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
    """The open lock file, or None when another driver lives."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _resume_clock(lock: int, scale: float) -> Clock:
    """The clock of the driver that held the lock before, so that time never jumps back.

    Another scale or another boot begins anew.
    """
    try:
        left = json.loads(os.pread(lock, 4096, 0))
        if (left["boot_id"], left["scale"]) == (boot_id(), scale):
            return Clock(scale, float(left["anchor_boot_s"]), float(left["anchor_wall_s"]))
    except (ValueError, KeyError, TypeError):
        pass  # no driver has been here, or it left nothing that can be read
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
        # A root daemon's GPUs are for everybody, as real ones are; a user's are the user's.
        server = listen(path, 0o666 if os.geteuid() == 0 else 0o600)
    except (RadrmError, OSError, ValueError) as error:
        print(f"the software GPUs cannot start: {error}", file=sys.stderr)
        return 2
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
        path.unlink(missing_ok=True)
        driver.close()
        os.close(lock)
    return 0


if __name__ == "__main__":
    sys.exit(main())
