"""The connection to a daemon: the user's own, else the system's. Light to import.

Theory of operation. One connection carries one request at a time. An answer that did not arrive
completely closes the connection, so that the next request never gets an old answer. The next
request connects again, perhaps to a restarted daemon. A client must therefore expect that a
command without an answer was carried out. A daemon also closes idle connections, or restarts: that
is seen before the next request, which then gets a new connection and no error.
"""

from __future__ import annotations

import os

from radrm.client.text import LIVE
from radrm.errors import RadrmError, Refused, Unreachable, UsageError
from radrm.host.storage.paths import Paths, client_paths, prepare, servers_own
from radrm.light_json import decode, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable
    from typing import Any

    Ask = Callable[..., Any]
    from collections.abc import Iterator, Sequence
    from typing import Any

    from radrm.client.text import Document
    from radrm.jobfile.options import RawOptions

_ERRORS: dict[int, type[RadrmError]] = {1: Refused, 2: UsageError, 3: Unreachable}
LIMIT_S = 90.0
_PIECE = 256 * 1024


class Client:
    """Finds the daemon at the first request. Use it as a context manager, or call `close`.

    `limit_s`: how long a request waits for its answer.
    """

    home: str | None = None
    """The daemon's home, if it is not the one that the environment names."""

    def __init__(
        self, candidates: tuple[Paths, ...] | None = None, limit_s: float = LIMIT_S
    ) -> None:
        self._limit_s = limit_s
        self.candidates = candidates or client_paths(os.environ, os.getuid())
        self.paths: Paths | None = None
        self._socket: _socket.socket | None = None
        self._has_answered = False

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self, patient: bool = True) -> Paths:
        """Connect to the first daemon that answers. Returns its paths. Raises `Unreachable`.

        It waits for a daemon that is starting. `patient`: look for one more than once.
        """
        if not self.is_up():
            # Imported here, because few commands find no daemon.
            from radrm.client.starting import LOOKS, not_reached, wait_for_start

            looks = LOOKS if patient else 1
            if not wait_for_start(self.candidates, self.is_up, looks):
                raise not_reached(self.candidates, bool(os.environ.get("RADRM_HOME")))
        assert self.paths is not None
        return self.paths

    def is_up(self) -> bool:
        """True if there is a connection, or one can be made now."""
        if self._has_answered and self._has_ended():
            self.close()
        if self._socket is not None:
            return True
        for paths in self.candidates:
            if not os.path.exists(paths.socket):
                continue
            # Imported here, because `submit` without a daemon needs no socket.
            from radrm.host.sockets import connect_bare

            try:
                self._socket = connect_bare(paths.socket, self._limit_s)
            except (Unreachable, OSError):
                continue
            self.paths = paths
            return True
        return False

    def ask(self, op: str, **words: Any) -> Any:
        """Send one request and return its result. A refusal is raised with the daemon's text."""
        self.connect()
        answer, wrong = None, "closed the connection without an answer; try again"
        try:
            line = self._exchange(encode({"op": op, **words}).encode("ascii") + b"\n")
            answer = decode(line) if line else None
        except TimeoutError:
            wrong = f"has given no answer within {self._limit_s:g} s; see: radrm doctor"
        except (OSError, ValueError):
            pass
        finally:
            # Also after Ctrl-C: the next request would read the answer to this one.
            if answer is None:
                self.close()
        self._has_answered = answer is not None
        if answer is None:
            raise Unreachable(f"the radrm daemon {wrong}")
        if not answer["ok"]:
            raise _ERRORS.get(answer["code"], Refused)(answer["error"])
        return answer["result"]

    def wait_at_most(self, limit_s: float) -> None:
        """Change how long a request waits for its answer."""
        self._limit_s = limit_s
        if self._socket is not None:
            self._socket.settimeout(limit_s)

    def _has_ended(self) -> bool:
        """Whether the other end has closed a connection on which no answer is expected."""
        import select  # for few clients ask twice

        assert self._socket is not None
        found = select.poll()
        found.register(self._socket, select.POLLIN)
        return bool(found.poll(0))

    def _exchange(self, request: bytes) -> bytes:
        assert self._socket is not None
        try:
            self._socket.sendall(request)
        except BrokenPipeError:
            pass  # a daemon without a free connection sends its reason before it closes
        pieces: list[bytes] = []
        while not pieces or (pieces[-1] and b"\n" not in pieces[-1]):
            pieces.append(self._socket.recv(_PIECE))
        return b"".join(pieces)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            self._has_answered = False


