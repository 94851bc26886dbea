"""Open a job's log for a reader, with the reader's own rights, and read it as it grows.

Theory of operation. The job writes while this reads. It may cut the file (logrotate), replace it,
or not have made it yet; each case is noticed at the next read. The job's user can make the path
lead to any file, also to one that only the reader can read. So another user's log is read only if
the file belongs to that user; one's own may be a link to anything. Only a regular file is opened,
because opening a pipe or a device can block or have effects, and only as many bytes are read as it
says to have. All that opens logs for readers calls `open_log`.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import stat

from radrm.errors import Refused, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from radrm.client.text import Document

    Write = Callable[[bytes], object]
    Begins = Mapping[tuple[int, int], int]
    """How long logs were before a job was submitted, by device and inode."""

_CHUNK = 64 * 1024


def begins_of(*paths: str | None) -> Begins:
    """Return how long these logs are now; those with a pattern will be others."""
    found = {}
    for path in paths:
        if path is not None and "%" not in path:
            with contextlib.suppress(OSError):
                known = os.stat(path)
                found[_which(known)] = known.st_size
    return found


def _which(file: os.stat_result) -> tuple[int, int]:
    return file.st_dev, file.st_ino


class Tail:
    """Copies what is new in the log of a job of user `uid`. It may not exist yet, be cut, or be
    replaced.

    `notice` gets one line when the file was cut or replaced. `begins`: where to begin.
    """

    def __init__(
        self, path: str, uid: int, notice: Callable[[str], object], begins: Begins | None = None
    ) -> None:
        self.path = path
        self._uid = uid
        self._notice = notice
        self._begins = begins or {}
        self._fd: int | None = None
        self._at = 0

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
        self._fd, self._at = None, 0

    @property
    def found(self) -> bool:
        """True if the last look has found the file."""
        return self._fd is not None

    def skip_to_last(self, lines: int) -> None:
        """Begin with the last `lines` lines of the present file."""
        if self._opened():
            assert self._fd is not None
            self._at = _start_of_last(self._fd, lines)

    def skip_to_end(self, most: int) -> None:
        """Skip what lies before the last `most` bytes of the present file."""
        if self._opened():
            assert self._fd is not None
            self._at = max(self._at, os.fstat(self._fd).st_size - most)

    def copy_new(self, write: Write) -> bool:
        """Copy everything new. False while there is no file. Raises as `pieces`."""
        for piece in self.pieces():
            write(piece)
        return self.found

    def pieces(self) -> Iterator[bytes]:
        """Yield everything new, in pieces of 64 KiB.

        It ends at the size that the file has at the call, so that a fast writer cannot keep it
        here. Raises `Refused` for a file that cannot be read.
        """
        if not self._opened():
            return
        assert self._fd is not None
        found = os.fstat(self._fd)
        if found.st_size < self._at:
            self._notice(f"{self.path} was cut short; from its beginning:")
            self._at = 0
        while self._at < found.st_size:
            try:
                data = os.pread(self._fd, min(_CHUNK, found.st_size - self._at), self._at)
            except OSError as error:
                raise _unreadable(self.path, error) from None
            if not data:
                break
            self._at += len(data)
            yield data
        if self._replaced(found):
            self._notice(f"{self.path} was replaced; the new one:")
            self.close()
            yield from self.pieces()

    def _opened(self) -> bool:
        if self._fd is None:
            self._fd = open_log(self.path, self._uid)
            if self._fd is not None:
                self._at = self._begins.get(_which(os.fstat(self._fd)), 0)
        return self._fd is not None

    def _replaced(self, found: os.stat_result) -> bool:
        """Whether the path leads to another file now. A removed file is not a replaced one."""
        try:
            now = os.stat(self.path)
        except OSError:
            return False
        return _which(now) != _which(found)


def last_lines(path: str, uid: int, most: int) -> list[str] | None:
    """The last lines of the log of a job of `uid` that hold text, made plain; None without a file.

    Of a line that was overwritten (progress bars), the last text counts. It reads 64 KiB at most.
    Raises `Refused` for a log that cannot be read.
    """
    fd = open_log(path, uid)
    if fd is None:
        return None
    try:
        size = os.fstat(fd).st_size
        data = os.pread(fd, min(_CHUNK, size), max(0, size - _CHUNK))
    except OSError as error:
        raise _unreadable(path, error) from None
    finally:
        os.close(fd)
    return text_lines(data)[-most:] if most else []


def text_lines(data: bytes) -> list[str]:
    """The lines of a log that hold text, made plain. Of a line that was overwritten (progress
    bars), the last text counts."""
    lines = (
        line.rstrip("\r").rpartition("\r")[2] for line in data.decode(errors="replace").split("\n")
    )
    shown = [plain(line.expandtabs()).rstrip() for line in lines]
    return [line for line in shown if line]


def written_s(path: str) -> float:
    """When a file was written last, in epoch seconds; 0 if that is unknown."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def owner_of(place: Document) -> int:
    """The user of a job, from the daemon's answer about its logs."""
    return int(place["uid"])


def open_log(path: str, uid: int) -> int | None:
    """Open the log of a job of user `uid`; None if there is no file. Raises `Refused`."""
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error) from None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise Refused(f"the log {path} is not a regular file, so there is nothing to read")
        if uid not in (found.st_uid, os.geteuid()):
            ran_it = _name(uid)
            raise Refused(
                f"the log of a job of {ran_it} leads to a file of {_name(found.st_uid)}, so it is "
                f"not shown: {path}; ask {ran_it} where the job's log is"
            )
        # Through the handle, so that the file that was checked is the file that is opened.
        return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise _unreadable(path, error) from None
    finally:
        os.close(handle)


def _name(uid: int) -> str:
    import pwd  # here, because few logs are refused

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _unreadable(path: str, error: OSError) -> Refused:
    return Refused(f"cannot read the log {path}: {error.strerror}")


def _start_of_last(fd: int, lines: int) -> int:
    """The offset of the last `lines` lines; an unfinished last line counts as one."""
    end = os.fstat(fd).st_size
    if lines <= 0 or end == 0:
        return end
    left = lines + (os.pread(fd, 1, end - 1) == b"\n")
    at = end
    while at > 0:
        begin = max(0, at - _CHUNK)
        data = os.pread(fd, at - begin, begin)
        cut = len(data)
        while (cut := data.rfind(b"\n", 0, cut)) >= 0:
            left -= 1
            if left == 0:
                return begin + cut + 1
        at = begin
    return 0


def harmless(write: Write) -> Write:
    """A `write` that makes control characters visible, because a log of another user could send
    commands to the terminal. Newlines, tabs and carriage returns (progress bars) stay.
    """
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def cleaned(data: bytes) -> object:
        text = "".join(c if c in "\n\r\t" or c.isprintable() else "�" for c in decode(data))
        return write(text.encode("utf-8", "replace"))

    return cleaned
