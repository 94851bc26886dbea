"""The folder whose `.rad` files become jobs, and its refused files."""

from __future__ import annotations

import os
import stat
from itertools import islice

from radrm.host.health.finding import Finding, fail, ok, warn
from radrm.host.storage.paths import Paths
from radrm.host.wall import wall_s
from radrm.host.watched.folders import REASON, REFUSED, SUFFIX, claimed, is_job_file

_NAME = "job files"
_MOST = 10_000
_LONG_S = 60.0
_REASON_BYTES = 500


def job_files(paths: Paths, system: bool, uid: int, now_s: float | None = None) -> Finding:
    """Whether the job files of user `uid` become jobs. `now_s` is the date in seconds."""
    if system and (wrong := _wrong_users_folder(paths.users)) is not None:
        return wrong
    folder = f"{paths.users}/{uid}" if system else paths.spool
    try:
        found = os.lstat(folder)
    except OSError:
        return ok(_NAME, f"{folder} does not exist yet; `radrm spool` makes it, for .rad files")
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != uid:
        whose = f"{folder} belongs to user {found.st_uid} and should be user {uid}'s folder"
        return fail(_NAME, whose, "ask the administrator to move it away, then run: radrm spool")
    refused = f"{folder}/{REFUSED}"
    reasons = [name for name in _names(refused) if name.endswith(SUFFIX + REASON)]
    if reasons:
        last = max(reasons)  # a name begins with a ticket, and tickets sort by time
        words = f"{len(reasons)} refused in {refused}, the last: {last[: -len(REASON)]}: "
        step = f"correct the files and put them into {folder} again; remove those in refused"
        return warn(_NAME, words + _first_line(f"{refused}/{last}"), step)
    now_s = wall_s() if now_s is None else now_s
    waiting = [name for name in _names(folder) if is_job_file(name) or claimed(name)]
    late = [name for name in waiting if _age_s(f"{folder}/{name}", now_s) > _LONG_S]
    if late:
        words = f"{len(late)} in {folder} have waited for more than {_LONG_S:g} s"
        return warn(_NAME, words, "start the daemon, or see its log for the reason")
    return ok(_NAME, f"a .rad file in {folder} becomes a job")


def _wrong_users_folder(users: str) -> Finding | None:
    """The finding if the folder of all users' folders was not made by root; else None."""
    try:
        found = os.lstat(users)
    except OSError:
        return None
    if stat.S_ISDIR(found.st_mode) and found.st_uid == 0 and not found.st_mode & 0o022:
        return None
    words = f"{users} was not made by radrm (user {found.st_uid}); no .rad file becomes a job"
    return fail(_NAME, words, "as root, move it away: the daemon makes its own within a minute")


def _names(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in islice(entries, _MOST)]
    except OSError:
        return []


def _age_s(path: str, now_s: float) -> float:
    try:
        return now_s - os.lstat(path).st_ctime
    except OSError:
        return 0.0


def _first_line(path: str) -> str:
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(path, flags), "rb") as file:
            return file.read(_REASON_BYTES).decode("utf-8", "replace").partition("\n")[0]
    except OSError as error:
        return f"the reason cannot be read: {error.strerror}"
