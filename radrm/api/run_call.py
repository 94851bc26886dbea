"""Make one call in a job: `python run_call.py FOLDER FIRST`. It imports nothing of radrm.

Theory of operation. The call is `N.call` in the folder: the submitter's `sys.path`, then function
and arguments, both pickled. N is FIRST plus the number of the array's element. The answer is
`N.answer`: first a pickle of plain values (whether the call returned, the exception in words, its
traceback), which always can be read, then one of the value or exception, which the other end may
not be able to read. It appears whole or not at all. An answer of an earlier attempt is removed
first.

Unpickling runs code. So both ends read only files that belong to their own user and that nobody
else can write.
"""

from __future__ import annotations

import os
import pickle
import stat
import sys
import traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any

CALL, ANSWER = "call", "answer"


def open_folder(path: str) -> int:
    """Open a folder that only this user can write. Raises `PermissionError`, `OSError`."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        refuse_others(fd, path)
    except OSError:
        os.close(fd)
        raise
    return fd


def refuse_others(fd: int, name: str) -> None:
    """Raise `PermissionError` for what another user owns or can write."""
    found = os.fstat(fd)
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"{name}: another user owns it or can write it; it is not read")


def open_private(name: str, folder: int) -> IO[bytes]:
    """Open a regular file that only this user can write. Raises `OSError`."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    file = open(os.open(name, flags, dir_fd=folder), "rb")
    try:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise PermissionError(f"{name}: not a regular file; it is not read")
        refuse_others(file.fileno(), name)
    except OSError:
        file.close()
        raise
    return file


def write_private(name: str, data: bytes, folder: int) -> None:
    """Write a file that only this user can read; it appears whole. Raises `OSError`."""
    draft = f".{name}"
    remove(draft, folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(draft, flags, 0o600, dir_fd=folder), "wb") as file:
        file.write(data)
    os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)


def remove(name: str, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass


def answer_to(file: IO[bytes]) -> tuple[bool, Any, str]:
    """Make the call: whether it returned, its value or exception, and the traceback."""
    try:
        sys.path[:] = pickle.load(file)
        function, args, kwargs = pickle.load(file)
        return True, function(*args, **kwargs), ""
    except BaseException as error:  # SystemExit and Ctrl-C, too: nothing else would tell of them
        return False, error, cut(traceback.format_exc(), _MOST_TRACE)


def cut(text: str, most: int) -> str:
    """Leave out the middle of a text that is too long."""
    return text if len(text) <= most else f"{text[: most // 2]}\n[...]\n{text[-most // 2 :]}"


def in_words(error: BaseException) -> str:
    """The type and text of an exception, whatever its own methods do."""
    try:
        text = str(error)
    except BaseException as wrong:
        text = f"its text cannot be shown ({type(wrong).__name__})"
    return cut(f"{type(error).__name__}: {text}" if text else type(error).__name__, _MOST_TEXT)


def rebuild(kind: type, args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    """Make an exception without its constructor, which may take other arguments than it kept."""
    error: BaseException = kind.__new__(kind, *args)
    vars(error).update(state)
    return error


class _Parts:
    """Pickles an exception so that `rebuild` makes it."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild, (type(self._error), self._error.args, dict(vars(self._error)))


def portable(error: BaseException) -> tuple[Any, bytes]:
    """What is unpickled as this very exception, and its pickle; None and empty if nothing is."""
    for what in (error, _Parts(error)):
        try:
            import cloudpickle

            data: bytes = cloudpickle.dumps(what)
            again = pickle.loads(data) if len(data) <= _MOST_ERROR else None
            if type(again) is type(error) and in_words(again) == in_words(error):
                return what, data
        except BaseException:  # whatever its own methods raise
            continue
    return None, b""


def pickled(answer: tuple[bool, Any, str]) -> tuple[bool, bytes]:
    """The answer as bytes, and whether it holds what the call returned."""
    returned, value, trace = answer
    if returned:
        try:
            import cloudpickle

            return True, pickle.dumps((True, "", "")) + cloudpickle.dumps(value)
        except BaseException as error:
            trace = cut(traceback.format_exc(), _MOST_TRACE)
            kind = type(value).__name__
            value = TypeError(
                f"what the call returned cannot be pickled: {kind}: {in_words(error)}"
            )
    return False, pickle.dumps((False, in_words(value), trace)) + portable(value)[1]


_MOST_TEXT, _MOST_TRACE, _MOST_ERROR = 10_000, 200_000, 64 << 20
"""Characters of an exception's text and traceback, and bytes of its pickle."""


def main() -> int:
    """Make the call of this job. Returns its exit code."""
    path, first = sys.argv[1:]
    number = int(first) + int(os.environ.get("RADRM_ARRAY_TASK_ID") or 0)
    folder = open_folder(path)
    remove(f"{number}.{ANSWER}", folder)
    with open_private(f"{number}.{CALL}", folder) as file:
        answer = answer_to(file)
    if not answer[0]:
        # The log tells it, too; the end of the log also says whether GPU memory ran out.
        print(answer[2], file=sys.stderr, flush=True)
    returned, data = pickled(answer)
    write_private(f"{number}.{ANSWER}", data, folder)
    if answer[0] and not returned:
        print("the value cannot be pickled", file=sys.stderr, flush=True)
    code = answer[1].code if isinstance(answer[1], SystemExit) and not answer[0] else None
    return code if type(code) is int and code else int(not returned)


if __name__ == "__main__":
    sys.exit(main())
