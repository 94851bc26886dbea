"""The store's SQLite file: how it is opened, written in transactions, and read as records.

Theory of operation. Write-ahead log with `synchronous=FULL`: a committed transaction survives
a power failure, one that was cut off never was. A full disk would keep a cancel from being
saved, and so from acting; therefore the log has space allocated from the start. What a
transaction raises leaves nothing of it; what lies with the machine (a full disk, no memory) is
raised as `StoreError`, and the same may be written again later. A row that cannot be read is a
`DamagedRow`: the others still can.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from radrm.errors import StoreError, message_of, plain
from radrm.host.crossings import crossed
from radrm.host.storage.schema import SCHEMA_VERSION, UnknownVersion, make_tables

LOG_RESERVE = 8 * 2**20
"""Bytes for SQLite's log: it is written back after 4 MiB, the rest is for a full disk."""
_WAL_BYTES = 64 * 2**20
"""The write-ahead log is cut back to this once its pages are in the database."""
FILE_DAMAGE = (sqlite3.DatabaseError, UnicodeDecodeError)
"""What SQLite raises for a file that a disk has changed: its own messages may not be UTF-8."""
_STEPS = 100_000
"""Instructions of SQLite between two calls of `alive`: some milliseconds."""
DAMAGE = (msgspec.MsgspecError, zlib.error, ValueError, TypeError, KeyError, AttributeError)
"""What is raised for a row that a person or a disk has changed."""

_FULL = ("is full", "disk I/O error")
"""What SQLite says on a full disk, which also keeps it from making its index of the log."""

T = TypeVar("T")


class DamagedRow(StoreError):
    """A row that cannot be read: the store's other rows can."""


