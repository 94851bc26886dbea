"""The spool: how a submission reaches the daemon, and survives until it has.

A submission is one file, an *envelope*, written under a temporary name, synced,
renamed to its ticket, and the folder synced: then it is acknowledged. Its owner
is the submitter, by the kernel's word. It rules until the store has committed a
row with its ticket; only then does the daemon remove it.

The writing half is imported by every `radrm submit`, so this file stays light.
"""

from __future__ import annotations

import json
import os
import stat

from radrm.errors import BadFile, StoreError
from radrm.host.tickets import is_ticket, new_ticket
from radrm.host.trouble import may_pass
from radrm.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

VERSION = 1
MAX_BYTES = 8 * 1024 * 1024
MAX_SOURCES = 8192
_SUFFIX = ".job"


class Envelope(Record):
    """What a submitter hands in. Strings may hold surrogate escapes, as paths and
    environments of Unix do.

    `script` is the job file's text; `command` the words of a bare command instead.
    `options` are raw, from the command line only; the file's own are read from it.
    """

    ticket: str
    file: str | None
    script: str | None
    command: tuple[str, ...] | None
    options: dict[str, Any]
    cwd: str
    umask: int
    environment: dict[str, str]
    submitted_s: float
    summary: str | None = None
    """The text of the model summary that the job names, as it was at submission."""
    sources: str | None = None
    """Sizes and checksums of the program files that the job names, as they were then."""

    def to_bytes(self) -> bytes:
        document = {"radrm_envelope": VERSION, **self.as_dict()}
        return json.dumps(document).encode("ascii")

    @property
    def too_large(self) -> bool:
        """True for one that no daemon would take. Written out only where it might be."""
        texts = [self.script or "", self.summary or "", *self.environment.values()]
        longest = 6 * sum(map(len, texts))  # each character escaped
        return longest > MAX_BYTES // 2 and len(self.to_bytes()) > MAX_BYTES

    @staticmethod
    def from_bytes(data: bytes) -> Envelope:
        """Raises `BadFile` for anything that `to_bytes` would not have written."""
        try:
            document = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise BadFile(f"it is not an envelope: {error}") from None
        if not isinstance(document, dict) or document.pop("radrm_envelope", None) != VERSION:
            raise BadFile("it is not an envelope of this version of radrm")
        for name, check in _SHAPES.items():
            if not check(document.get(name)):
                raise BadFile(f"its field {name!r} is missing or of the wrong kind")
        if (document["script"] is None) == (document["command"] is None):
            raise BadFile("it has neither or both of a script and a command")
        known: dict[str, Any] = {name: document.get(name) for name in _SHAPES}
        if known["command"] is not None:
            known["command"] = tuple(known["command"])
        return Envelope(**known)


