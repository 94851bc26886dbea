"""Which program files a job runs, in a few bytes: so that a change of one is noticed.

`radrm submit` reads the files as the submitter, so this file imports little. A false entry would
mislead only the submitter's own history.

A Python program is more than its file: the modules of its folder that it imports belong to it, as
far as `import` statements name them.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MAX_FILES = 8
MAX_MODULES, MAX_MODULE_BYTES = 100, 4 << 20
"""Imported modules, and their size together, that are looked at."""
MAX_FILE = 1 << 20
MAX_SCRIPT = 1 << 16
_ENDINGS = (".py", ".sh", ".yaml", ".yml", ".json", ".toml")
_OF_NAMES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
_OF_MODULES = _OF_NAMES + b"."
_TO_BLANKS = bytes(byte if byte in _OF_NAMES else ord(" ") for byte in range(256))
_AROUND = "\"'();&|=<>"


def sources_of(
    words: Iterable[str], folder: str, environment: Mapping[str, str] = os.environ
) -> str | None:
    """`name size checksum` of the first few files that the words name; None for none.

    What a file reads of the environment belongs to it: the checksum is also one of those
    variables whose names stand in it.
    """
    files = list(_files(words, folder))
    found = [f"{name} {_checksum(data, size, environment)}" for name, data, size in files]
    programs = [(os.path.join(folder, name), data) for name, data, _ in files]
    modules = _Modules([each for each in programs if each[0].endswith(".py")], folder)
    if modules.found:
        found.append(f"imports {len(modules.found)} {modules.checksum:08x}")
    return "\n".join(found) or None


def text_of(words: Iterable[str], folder: str) -> str:
    """Return the text of these files."""
    return "\n".join(data.decode("utf-8", "replace") for _, data, _ in _files(words, folder))


def _files(words: Iterable[str], folder: str) -> Iterator[tuple[str, bytes, int]]:
    """Name, content and size of the first few program files that the words name."""
    found: set[str] = set()
    before = ""
    for word in words:
        name = word.strip(_AROUND)
        if before == "-m":
            name = name.replace(".", "/") + ".py"
        before = word
        if name.startswith("-"):
            name = name.partition("=")[2].strip(_AROUND)
        if name.endswith(_ENDINGS) and len(name) < 1000 and name not in found:
            seen = read_program(os.path.join(folder, name))
            if seen is not None:
                found.add(name)
                yield name, *seen
                if len(found) == MAX_FILES:
                    return


class _Modules:
    """The modules that programs import, directly or not, from their folders or the job's: `found`
    has their files, `checksum` is of names and contents."""

    def __init__(self, programs: list[tuple[str, bytes]], folder: str) -> None:
        self.found: set[str] = set()
        self.checksum = 0
        self._room = MAX_MODULE_BYTES
        self._seen = {path for path, _ in programs}
        self._there: dict[str, bool] = {}
        roots = list(dict.fromkeys([os.path.dirname(path) for path, _ in programs] + [folder]))
        waiting = list(programs)
        while waiting:
            path, data = waiting.pop(0)
            for name in _imported(data):
                for root in [os.path.dirname(path)] if name.startswith(".") else roots:
                    waiting += self._of_module(root, name)

    def _of_module(self, root: str, name: str) -> Iterator[tuple[str, bytes]]:
        """The files of the module `a.b`, as far as they are new: those of its packages, too."""
        import zlib

        own = name.lstrip(".")
        for _ in range(len(name) - len(own) - 1):
            root = os.path.dirname(root)
        names = own.split(".")
        if not self._is_there(os.path.join(root, names[0])):
            return
        for depth in range(len(names)):
            part = os.path.join(root, *names[: depth + 1])
            for path in (os.path.join(part, "__init__.py"), f"{part}.py"):
                if path in self._seen or len(self.found) >= MAX_MODULES or self._room <= 0:
                    continue
                self._seen.add(path)
                read = read_program(path)
                if read is not None:
                    self._room -= len(read[0])
                    self.found.add(path)
                    said = os.fsencode(f"{path} {read[1]}\0")
                    self.checksum = zlib.crc32(read[0], zlib.crc32(said, self.checksum))
                    yield path, read[0]

    def _is_there(self, path: str) -> bool:
        """Whether a module or a package is in the folder: most are in none of the user's."""
        if path not in self._there:
            self._there[path] = os.path.isdir(path) or os.path.isfile(f"{path}.py")
        return self._there[path]


def _imported(data: bytes) -> Iterator[str]:
    """The names of modules, as `a.b` or `..a`, that a program's text may import."""
    lines = iter(data.replace(b"\t", b" ").split(b"\n"))
    for line in lines:
        word, _, rest = line.strip().partition(b" ")
        base, names = b"", b""
        if word == b"import":
            names = _without_end(rest)
        elif word == b"from":
            base, _, names = map(bytes.strip, _without_end(rest).partition(b" import"))
            if names.startswith(b"("):
                parts = [names]
                while b")" not in parts[-1]:
                    parts.append(_without_end(next(lines, b")")))
                names = b"".join(parts)
        if not names or base.translate(None, _OF_MODULES):
            continue
        if base.strip(b"."):
            yield os.fsdecode(base)
            base += b"."
        for part in names.strip(b"()").split(b","):
            own = b"".join(part.split()[:1])
            if own and not own.translate(None, _OF_MODULES):
                yield os.fsdecode(base + own)


def _without_end(line: bytes) -> bytes:
    """A line without its comment and without further statements."""
    return line.partition(b"#")[0].partition(b";")[0]


def _checksum(data: bytes, size: int, environment: Mapping[str, str]) -> str:
    import zlib  # many submissions name no file

    words = set(data.translate(_TO_BLANKS).split())
    named = {os.fsdecode(word) for word in words} & environment.keys()
    said = "\0".join(f"{name}={environment[name]}" for name in sorted(named))
    return f"{size} {zlib.crc32(os.fsencode(said), zlib.crc32(data)):08x}"


def read_program(path: str) -> tuple[bytes, int] | None:
    """Return the first MiB of a file and its size; None if it cannot be read."""
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