class Database:
    """One open file. Used by one thread only. Raises `StoreError`, with the next step."""

    def __init__(
        self, path: str, alive: Callable[[], None] | None = None, read_only: bool = False
    ) -> None:
        """`alive` is called again and again during a long statement. It must not raise.

        `read_only`: the file stays as it is, also one of another version. (SQLite makes its index
        of the log beside it, if that is missing.)
        """
        self.path = path
        place = f"file:{quote(os.fsencode(path))}?mode=ro" if read_only else path
        try:
            self.connection = sqlite3.connect(
                place, isolation_level=None, timeout=1.0, uri=read_only
            )
            self.connection.text_factory = _text
            self.connection.set_progress_handler(alive, _STEPS)
            if read_only:
                self.execute("PRAGMA temp_store = MEMORY")
                self._check_version()
            else:
                os.chmod(path, 0o600)
                self._prepare()
                self._keep_room()
        except FILE_DAMAGE as error:
            if any(words in str(error) for words in _FULL):  # Python 3.10 gives no error code
                raise StoreError(
                    f"cannot use the disk of the store {path}: {error} "
                    f"({_free_kib(path)} KiB are free); free some space, or repair the disk, and "
                    "start the daemon again: jobs run on"
                ) from None
            raise StoreError(
                f"cannot read the store {path}: {plain(message_of(error))}; it is left as it is. "
                "Move it aside to start with an empty one, or restore a copy"
            ) from None
        except OSError as error:
            raise StoreError(f"cannot open the store {path}: {error.strerror}") from None

    def _prepare(self) -> None:
        self.execute("PRAGMA auto_vacuum = INCREMENTAL")  # of a new file: before all else
        self.execute("PRAGMA journal_mode = WAL")
        self.execute("PRAGMA synchronous = FULL")
        self.execute("PRAGMA foreign_keys = ON")
        self.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
        self._check_version()

    def _check_version(self) -> None:
        try:
            make_tables(self.connection)
        except UnknownVersion as unknown:
            raise StoreError(
                f"the store {self.path} has version {unknown} and this radrm reads version "
                f"{SCHEMA_VERSION}; run the radrm that wrote it, or go back as `radrm help dgx` "
                "says under Upgrades"
            ) from None

    def _keep_room(self) -> None:
        """Allocate space for the log of transactions now: on a full disk they still fit in.

        SQLite writes its log from the start again after each checkpoint and never makes it
        shorter while it is open; what lies behind the last transaction it does not read. Where
        a file system cannot allocate, or is full already, the log grows as it does anyway.
        """
        with contextlib.suppress(OSError):
            self.execute("PRAGMA wal_checkpoint(PASSIVE)")
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            log = os.open(f"{self.path}-wal", flags, 0o600)
            try:
                os.posix_fallocate(log, 0, LOG_RESERVE)
            finally:
                os.close(log)

    def close(self) -> None:
        self.connection.close()

    # ------------------------------------------------------------- size

    @property
    def free_pages(self) -> int:
        """Pages that hold nothing: the next rows use them."""
        return int(self.execute("PRAGMA freelist_count").fetchone()[0])

    def give_back(self, pages: int) -> None:
        """Cut so many free pages off the file's end. Raises `sqlite3.Error`."""
        # A script, since each step of this statement cuts off one page, and `execute` does one.
        self.connection.executescript(f"PRAGMA incremental_vacuum({pages})")

    def sync(self) -> None:
        """Put on disk what was committed by `not_synced`. Raises `StoreError`."""
        try:
            log = os.open(f"{self.path}-wal", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                os.fdatasync(log)
            finally:
                os.close(log)
        except OSError as error:
            raise StoreError(f"cannot sync the store {self.path}: {error.strerror}") from None
        crossed("store synced")

    @contextlib.contextmanager
    def not_synced(self) -> Iterator[None]:
        """Transactions that a power failure may undo, in their order: they cost no sync each."""
        self.execute("PRAGMA synchronous = NORMAL")
        try:
            yield
        finally:
            self.execute("PRAGMA synchronous = FULL")

    # ------------------------------------------------------------- writing

    @contextlib.contextmanager
    def writing(self, what: str = "") -> Iterator[None]:
        """A transaction: all of it is on disk afterwards, or nothing of it stays.

        `what` names it for the fault points.
        """
        try:
            self.execute("BEGIN IMMEDIATE")
            crossed("transaction begun", what)
            yield
            crossed("transaction written", what)
            self.execute("COMMIT")
            crossed("transaction committed", what)
        except BaseException as error:
            if self.connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    self.execute("ROLLBACK")
            if not isinstance(error, (sqlite3.Error, OSError, MemoryError)):
                raise
            why = str(error) or type(error).__name__
            raise StoreError(
                f"cannot write the store {self.path}: {why}; free some space: "
                "jobs run on, and what was decided meanwhile is done then"
            ) from None

    def execute(self, query: str, arguments: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        return self.connection.execute(query, arguments)

    def execute_many(self, query: str, rows: Iterable[tuple[Any, ...]]) -> None:
        self.connection.executemany(query, rows)

    # ------------------------------------------------------------- reading

    def ids(self, query: str, *arguments: Any) -> list[int]:
        """The first column."""
        return [job_id for (job_id,) in self.execute(query, arguments)]

    def records(self, kind: type[T], query: str, *arguments: Any) -> list[T]:
        """The first column, JSON of records of one kind. Raises `DamagedRow`."""
        found = []
        for (text,) in self.execute(query, arguments):
            try:
                found.append(msgspec.json.decode(text, type=kind))
            except DAMAGE as error:
                what = f"the record of a {kind.__name__.lower()} ({ascii(text)[:40]}...)"
                raise self.damaged(what, error) from None
        return found

    def damaged(self, what: str, error: Exception) -> DamagedRow:
        """The error for a row that cannot be read."""
        why = plain(f"{type(error).__name__}: {message_of(error)}"[:200])
        return DamagedRow(
            f"the store {self.path} holds {what}, which cannot be read ({why}); stop the daemon "
            "and restore a copy, or move the store aside to start with an empty one"
        )


def _free_kib(path: str) -> int:
    found = os.statvfs(os.path.dirname(path))
    return found.f_bavail * found.f_frsize // 1024


@contextlib.contextmanager
def damage_told(path: str) -> Iterator[None]:
    """Raise `StoreError` where SQLite finds that the store's file is damaged."""
    try:
        yield
    except FILE_DAMAGE as error:
        raise StoreError(
            f"the store {path} cannot be read: {plain(message_of(error))}; stop the daemon and "
            "restore a copy, or move the store aside to start with an empty one"
        ) from None


def _text(data: bytes) -> str:
    """A text as it is in the file; what a disk has damaged is found by those who read the row."""
    return data.decode("utf-8", "surrogateescape")


def encoded(record: Any) -> str:
    """A record as JSON. Text of users may hold what JSON cannot say; then that is spelled out."""
    try:
        return msgspec.json.encode(record).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(_spelled(msgspec.to_builtins(record))).decode()


def _spelled(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_spelled(k): _spelled(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_spelled(v) for v in value]
    return value
