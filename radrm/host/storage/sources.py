"""Which program files a job runs, in a few bytes: so that a change of one is noticed.

`radrm submit` reads the files as the submitter, so this file imports little. A false entry would
mislead only the submitter's own history.
"""

from __future__ import annotations

import os
import re
import stat
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_FILES = 8
MAX_FILE = 1 << 20
MAX_SCRIPT = 1 << 16
_ENDINGS = (".py", ".sh", ".yaml", ".yml", ".json", ".toml")
_NAME = re.compile(rb"[A-Za-z][A-Za-z0-9_]*|_[A-Za-z0-9_]+")
_AROUND = "\"'();&|=<>"


def sources_of(words: Iterable[str], folder: str) -> str | None:
    """`name size checksum` of the first few files that the words name; None for none.

    What a file reads of the environment belongs to it: the checksum is also one of those
    variables whose names stand in it.
    """
    found: dict[str, str] = {}
    for word in words:
        name = word.strip(_AROUND)
        if name.startswith("-"):
            name = name.partition("=")[2].strip(_AROUND)
        if name.endswith(_ENDINGS) and len(name) < 1000 and name not in found:
            seen = _checksum(os.path.join(folder, name))
            if seen is not None:
                found[name] = f"{name} {seen}"
                if len(found) == MAX_FILES:
                    break
    return "\n".join(found.values()) or None


def _checksum(path: str) -> str | None:
    try:
        # Never waiting for a FIFO, nor reading a device.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        try:
            data = file.read(MAX_FILE)
        except OSError:
            return None
        named = {os.fsdecode(name) for name in set(_NAME.findall(data))} & os.environ.keys()
        said = "\0".join(f"{name}={os.environ[name]}" for name in sorted(named))
        seen = zlib.crc32(os.fsencode(said), zlib.crc32(data))
        return f"{os.fstat(handle).st_size} {seen:08x}"
