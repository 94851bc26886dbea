"""The spool: how a submission reaches the daemon, and survives until then.

Theory of operation. A submission is one file, an *envelope*. It is written under a temporary
name, synced, and renamed to its ticket; then the folder is synced, and the submission is
acknowledged. A submit that is killed before leaves a draft, which was acknowledged to no one.
The kernel names the submitter: the file's owner. The envelope rules until the store has
committed a row with its ticket; only then does the daemon remove it. An envelope that returns
after a crash finds its ticket known, and is removed without effect.

The writing half is imported by every `radrm submit`, so this file stays light.
"""

from __future__ import annotations

import os

from radrm.errors import BadFile, Refused, StoreError
from radrm.host.crossings import crossed
from radrm.host.folders import OpenFolder, is_single_file
from radrm.host.storage.tickets import is_ticket
from radrm.jobfile.record import Record
from radrm.light_json import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

VERSION = 1
"""Of an envelope."""
MAX_BYTES = 8 * 1024 * 1024
MAX_SUMMARY = 1024 * 1024
MAX_SOURCES = 8192
MAX_WAITING = 10_000
"""Envelopes of one user that may wait in the spool before `radrm submit` puts more there. The
daemon takes in hundreds a second, so that many only wait where it is down or has errors."""
MAX_WAITING_BYTES = 256 * 1024 * 1024  # 10,000 usual envelopes take a fifth of it
MOST_FILES = 50_000
"""Envelopes of one user with those that come: `radrm submit` puts no more there. The least value of
`spool_files`, so that no daemon moves away what was acknowledged."""
MOST_BYTES = 1024 * 1024 * 1024
"""The same in bytes, for `spool_mib`."""
_FEW = 64
"""So few envelopes cannot exceed `MOST_BYTES` beside `MAX_WAITING_BYTES`."""
SUFFIX = ".job"
_MARK = b'{"radrm_envelope": '
"""What every envelope begins with: see `Envelope.to_bytes`."""
_LARGEST = 1e15
"""No number in an envelope is larger: no time, no count. One without bounds breaks arithmetic."""

ENVELOPE, DRAFT, FOREIGN = "envelope", "draft", "foreign"


def kind_of(name: str) -> str:
    """What a name in the spool stands for: an envelope, a draft of one, or nothing of radrm's.

    A foreign name is never opened, moved or removed. The other kinds are only candidates:
    what counts is what the opened file is.
    """
    if name.endswith(SUFFIX) and is_ticket(name[: -len(SUFFIX)]):
        return ENVELOPE
    if name.startswith(".") and is_ticket(name[1:]):
        return DRAFT
    return FOREIGN


class Envelope(Record):
    """What a user submits. Strings may hold surrogate escapes, as paths and
    environments of Unix do.

    `script` is the job file's text, with `arguments`; `command` the words of a bare command
    instead. `options` are raw, from the command line only; the file's own are read from it.
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
    table: str | None = None
    """The text of the `--params` file, or the lines of `--lines` as such a text."""
    outer: dict[str, Any] | None = None
    """The fields of the job of Slurm in which it runs (`OUTER`)."""
    arguments: tuple[str, ...] = ()
    host: str | None = None
    """The name of the machine on which it was submitted."""
    rlimits: dict[str, int] | None = None
    """The soft limits of the submitting process, by the names in `RLIMITS`."""

    def to_bytes(self) -> bytes:
        document = {"radrm_envelope": VERSION, **self.as_dict()}
        return encode(document).encode("ascii")

    @property
    def too_large(self) -> bool:
        """True for one that no daemon would take. Written out only where it might be."""
        texts = [self.script or "", self.summary or "", self.table or ""]
        texts += self.environment.values()
        longest = 6 * sum(map(len, texts))  # each character escaped
        return longest > MAX_BYTES // 2 and len(self.to_bytes()) > MAX_BYTES

    @staticmethod
    def from_bytes(data: bytes) -> Envelope:
        """Raises `BadFile` for anything that `to_bytes` would not have written."""
        import json  # the daemon's: `submit` only writes

        try:
            document = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise BadFile(f"it is not an envelope: {error}") from None
        version = document.pop("radrm_envelope", None) if isinstance(document, dict) else None
        if version != VERSION:
            raise BadFile("it is not an envelope of this version of radrm")
        envelope = Envelope.from_document(document)
        if not is_ticket(envelope.ticket):
            raise BadFile("its field 'ticket' is missing or of the wrong kind")
        return envelope

    @staticmethod
    def from_document(document: dict[str, Any]) -> Envelope:
        """Raises `BadFile` unless every field is there and of the right kind."""
        for name, check in _SHAPES.items():
            if not check(document.get(name)):
                raise BadFile(f"its field {name!r} is missing or of the wrong kind")
        known: dict[str, Any] = {name: document.get(name) for name in _SHAPES}
        if (known["script"] is None) == (known["command"] is None):
            raise BadFile("it has neither or both of a script and a command")
        if known["command"] is not None:
            known["command"] = tuple(known["command"])
        known["arguments"] = tuple(known["arguments"] or ())
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
    if not isinstance(value, dict) or not all(type(each) is str for each in value.values()):
        return False
    return _text("".join([f"{name}{text}" for name, text in value.items()]))


def _words(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(_text(w) for w in value)


def _options(value: object) -> bool:
    """Flat, so that it can be written and read again however deep the program stands. Which
    values an option takes is the option table's affair: a wrong one fails the job."""
    return isinstance(value, dict) and all(
        _text(name) and (all(map(_plain, given)) if isinstance(given, list) else _plain(given))
        for name, given in value.items()
    )


