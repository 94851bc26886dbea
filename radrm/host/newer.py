"""Refuses what a newer radrm has written, before this one writes anything.

Theory of operation. A rollback must not half-read what it does not know: a job whose end a newer
runner has recorded would count as lost, and run again. So the daemon looks at three versions
first, and only reads: that of the store, in the header of SQLite's file; that of the home's
marker; those of the attempts' records. A release that changes one of these shapes counts its
version up.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat

from radrm import __version__
from radrm.errors import StoreError
from radrm.host.attempts import folder as attempts
from radrm.host.storage.paths import Paths
from radrm.host.storage.schema import SCHEMA_VERSION

MARKER_VERSION = 1
_LARGEST_MARKER = 1 << 20
_MAGIC = b"SQLite format 3\0"
_VERSION_AT = 60
_WAY_BACK = "start the newer radrm again, or go back as `radrm help dgx` says under Upgrades"
_RECORD = re.compile(rb'\{"version": ([0-9]{1,9})[,}]')


def refuse_newer(paths: Paths) -> None:
    """Raise `StoreError` if a newer radrm has worked in this home. What is missing or cannot be
    read is left for others to find."""
    version = store_version(paths.database)
    if version is not None and version > SCHEMA_VERSION:
        raise _newer(f"the store {paths.database}", version, SCHEMA_VERSION)
    version = _marker_version(marker_of(paths))
    if version > MARKER_VERSION:
        raise _newer(f"the home's marker {marker_of(paths)}", version, MARKER_VERSION)
    with contextlib.suppress(OSError):
        for name in os.listdir(paths.attempts):
            for record in (attempts.LAUNCH, attempts.START, attempts.EXIT):
                path = f"{paths.attempts}/{name}/{record}"
                found = _RECORD.match(_beginning(path, 32))
                if found is not None and int(found[1]) > attempts.VERSION:
                    raise _newer(f"the attempt's record {path}", int(found[1]), attempts.VERSION)


def marker_of(paths: Paths) -> str:
    """The path of the home's marker."""
    return f"{paths.state}/radrm-home.json"


def store_version(path: str) -> int | None:
    """The version of the tables in a store's file; None if it is no store, or not there."""
    header = _beginning(path, 100)
    if len(header) < 100 or not header.startswith(_MAGIC):
        return None
    return int.from_bytes(header[_VERSION_AT : _VERSION_AT + 4], "big", signed=True)


def _newer(what: str, version: int, known: int) -> StoreError:
    return StoreError(
        f"{what} is of a newer radrm (version {version}; this is radrm {__version__}, which "
        f"reads up to version {known}), and nothing is changed; {_WAY_BACK}"
    )


def _marker_version(path: str) -> int:
    try:
        document = json.loads(_beginning(path, _LARGEST_MARKER))
    except (ValueError, RecursionError):
        return 0
    version = document.get("version") if isinstance(document, dict) else None
    return version if type(version) is int else 0


def _beginning(path: str, size: int) -> bytes:
    """The first bytes of a regular file; empty if it cannot be read."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(path, flags), "rb") as file:
            return file.read(size) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    except OSError:
        return b""