def find_spool(client: Client) -> tuple[Paths, bool]:
    """The paths of the daemon to submit to, and whether it answers.

    If none answers, jobs wait for the server's, if it has one. Raises `Unreachable` if that has
    never run.
    """
    try:
        return client.connect(patient=False), True
    except Unreachable:
        pass
    own, server = client.candidates[0], servers_own()
    if server is not None and server in client.candidates[1:]:
        if not os.path.isdir(server.spool):
            return client.connect(patient=False), True
        return server, False
    prepare(own, own in client_paths({}, 0))
    return own, False


def every_job(ask: Ask, **words: Any) -> list[dict[str, Any]]:
    """All documents of the question `status` with these words, fetched in pages. They are in
    queue order; by id if ended jobs are among them or the jobs are named.
    """
    found: dict[int, dict[str, Any]] = {}
    after: int | None = 0
    pages = 0
    while after is not None:
        answer = ask("status", **words, after=after)
        found |= {job["id"]: job for job in answer["jobs"]}
        after, pages = answer["next"], pages + 1
    documents = list(found.values())
    if pages > 1 and not words.get("jobs") and not words.get("all"):
        documents.sort(key=_in_order)
    return documents


def _in_order(job: dict[str, Any]) -> tuple[int, int, int]:
    """The daemon's order: live jobs, the line for GPUs, the line without GPUs, the others."""
    position = job["position"]
    if position is not None:
        return (1 if job["gpus"] else 2), position, job["id"]
    return (0 if job["state"] in LIVE else 3), 0, job["id"]


# ------------------------------------------------------------------
# Commands about many jobs or devices (cancel, hold, drain...), sent to a daemon.


_BATCH = 1000
"""References in one request, so that no request is longer than the daemon reads."""
_GLOBS = 100
"""Globs in one request; the daemon takes no more."""


def command_jobs(command: str, jobs: Sequence[str], **words: Any) -> list[Document]:
    """Give a command for each job, or without `jobs` for those that `words` select. Returns the
    results; with `options` and `folders`, with warnings of folders that are not there."""
    with Client() as client:
        results = [
            result
            for batch in (batches(jobs) if jobs else ([],))
            for result in client.ask(command, jobs=batch, **words)
        ]
    return warned(results, words["options"]) if "options" in words else results


def changes_of(raw: RawOptions, where: str, ask: Ask) -> RawOptions:
    """Return options that change jobs, with absolute moments: by the daemon's clock, which may run
    faster with simulated GPUs. Raises `UsageError` for what no edit can change."""
    from radrm.jobfile.command_line import check_edit
    from radrm.jobfile.options import MOMENTS

    check_edit(raw, where)
    if not MOMENTS & raw.keys():
        return raw
    from radrm.host.storage.submission import here
    from radrm.jobfile.parsing import dated

    return dated(raw, here(ask("ping")["now"]), where)


def warned(results: list[Document], options: RawOptions) -> list[Document]:
    """Return the results of an edit with `folders`, with warnings of folders that are not there."""
    from radrm.host.mistakes import look_over_edit  # only changed options need it
    from radrm.jobfile.parsing import typed

    asked = typed(options, "edited options")
    notes: dict[str, list[str]] = {}
    for result in results:
        folder = result.pop("folder", None)
        if folder is not None:
            if folder not in notes:
                notes[folder] = look_over_edit(asked, folder)
            words = [result.get("warning"), *notes[folder]]
            if any(words):
                result["warning"] = "; ".join(filter(None, words))
    return results


def command_devices(command: str, devices: Sequence[str], **words: Any) -> list[Document]:
    """Give a command for each device; no name means all. Returns the results."""
    with Client() as client:
        results: list[Document] = client.ask(command, devices=list(devices), **words)
    return results


def batches(jobs: Sequence[str]) -> Iterator[list[str]]:
    """Split references into requests of a size that the daemon takes."""
    batch: list[str] = []
    globs = 0
    for job in jobs:
        glob = any(character in job for character in "*?[")
        if len(batch) == _BATCH or (glob and globs == _GLOBS):
            yield batch
            batch, globs = [], 0
        batch.append(job)
        globs += glob
    if batch:
        yield batch
