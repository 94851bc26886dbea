"""Read and write in the folder of one attempt, as its owner: the small program for that.

    python -I -S acting.py       (the folder and the steps, as JSON, on standard input)

Theory of operation. The folder belongs to a job's user, who may put there what he likes: a link, a
pipe, a file of another size at each look. So the daemon never opens anything in it. This process
becomes the folder's owner first. The folder itself lies in one of the daemon's, so its owner is
proof of who that is; what is mounted over it is not entered. Names are used below a descriptor of
the folder, no link is followed, nothing blocks, and an alarm ends the process. Its answers, one for
each step, go to standard output.

    ["keep", NAME, TEXT]   write the file, unless the name is there: {"new": BOOL}
    ["put", NAME, TEXT]    write the file in place of an earlier one: {}
    ["read", NAME]         {"text": TEXT or null}
    ["drop", NAME...]      remove these files, if they are there: {}
    ["clear"]              remove everything: {"left": NUMBER}

A step that fails answers {"error": TEXT}. A file is complete when it has its name, also after a
kill of this process (`files.write_durably` does the same below a path).
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import pwd
import signal
import stat
import sys

if not __package__:
    # Run by its path, isolated: the package that it belongs to has to be found.
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 4)))

from radrm.host.attempts.elastic.names import MOST_BYTES
from radrm.host.attempts.job_process import CannotStart, drop_rights
from radrm.host.folders import OpenFolder
from radrm.host.storage.files import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LIMIT_S = 4
"""Real seconds after which the process ends."""
MOST_NAMES = 20_000
"""Files and folders that one call removes."""
_DEEPEST = 100
"""Folders inside folders that are removed: each one takes a descriptor."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def main() -> None:
    """Act as the request says. Ends with 1, and a line instead of answers, if it cannot begin."""
    with open(0, "rb", closefd=False) as source:
        wanted = json.loads(source.read())
    signal.alarm(LIMIT_S)
    above, _, name = wanted["folder"].rpartition("/")
    try:
        with OpenFolder(above) as its:
            folder = its.open(name, _FOLDER)
        _become_owner(os.fstat(folder))
    except (OSError, CannotStart) as error:
        answers: list[Any] = [{"error": _why(error)}] * len(wanted["steps"])
    else:
        answers = [_step(folder, *step) for step in wanted["steps"]]
    write_all(1, json.dumps(answers).encode("ascii"))


def _become_owner(owner: os.stat_result) -> None:
    if owner.st_uid == os.geteuid():
        return
    try:
        name = pwd.getpwuid(owner.st_uid).pw_name
    except KeyError:
        name = str(owner.st_uid)
    drop_rights({"uid": owner.st_uid, "gid": owner.st_gid, "user": name})


def _step(folder: int, kind: str, *words: str) -> dict[str, Any]:
    try:
        return _STEPS[kind](folder, *words)
    except OSError as error:
        return {"error": _why(error)}


def _keep(folder: int, name: str, text: str) -> dict[str, Any]:
    draft = _write_draft(folder, name, text)
    try:
        os.link(draft, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        return {"new": False}
    finally:
        os.unlink(draft, dir_fd=folder)
    os.fsync(folder)
    return {"new": True}


def _put(folder: int, name: str, text: str) -> dict[str, Any]:
    draft = _write_draft(folder, name, text)
    try:
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        os.unlink(draft, dir_fd=folder)
        raise
    os.fsync(folder)
    return {}


def _write_draft(folder: int, name: str, text: str) -> str:
    draft = f".{name}.{os.urandom(6).hex()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(draft, flags, 0o600, dir_fd=folder)
    try:
        write_all(file, text.encode())
        os.fsync(file)
    except BaseException:
        os.unlink(draft, dir_fd=folder)
        raise
    finally:
        os.close(file)
    return draft


def _read(folder: int, name: str) -> dict[str, Any]:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        file = os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        return {"text": None}
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            return {"error": f"{name} is not a file"}
        data = b""
        while len(data) <= MOST_BYTES and (part := os.read(file, MOST_BYTES + 1 - len(data))):
            data += part
    finally:
        os.close(file)
    if len(data) > MOST_BYTES:
        return {"error": f"{name} is longer than {MOST_BYTES >> 10} KiB"}
    return {"text": data.decode("utf-8", "replace")}


def _drop(folder: int, *names: str) -> dict[str, Any]:
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
    return {}


def _clear(folder: int) -> dict[str, Any]:
    return {"left": _remove_below(folder, [MOST_NAMES], _DEEPEST)}


def _remove_below(folder: int, budget: list[int], deeper: int) -> int:
    """Remove what is in a folder; return how much is left. `budget`: how many names are tried."""
    with os.scandir(folder) as entries:
        found = list(itertools.islice(entries, budget[0] + 1))
    left = 0
    for entry in found:
        budget[0] -= 1
        if budget[0] < 0:
            return left + 1
        try:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.name, dir_fd=folder)
                continue
            with contextlib.suppress(OSError):  # its owner may have taken his own rights away
                os.chmod(entry.name, 0o700, dir_fd=folder)
            below = os.open(entry.name, _FOLDER, dir_fd=folder)
            try:
                left += _remove_below(below, budget, deeper - 1) if deeper else 1
            finally:
                os.close(below)
            os.rmdir(entry.name, dir_fd=folder)
        except OSError:
            left += 1
    return left


_STEPS: dict[str, Callable[..., dict[str, Any]]] = {
    "keep": _keep,
    "put": _put,
    "read": _read,
    "drop": _drop,
    "clear": _clear,
}


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


if __name__ == "__main__":
    main()
