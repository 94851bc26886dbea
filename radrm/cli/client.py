"""The connection to a daemon: the user's own, else the system's. Light to import."""

from __future__ import annotations

import json
import os

from radrm.errors import RadrmError, Refused, Unreachable, UsageError
from radrm.host.paths import Paths, client_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any

_ERRORS: dict[int, type[RadrmError]] = {1: Refused, 2: UsageError, 3: Unreachable}
_LIMIT_S = 90.0


class Client:
    """Finds the daemon when first asked. Used as a context manager, or closed by `close`."""

    def __init__(self, candidates: tuple[Paths, ...] | None = None) -> None:
        self.candidates = candidates or client_paths(os.environ, os.getuid())
        self.paths: Paths | None = None
        self._socket: socket.socket | None = None
        self._lines: Any = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self) -> Paths:
        """The places of the daemon that answers. Raises `Unreachable` when none does."""
        if self._socket is None:
            for paths in self.candidates:
                if not os.path.exists(paths.socket):
                    continue
                # Imported here: to submit needs no daemon, and without one no socket.
                from radrm.host.sockets import connect

                try:
                    self._socket = connect(paths.socket, _LIMIT_S)
                except (Unreachable, OSError):
                    continue
                self._lines = self._socket.makefile("rb")
                self.paths = paths
                break
            else:
                places = " or ".join(p.run for p in self.candidates)
                raise Unreachable(f"no radrm daemon answers in {places}; start one: radrm daemon")
        assert self.paths is not None
        return self.paths

    def ask(self, op: str, **words: Any) -> Any:
        """One request, one answer. What the daemon refuses is raised as it says it."""
        self.connect()
        assert self._socket is not None
        answer = None
        try:
            self._socket.sendall(json.dumps({"op": op, **words}).encode("ascii") + b"\n")
            line = self._lines.readline()
            answer = json.loads(line) if line else None
        except (OSError, ValueError):
            pass
        finally:
            # Interrupted as well: the next question would get this one's answer.
            if answer is None:
                self.close()
        if answer is None:
            raise Unreachable("the radrm daemon went away while it was asked; try again")
        if not answer["ok"]:
            raise _ERRORS.get(answer["code"], Refused)(answer["error"])
        return answer["result"]

    def close(self) -> None:
        if self._socket is not None:
            self._lines.close()
            self._socket.close()
            self._socket = self._lines = None