def _text(value: object) -> bool:
    """A string that the system can be given. JSON can spell others: halves of a character."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _texts(value: object) -> bool:
    return isinstance(value, dict) and all(_text(k) and _text(v) for k, v in value.items())


def _words(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(_text(w) for w in value)


_SHAPES: dict[str, Callable[[Any], bool]] = {
    "ticket": lambda v: _text(v) and is_ticket(v),
    "file": lambda v: v is None or _text(v),
    "script": lambda v: v is None or _text(v),
    "command": lambda v: v is None or _words(v),
    "options": lambda v: isinstance(v, dict),
    "cwd": lambda v: _text(v) and v.startswith("/"),
    "umask": lambda v: type(v) is int and 0 <= v <= 0o777,
    "environment": _texts,
    "submitted_s": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "summary": lambda v: v is None or _text(v),
    "sources": lambda v: v is None or (_text(v) and len(v) <= MAX_SOURCES),
}


class Arrival(Record):
    """A file found in the spool: an envelope of `uid`, or what is wrong with it."""

    name: str
    uid: int
    gid: int
    envelope: Envelope | None
    wrong: str | None


class Spool:
    """The folder `path`. Writing needs no daemon; reading is the daemon's alone."""

    def __init__(self, path: str, leave: Callable[[str], bool] = lambda _: False) -> None:
        """`leave` says which names are no envelopes and somebody else's business."""
        self.path = path
        self._leave = leave

    # ------------------------------------------------------------- the submitter's half

    def put(self, envelopes: list[Envelope]) -> None:
        """Acknowledge: when this returns, all of them are on disk under their tickets."""
        try:
            folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise StoreError(
                f"cannot open the spool {self.path}: {error.strerror}; "
                "start the daemon once to set it up: radrm daemon"
            ) from None
        try:
            for envelope in envelopes:
                self._put(folder, envelope)
            os.fsync(folder)
        except OSError as error:
            raise StoreError(
                f"cannot write to the spool {self.path}: {error.strerror}; nothing is lost that "
                "was acknowledged, free some space and submit again"
            ) from None
        finally:
            os.close(folder)

    def _put(self, folder: int, envelope: Envelope) -> None:
        draft = f".{envelope.ticket}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(draft, flags, 0o600, dir_fd=folder)
        try:
            with open(handle, "wb") as file:
                file.write(envelope.to_bytes())
                file.flush()
                os.fsync(file.fileno())
            os.rename(draft, envelope.ticket + _SUFFIX, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            try:
                os.unlink(draft, dir_fd=folder)
            except OSError:
                pass
            raise

    # ------------------------------------------------------------- the daemon's half

    def arrivals(self) -> Iterator[Arrival]:
        """What lies in the spool, oldest ticket first."""
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in sorted(os.listdir(folder)):
                if not name.startswith(".") and not self._leave(name):
                    arrival = _read(folder, name)
                    if arrival is not None:
                        yield arrival
        finally:
            os.close(folder)

    def remove(self, name: str) -> None:
        """After its row is committed. Not synced: should it come back, the row is known."""
        try:
            os.unlink(os.path.join(self.path, name))
        except OSError:
            pass  # its owner has put something else there: the next look says what

    def set_aside(self, name: str, where: str) -> None:
        """Take what is no envelope out of the way, unread and unlost. Its owner chose its name,
        so it gets another. Raises `OSError` where that cannot be done."""
        os.makedirs(where, mode=0o700, exist_ok=True)
        try:
            os.rename(os.path.join(self.path, name), os.path.join(where, new_ticket()))
        except FileNotFoundError:
            pass


def _read(folder: int, name: str) -> Arrival | None:
    """One file, trusting nothing about it. None when it has vanished meanwhile.

    It is opened without following links and without waiting (a FIFO would), and
    what counts is what the opened file is, not what its name was a moment ago.
    """
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        handle = os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        if may_pass(error):
            return None  # that is our trouble, not the file's
        return Arrival(name, -1, -1, None, f"it cannot be opened: {error.strerror}")
    found = os.fstat(handle)
    wrong = _distrust(name, found)
    if wrong is not None:
        os.close(handle)
        return Arrival(name, found.st_uid, found.st_gid, None, wrong)
    with open(handle, "rb") as file:
        try:
            envelope = Envelope.from_bytes(file.read(MAX_BYTES + 1))
        except BadFile as error:
            return Arrival(name, found.st_uid, found.st_gid, None, str(error))
        if envelope.ticket + _SUFFIX != name:
            return Arrival(name, found.st_uid, found.st_gid, None, "its ticket is another's")
        return Arrival(name, found.st_uid, found.st_gid, envelope, None)


def _distrust(name: str, found: os.stat_result) -> str | None:
    if not stat.S_ISREG(found.st_mode):
        return "it is not a regular file"
    if found.st_nlink != 1:
        return f"it has {found.st_nlink} names; an envelope has one"
    if found.st_mode & 0o077:
        return "others may read or write it; `radrm submit` writes files of mode 0600"
    if found.st_size > MAX_BYTES:
        return f"it is larger than {MAX_BYTES // 1024 // 1024} MiB"
    if not name.endswith(_SUFFIX):
        return "it was not written by `radrm submit`; submit it with: radrm submit FILE"
    return None
