"""Read what `radrun` says about the tasks of an attempt, as the job's user.

The runner does this at the attempt's end, and its exit record keeps it (`tasks`): the folder is
removed then. The main process decides how the attempt has ended; the tasks tell more about it.
"""

from __future__ import annotations

import os
import stat

from radrm.host.attempts.elastic import names
from radrm.host.attempts.tails import Look
from radrm.host.storage.files import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.host.attempts.folder import Fields

_CODES, _SIGNALS = range(256), range(1, 65)


def looks_at_exits(launch: Fields) -> list[Look]:
    """`tasks`: role, number, exit code, signal and host OOM of each task. None: nothing usable."""
    path = launch["environment"].get(names.FOLDER_VARIABLE)
    if not path:
        return []
    most = names.MOST_BYTES + 1
    return [Look(lambda out: _send(path, out), most, lambda data: {"tasks": parse(data or b"")})]


def parse(data: bytes) -> list[list[object]] | None:
    """Return the tasks in a `tasks.json`; None if any of it is not as it must be."""
    fields = names.decode(data)
    if isinstance(fields, str):
        return None
    tasks = fields.get("tasks")
    if not isinstance(tasks, list) or len(tasks) > names.MOST_TASKS:
        return None
    return None if not all(map(_is_sound, tasks)) else [[t[key] for key in _KEYS] for t in tasks]


_KEYS = ("role", "task", "code", "signal", "host_oom")


def _is_sound(task: object) -> bool:
    if not isinstance(task, dict) or not names.is_task(task.get("role"), task.get("task")):
        return False
    code, signal = task.get("code"), task.get("signal")
    return (
        (code is None or (type(code) is int and code in _CODES))
        and (signal is None or (type(signal) is int and signal in _SIGNALS))
        and {"code", "signal"} <= task.keys()
        and isinstance(task.get("host_oom"), bool)
    )


def _send(path: str, target: int) -> None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    name = os.path.join(path, names.TASKS)
    file = os.open(name.encode("utf-8", "surrogateescape"), flags)
    try:
        found = os.fstat(file)
        if stat.S_ISREG(found.st_mode) and found.st_size <= names.MOST_BYTES:
            while data := os.read(file, 1 << 16):
                write_all(target, data)
    finally:
        os.close(file)