def _plain(value: object) -> bool:
    return value is None or type(value) is bool or _text(value) or _number(value)


def _number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < _LARGEST


def _name(value: object) -> bool:
    return isinstance(value, str) and value.isprintable() and 1 <= len(value) <= 64


OUTER: dict[str, Callable[[Any], bool]] = {
    "engine": lambda v: v == "slurm",
    "cluster": _name,
    "id": lambda v: _name(v) and v.isascii() and v.isdigit(),
    "restart": lambda v: type(v) is int and 0 <= v < 1 << 31,
    "pid": lambda v: type(v) is int and 1 < v < 1 << 31,
    "start_ticks": lambda v: type(v) is int and 0 <= v < 1 << 53,
    "boot_id": _name,
}
"""Of an outer job (`core/records/jobs.py`)."""


def _outer(value: Any) -> bool:
    # A step of an older radrm says more (`end_s`).
    if not isinstance(value, dict) or not value.keys() >= OUTER.keys():
        return False
    return all(OUTER[name](value[name]) for name in OUTER)


RLIMITS = ("NOFILE", "STACK", "CORE", "DATA", "AS", "MEMLOCK", "FSIZE", "NPROC")
"""The limits of `setrlimit` that a job takes over from where it was submitted, as under Slurm
(`host/attempts/job_process.py`). That of the CPU time is meant for what is typed there."""


def _rlimits(value: Any) -> bool:
    return isinstance(value, dict) and all(
        name in RLIMITS and type(soft) is int and -1 <= soft < 1 << 63
        for name, soft in value.items()
    )


_SHAPES: dict[str, Callable[[Any], bool]] = {
    "ticket": _text,
    "file": lambda v: v is None or _text(v),
    "script": lambda v: v is None or _text(v),
    "command": lambda v: v is None or _words(v),
    "options": _options,
    "cwd": lambda v: _text(v) and v.startswith("/"),
    "umask": lambda v: type(v) is int and 0 <= v <= 0o777,
    "environment": _texts,
    "submitted_s": _number,
    "summary": lambda v: v is None or (_text(v) and len(v) <= MAX_SUMMARY),
    "sources": lambda v: v is None or (_text(v) and len(v) <= MAX_SOURCES),
    "table": lambda v: v is None or (_text(v) and len(v) <= MAX_SUMMARY),
    "outer": lambda v: v is None or _outer(v),
    "arguments": lambda v: v is None or v == [] or _words(v),
    "host": lambda v: v is None or _name(v),
    "rlimits": lambda v: v is None or _rlimits(v),
}


class Arrival(Record):
    """A file found in the spool: an envelope of `uid`, or what is wrong with it."""

    name: str
    uid: int
    gid: int
    envelope: Envelope | None
    wrong: str | None
    file: tuple[int, int, int] = (0, 0, 0)
    """Which file was read: see `which_file`."""
    size: int = 0
    """Its bytes."""


