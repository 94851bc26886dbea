"""Make one call in a job: `python run_call.py FOLDER FIRST`. It imports nothing of radrm.

Theory of operation. The call is `N.call` in the folder: the submitter's `sys.path`, then function
and arguments, both pickled. N is FIRST plus the number of the array's element. The answer is
`N.answer`: whether the call returned, its value or exception, and the traceback. It appears whole
or not at all. An answer of an earlier attempt is removed first.

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
    except Exception as error:
        return False, error, traceback.format_exc()


def pickled(answer: tuple[bool, Any, str]) -> tuple[bool, bytes]:
    """The answer as bytes, and whether it holds what the call returned."""
    import cloudpickle

    returned, value, trace = answer
    try:
        return returned, cloudpickle.dumps(answer)
    except Exception as error:
        what = "what the call returned" if returned else "the exception of the call"
        wrong = TypeError(f"{what} cannot be pickled: {type(value).__name__}: {error}")
        return False, pickle.dumps((False, wrong, trace or traceback.format_exc()))


def main() -> int:
    """Make the call of this job. Returns its exit code."""
    path, first = sys.argv[1:]
    number = int(first) + int(os.environ.get("RADRM_ARRAY_TASK_ID") or 0)
    folder = open_folder(path)
    remove(f"{number}.{ANSWER}", folder)
    with open_private(f"{number}.{CALL}", folder) as file:
        answer = answer_to(file)
    returned, data = pickled(answer)
    write_private(f"{number}.{ANSWER}", data, folder)
    if not returned:
        # The log tells it, too; the end of the log also says whether GPU memory ran out.
        print(answer[2] or "the value cannot be pickled", file=sys.stderr, flush=True)
    return 0 if returned else 1


if __name__ == "__main__":
    sys.exit(main())
