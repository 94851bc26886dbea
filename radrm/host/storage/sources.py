"""Which program files a job runs, in a few bytes: so that a change of one is noticed.

`radrm submit` reads the files as the submitter, so this file imports little. A false entry would
mislead only the submitter's own history.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MAX_FILES = 8
MAX_FILE = 1 << 20
MAX_SCRIPT = 1 << 16
_ENDINGS = (".py", ".sh", ".yaml", ".yml", ".json", ".toml")
_OF_NAMES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
_TO_BLANKS = bytes(byte if byte in _OF_NAMES else ord(" ") for byte in range(256))
_AROUND = "\"'();&|=<>"


def sources_of(
    words: Iterable[str], folder: str, environment: Mapping[str, str] = os.environ
) -> str | None:
    """`name size checksum` of the first few files that the words name; None for none.

    What a file reads of the environment belongs to it: the checksum is also one of those
    variables whose names stand in it.
    """
    found = [
        f"{name} {_checksum(data, size, environment)}" for name, data, size in _files(words, folder)
    ]
    return "\n".join(found) or None


def text_of(words: Iterable[str], folder: str) -> str:
    """Return the text of these files."""
    return "\n".join(data.decode("utf-8", "replace") for _, data, _ in _files(words, folder))


def _files(words: Iterable[str], folder: str) -> Iterator[tuple[str, bytes, int]]:
    """Name, content and size of the first few program files that the words name."""
    found: set[str] = set()
    for word in words:
        name = word.strip(_AROUND)
        if name.startswith("-"):
            name = name.partition("=")[2].strip(_AROUND)
        if name.endswith(_ENDINGS) and len(name) < 1000 and name not in found:
            seen = _read(os.path.join(folder, name))
            if seen is not None:
                found.add(name)
                yield name, *seen
                if len(found) == MAX_FILES:
                    return


def _checksum(data: bytes, size: int, environment: Mapping[str, str]) -> str:
    import zlib  # many submissions name no file

    words = set(data.translate(_TO_BLANKS).split())
    named = {os.fsdecode(word) for word in words} & environment.keys()
    said = "\0".join(f"{name}={environment[name]}" for name in sorted(named))
    return f"{size} {zlib.crc32(os.fsencode(said), zlib.crc32(data)):08x}"


def _read(path: str) -> tuple[bytes, int] | None:
    """Return the content of a file and its size; None if it cannot be read."""
    try:
        # Never waiting for a FIFO, nor reading a device.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        try:
            return file.read(MAX_FILE), os.fstat(handle).st_size
        except OSError:
            return None
