"""The simulated driver: a process that outlives the daemon, as a real driver does.

Theory of operation:

- **One driver per lock file.** The kernel releases the lock with the process, so it is never
  stale. The lock file also holds the clock's anchors: the next driver continues that clock.
- **One thread.** All that has arrived is read before a line is answered (`call_soon`). So a dead
  process's memory is free before any reading that was asked for after its end. Each client has one
  line answered at a time, so a busy one delays no other.
- **Clients are untrusted.** The length of a line, the number of clients and each user's part of
  them are limited. A wrong line gets an error and ends the connection. A client that does not read
  its answers gets no more.
- **End.** The driver ends after `LINGER_S` without a client, so a restarted daemon finds it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import msgspec

from radrm.errors import RadrmError
from radrm.host.clock import Clock, boot_id
from radrm.host.simulated.client import EXIT_LOCKED
from radrm.host.simulated.requests import Answer, BadRequest, Service
from radrm.host.sockets import Peer, listen, peer
from radrm.host.storage.files import take_lock
from radrm.simulated.model import Model, Reader
from radrm.simulated.spec import parse

LINGER_S = 60.0
_LONGEST_LINE = 65536
_MOST_CLIENTS = 4096
_KEPT_FOR_OWNER = 32
_KEPT_FILES = 32


class _Client(asyncio.Protocol):
    """One connection, and what it has sent that waits to be answered."""

    transport: asyncio.Transport

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._reader = Reader()
        self._inbox = bytearray()
        self._reads_answers = True
        self._ended = False
        """It sends nothing more, or is not listened to."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=0)  # tells at once if answers are not read
        self.peer = peer(transport.get_extra_info("socket"))
        if not self._driver.has_place(self.peer):
            self._end("too many clients")
        self._driver.clients[id(self)] = self
        self._driver.changed.set()

    def connection_lost(self, error: Exception | None) -> None:
        self._ended = True
        self._driver.service.forget(id(self))
        self._driver.clients.pop(id(self), None)
        self._driver.changed.set()

    def data_received(self, data: bytes) -> None:
        if not self._ended:
            self._inbox += data
            self._go_on()

    def eof_received(self) -> bool:
        self._ended = True
        self._driver.service.forget(id(self))
        self._go_on()
        return True  # its answers are still sent

    def pause_writing(self) -> None:
        self._reads_answers = False
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        self._reads_answers = True
        if not self.transport.is_closing():
            self.transport.resume_reading()
            self._go_on()

    def _go_on(self) -> None:
        """Answer the next line when all that has arrived is read."""
        asyncio.get_running_loop().call_soon(self._answer)

    def _answer(self) -> None:
        if not self._reads_answers or self.transport.is_closing():
            return
        line, end, rest = self._inbox.partition(b"\n")
        if not end:
            if self._ended:
                self.transport.close()
            elif len(line) > _LONGEST_LINE:
                self._end(f"a line is longer than {_LONGEST_LINE} bytes")
            return
        self._inbox = rest
        try:
            answer = self._driver.service.answer(id(self), self.peer, self._reader, bytes(line))
        except BadRequest as error:
            self._end(str(error))
        except Exception as error:  # an error that one client causes must not end the others
            print(f"request {line[:200]!r} of {self.peer}: {error!r}", file=sys.stderr)
            self._end(f"the driver failed: {error!r}")
        else:
            self.transport.write(_line(answer))
            self._driver.changed.set()
            self._go_on()

    def _end(self, why: str) -> None:
        """Answer with an error, and end the connection."""
        self._ended = True
        self._inbox.clear()
        self._driver.service.forget(id(self))
        self.transport.write(_line({"error": why}))
        self.transport.close()


class Driver:
    """Serves clients until a quit request, or until `linger_s` real seconds without a client."""

    def __init__(self, service: Service, linger_s: float) -> None:
        self.service = service
        self.clients: dict[int, _Client] = {}
        self.changed = asyncio.Event()
        self._linger_s = linger_s
        self._stopped = False
        self._most = min(_MOST_CLIENTS, _raise_file_limit() - _KEPT_FILES)

    async def serve(self, server: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        # From 3.13 on, asyncio looks for the socket's file to remove it; `main` removes it.
        kept: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
        # It ends with the process, and waits for no client.
        await loop.create_unix_server(
            lambda: _Client(self), sock=server, backlog=_MOST_CLIENTS, **kept
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        while not self.service.quitting and not self._stopped:
            try:
                await asyncio.wait_for(
                    self.changed.wait(), None if self.clients else self._linger_s
                )
            except asyncio.TimeoutError:
                return
            self.changed.clear()

    def _stop(self) -> None:
        self._stopped = True
        self.changed.set()

    def has_place(self, who: Peer) -> bool:
        """True if this user may have another connection.

        Some places are for the driver's own user, so that other users cannot lock out its daemon.
        """
        if who.uid in (0, os.geteuid()):
            return len(self.clients) < self._most
        same_user = sum(client.peer.uid == who.uid for client in self.clients.values())
        return len(self.clients) < self._most - _KEPT_FOR_OWNER and same_user < self._most // 4


def _line(answer: Answer) -> bytes:
    return msgspec.json.encode(answer) + b"\n"


def _raise_file_limit() -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, min(hard, _MOST_CLIENTS + _KEPT_FILES))
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


# ---------------------------------------------------------------------- the process


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
        lock = take_lock(args.lock)
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

    async def serve() -> None:
        await Driver(service, args.linger).serve(server)

    try:
        asyncio.run(serve())
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        # Release the lock last. Before that, no other driver can make a socket file that this
        # `unlink` would remove.
        path.unlink(missing_ok=True)
        server.close()
        os.close(lock)
    return 0


if __name__ == "__main__":
    sys.exit(main())