class Spool:
    """The submitter's half of the folder `path`. Needs no daemon."""

    def __init__(self, path: str) -> None:
        self.path = path

    def put(self, envelopes: list[Envelope]) -> None:
        """Acknowledge: when this returns, all of them are on disk under their tickets.

        Raises `Refused` where too much of this user waits there already, and `StoreError`.
        """
        try:
            folder = OpenFolder(self.path)
        except PermissionError:
            raise Refused(_closed(self.path)) from None
        except OSError as error:
            raise StoreError(
                f"cannot open the spool {self.path}: {error.strerror}; "
                "start the daemon once to set it up: radrm daemon"
            ) from None
        try:
            self._refuse_flood(folder, envelopes)
            for envelope in envelopes:
                self._put(folder.fd, envelope)
            os.fsync(folder.fd)
            crossed("envelope durable")
        except OSError as error:
            raise StoreError(
                f"cannot write to the spool {self.path}: {error.strerror}; nothing is lost that "
                "was acknowledged, free some space and submit again"
            ) from None
        finally:
            folder.close()

    def _refuse_flood(self, folder: OpenFolder, coming: list[Envelope]) -> None:
        """Raise `Refused` while too much of this user waits, or if too much comes at once."""
        count = size = 0
        me = os.geteuid()
        with os.scandir(folder.fd) as entries:
            for entry in entries:
                if kind_of(entry.name) is not ENVELOPE:
                    continue
                try:
                    found = folder.stat(entry.name)
                except OSError:
                    continue  # the daemon has just taken it in, or it is a mount
                if found.st_uid == me:
                    count += 1
                    size += found.st_size
        if count >= MAX_WAITING or size >= MAX_WAITING_BYTES:
            raise Refused(
                f"{count} of your submissions ({size >> 20} MiB) wait in the spool {self.path} "
                f"already, and the most is {MAX_WAITING} ({MAX_WAITING_BYTES >> 20} MiB); wait "
                "until the daemon has taken some in, or start it: radrm daemon"
            )
        count += len(coming)
        if len(coming) > _FEW:
            size += sum(len(each.to_bytes()) for each in coming)
        if count > MOST_FILES or size > MOST_BYTES:
            raise Refused(
                f"{count} submissions of you ({size >> 20} MiB) would be in the spool {self.path}, "
                f"and the most is {MOST_FILES} ({MOST_BYTES >> 20} MiB); nothing was submitted: "
                "submit them in parts, or as an array"
            )

    def drop_draft(self, ticket: str) -> None:
        """Remove what a killed `put` of this ticket has left. It was never acknowledged."""
        try:
            os.unlink(os.path.join(self.path, f".{ticket}"))
        except OSError:
            pass  # there is none

    def _put(self, folder: int, envelope: Envelope) -> None:
        draft = f".{envelope.ticket}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(draft, flags, 0o600, dir_fd=folder)
        try:
            with open(handle, "wb") as file:
                file.write(envelope.to_bytes())
                file.flush()
                crossed("envelope written")
                os.fsync(file.fileno())
            crossed("envelope synced")
            os.rename(draft, envelope.ticket + SUFFIX, src_dir_fd=folder, dst_dir_fd=folder)
            crossed("envelope renamed")
        except OSError:
            try:
                os.unlink(draft, dir_fd=folder)
            except OSError:
                pass
            raise


def _closed(path: str) -> str:
    """Why this user may not submit here: the folder of a server's spool is for a group."""
    import grp  # as rarely as somebody is refused

    try:
        group = grp.getgrgid(os.stat(path).st_gid).gr_name
    except (OSError, KeyError):
        return f"you may not submit jobs here: {path} is not open to you; ask the administrator"
    return (
        f"only members of the group {group} may submit jobs here; ask the administrator (usermod "
        f"-aG {group} YOU), then log in again"
    )


def read_envelope_file(folder: OpenFolder, name: str) -> Arrival | None:
    """One file whose name is an envelope's, trusting nothing about it. None when it has
    vanished, or is no file that `radrm submit` may have written: then it stays untouched.

    What counts is what the opened file is, not what its name was a moment ago. Raises `OSError`
    and `MemoryError`, which are the machine's errors, not the file's.
    """
    opened = folder.open_file(name)
    if opened is None:
        return None
    handle, found = opened
    with open(handle, "rb") as file:
        envelope, wrong = None, _distrust(found)
        if wrong is None:
            try:
                # Not MAX_BYTES: `read` takes as much memory as it may read, of which the C library
                # keeps a part when it is free again.
                envelope = Envelope.from_bytes(file.read(found.st_size + 1))
            except BadFile as error:
                wrong = str(error)
    if envelope is not None and envelope.ticket + SUFFIX != name:
        envelope, wrong = None, "its ticket is another's"
    uid, gid, size = found.st_uid, found.st_gid, found.st_size
    return Arrival(name, uid, gid, envelope, wrong, which_file(found), size)


def is_draft(folder: OpenFolder, name: str, before_s: float) -> bool:
    """True for what a `radrm submit` began to write and left, last changed before `before_s`
    (seconds since the epoch). That submit never acknowledged anything."""
    try:
        opened = folder.open_file(name)
        if opened is None:
            return False
        handle, found = opened
        with open(handle, "rb") as file:
            old = found.st_ctime < before_s and not found.st_mode & 0o077
            return old and _MARK.startswith(file.read(len(_MARK)))
    except OSError:
        return False


def has_envelope(spool: str, ticket: str) -> bool:
    """Return whether the spool holds a file that may be the envelope of this ticket."""
    try:
        with OpenFolder(spool) as folder:
            return is_single_file(folder.stat(ticket + SUFFIX))
    except OSError:
        return False


def which_file(found: os.stat_result) -> tuple[int, int, int]:
    """Names one file as it was written: an inode is given out again, with a new change time."""
    return found.st_dev, found.st_ino, found.st_ctime_ns


def _distrust(found: os.stat_result) -> str | None:
    if found.st_mode & 0o077:
        return "others may read or write it; `radrm submit` writes files of mode 0600"
    if found.st_size > MAX_BYTES:
        return f"it is larger than {MAX_BYTES // 1024 // 1024} MiB"
    return None
