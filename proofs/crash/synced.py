"""What a power failure leaves of a home: everything up to now, or only what was synced.

Theory of operation. Processes that are watched keep a shadow of the home: at each `fsync` of a file
its content, at each `fsync` of a folder its names. From that, `only_synced` makes the home that the
strictest disk would show: a name that was not synced is not there, or is still there; a file that
was not synced is empty or torn. SQLite syncs its files itself: with `synchronous=FULL` they are
valid at every moment at which no process writes them, so they are copied as they are; but before a
transaction that is not synced the store is kept, until one or `Database.sync` syncs that, too. The
inodes of the folder in memory are never used twice, so they name files and folders for ever.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat

from proofs.crash import KILLED, SHADOW

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from typing import Any

COPIES, TOLD = "copies", "told"
_STORE = "store"
_OWN_SYNC = (_STORE, "checkpoints")
"""Folders of SQLite and of jobs, which sync what they write there by themselves."""
_sync = os.fsync


def keep_shadow(place: str) -> None:
    """Have this process note what it syncs below the folder `place`/home."""
    home = os.path.join(place, "home")
    shadow = os.path.join(place, SHADOW)
    os.makedirs(shadow, exist_ok=True)

    def noted(fd: int) -> None:
        _sync(fd)
        path = os.readlink(f"/proc/self/fd/{fd}")
        if path == home or path.startswith(f"{home}/"):
            _note(shadow, fd, path)

    os.fsync = noted


def keep_store(place: str) -> None:
    """Have this process, a daemon, keep the store as it is synced."""
    from radrm.host.storage.database import Database  # runners cannot import it

    kept = os.path.join(place, SHADOW, _STORE)
    not_synced, sync, execute = Database.not_synced, Database.sync, Database.execute
    commits_synced = True

    @contextlib.contextmanager
    def keeping(self: Database) -> Iterator[None]:
        nonlocal commits_synced
        if not os.path.exists(kept):
            draft = f"{kept}.{os.getpid()}"
            shutil.copytree(os.path.dirname(self.path), draft)
            os.rename(draft, kept)
        commits_synced = False
        try:
            with not_synced(self):
                yield
        finally:
            commits_synced = True

    def synced(self: Database) -> None:
        sync(self)
        shutil.rmtree(kept, ignore_errors=True)

    def executed(self: Database, query: str, arguments: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        found = execute(self, query, arguments)
        if query == "COMMIT" and commits_synced:
            shutil.rmtree(kept, ignore_errors=True)
        return found

    Database.not_synced, Database.sync = keeping, synced
    Database.execute = executed


def _note(shadow: str, fd: int, path: str) -> None:
    found = os.fstat(fd)
    target = os.path.join(shadow, str(found.st_ino))
    draft = f"{target}.{os.getpid()}"
    if stat.S_ISDIR(found.st_mode):
        names = {}
        for name in os.listdir(fd):
            try:
                each = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                continue
            names[name] = each.st_ino, each.st_mode
        with open(draft, "w") as file:
            json.dump(names, file)
    else:
        with open(f"/proc/self/fd/{fd}", "rb") as source, open(draft, "wb") as copy:
            copy.write(source.read())
    os.rename(draft, target)


def copy_all(place: str) -> None:
    """Copy the home to `place`/copies/N: `all` of it, and what is `synced`; and with it what its
    jobs and its clients have noted. No process of the home may write now."""
    copies = os.path.join(place, COPIES)
    os.makedirs(copies, exist_ok=True)
    number = len(os.listdir(copies))
    target = os.path.join(copies, f".{number}")
    os.mkdir(target)
    for name in (TOLD, KILLED):
        if os.path.exists(os.path.join(place, name)):
            shutil.copy(os.path.join(place, name), target)
    _copy_home(os.path.join(place, "home"), target, torn=(0, 1, 100)[number % 3])
    shutil.copytree(os.path.join(place, "work"), f"{target}/work", symlinks=True)
    os.rename(target, os.path.join(copies, str(number)))


def _copy_home(home: str, target: str, torn: int) -> None:
    """Of a file that was never synced its first `torn` bytes are left."""
    shutil.copytree(home, f"{target}/all", symlinks=True, ignore=_not_kept)
    inode = os.stat(home).st_ino
    os.mkdir(f"{target}/synced", 0o700)
    shadow = os.path.join(os.path.dirname(home), SHADOW)
    _restore(shadow, inode, f"{target}/synced", f"{target}/all", torn)


def _not_kept(folder: str, names: list[str]) -> list[str]:
    """What a power failure does not leave: the folder `run`, and sockets."""
    sockets = [n for n in names if stat.S_ISSOCK(os.lstat(os.path.join(folder, n)).st_mode)]
    return sockets + (["run"] if "run" in names and os.path.basename(folder) == "home" else [])


def _restore(shadow: str, inode: int, target: str, whole: str, torn: int) -> None:
    """Make the folder `target` as the folder `inode` was when it was synced last."""
    try:
        with open(os.path.join(shadow, str(inode))) as file:
            names = json.load(file)
    except FileNotFoundError:
        return  # its names were never synced
    for name, (child, mode) in names.items():
        path = os.path.join(target, name)
        if name == "run":
            continue
        if name in _OWN_SYNC:
            kept = os.path.join(shadow, name)
            its = kept if os.path.exists(kept) else os.path.join(whole, name)
            shutil.copytree(its, path, symlinks=True)
            continue
        if stat.S_ISDIR(mode):
            os.mkdir(path, stat.S_IMODE(mode))
            _restore(shadow, child, path, os.path.join(whole, name), torn)
        elif stat.S_ISREG(mode):
            _write(path, _content(shadow, child, os.path.join(whole, name), torn), mode)


def _content(shadow: str, inode: int, whole: str, torn: int) -> bytes:
    try:
        with open(os.path.join(shadow, str(inode)), "rb") as file:
            return file.read()
    except FileNotFoundError:
        pass
    try:
        with open(whole, "rb") as file:
            return file.read(torn)
    except OSError:
        return b""


def _write(path: str, data: bytes, mode: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IMODE(mode))
    try:
        os.write(fd, data)
        os.fchmod(fd, stat.S_IMODE(mode))
    finally:
        os.close(fd)
