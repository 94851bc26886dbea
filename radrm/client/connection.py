"""The connection to a daemon: the user's own, else the system's. Light to import."""

from __future__ import annotations

import json
import os

from radrm.errors import RadrmError, Refused, Unreachable, UsageError
from radrm.host.storage.paths import Paths, client_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Any

    Ask = Callable[..., Any]

_ERRORS: dict[int, type[RadrmError]] = {1: Refused, 2: UsageError, 3: Unreachable}
_LIMIT_S = 90.0
_LIVE = frozenset({"LAUNCHING", "RUNNING", "STOPPING"})


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
        answer = None
        try:
            line = self._exchange(json.dumps({"op": op, **words}).encode("ascii") + b"\n")
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

    def _exchange(self, request: bytes) -> bytes:
        assert self._socket is not None
        try:
            self._socket.sendall(request)
        except BrokenPipeError:
            pass  # a daemon that lets nobody more in has said so before it closed
        line: bytes = self._lines.readline()
        return line

    def close(self) -> None:
        if self._socket is not None:
            self._lines.close()
            self._socket.close()
            self._socket = self._lines = None


def every_job(ask: Ask, **words: Any) -> list[dict[str, Any]]:
    """All documents that the question `status` means with these words, asked for in pages; in
    order of service, or by id where those that have ended are among them or the jobs are named.
    """
    found: dict[int, dict[str, Any]] = {}
    after: int | None = 0
    pages = 0
    while after is not None:
        answer = ask("status", **words, after=after)
        if isinstance(answer, list):
            return answer  # a daemon that knows no pages gives all at once
        found |= {job["id"]: job for job in answer["jobs"]}
        after, pages = answer["next"], pages + 1
    documents = list(found.values())
    if pages > 1 and not words.get("jobs") and not words.get("all"):
        documents.sort(key=_in_order)
    return documents


def _in_order(job: dict[str, Any]) -> tuple[int, int, int]:
    """As the daemon has them: with an attempt, in line for GPUs, in the other line, the rest."""
    position = job["position"]
    if position is not None:
        return (1 if job["gpus"] else 2), position, job["id"]
    return (0 if job["state"] in _LIVE else 3), 0, job["id"]
