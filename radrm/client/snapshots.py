"""`radrm submit --snapshot`: copies of the code with which jobs run. All of it runs as the user.

`radrm submit` copies what git lists (without git all but `.git`) into `snapshots/TICKET/files`,
syncs it with a note beside it, and then submits. So an acknowledged job finds its code after a
power failure. A copy stays while its jobs wait or run, and the newest `KEPT` after that.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import shutil
import stat
import subprocess

from radrm.client.text import FINAL, warn
from radrm.errors import BadFile, RadrmError, Refused
from radrm.host.storage.files import write_durably
from radrm.host.storage.paths import own_state
from radrm.host.storage.spool import has_envelope
from radrm.host.storage.tickets import new_ticket
from radrm.jobfile.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from radrm.client.connection import Client
    from radrm.host.storage.paths import Paths
    from radrm.jobfile.radfile import JobFile

KEPT, MOST_FILES, MOST_MIB = 10, 20_000, 512
_ASKED = 200
"""Copies about whose jobs one submission asks, the oldest first."""
_MOST_LISTED = 5 * MOST_FILES
"""With logs and what is no file. A folder with more is not looked through to its end."""
_MOST_OF_GIT = 64 << 20
_GIT = ("-c", "core.fsmonitor=false", "ls-files", "-z", "--cached", "--others")
_LOG = re.compile(r"(.*/)?radrm-\d+(_\d+)?(\.attempt\d+)?\.(out|err)", re.DOTALL)
_STEP = "list what is no code in .gitignore, or name a smaller folder: --snapshot=DIR"


class Copy(Record):
    """A copy that is to be made of the folder `source`, for the jobs of one `radrm submit`."""

    source: str
    folder: str
    files: tuple[str, ...]

    def run_folder(self, job_file: JobFile) -> str:
        """Where a job runs: at the place of its folder in the copy, or at the top of the copy."""
        below = os.path.relpath(os.path.realpath(job_file.options.chdir or ""), self.source)
        outside = below.split(os.sep)[0] == os.pardir
        return os.path.normpath(os.path.join(self.folder, "files", "" if outside else below))


class Copies:
    """The copies of one `radrm submit`: jobs with the same folder share one."""

    def __init__(self, paths: Paths) -> None:
        self._place = os.path.join(own_state(paths, os.environ), "snapshots")
        self._spool = paths.spool
        self._copies: dict[str, Copy] = {}

    def of(self, job_file: JobFile) -> Copy:
        """The copy for a job. Nothing is copied yet. Raises `BadFile`."""
        source = os.path.realpath(job_file.options.snapshot or "")
        if source not in self._copies:
            folder = os.path.join(self._place, new_ticket())
            self._copies[source] = Copy(source, folder, files_of(source))
        return self._copies[source]

    def make(self, results: list[dict[str, Any]]) -> None:
        """Make the copies of the jobs that are about to be submitted. Raises `BadFile`."""
        for copy in self._copies.values():
            tickets = [r["envelope"].ticket for r in results if r.get("copy") is copy]
            if tickets:
                self._make(copy, {"source": copy.source, "spool": self._spool, "tickets": tickets})

    def _make(self, copy: Copy, note: dict[str, Any]) -> None:
        try:
            os.makedirs(self._place, 0o700, exist_ok=True)
            os.makedirs(f"{copy.folder}/files", 0o700)
            for path in copy.files:
                with contextlib.suppress(FileNotFoundError):  # it is gone since it was listed
                    _copy(copy.source, path, f"{copy.folder}/files/{path}")
            subprocess.run(["sync", "-f", copy.folder], check=True)  # waits for no other disk
            document = json.dumps({**note, "files": copy.files})
            write_durably(f"{copy.folder}/note.json", document.encode("ascii"))
        except BaseException as error:
            shutil.rmtree(copy.folder, ignore_errors=True)
            if not isinstance(error, (OSError, subprocess.CalledProcessError)):
                raise
            why = f"cannot copy {copy.source} to {copy.folder}: {error}; nothing was submitted"
            raise BadFile(f"--snapshot: {why}") from None

    def sweep(self, client: Client) -> None:
        """Remove the copies that nobody needs any more. What jobs wrote into them stays."""
        ended = []
        for path in sorted(glob.glob(f"{glob.escape(self._place)}/*/note.json"))[:_ASKED]:
            # The user may have changed a note.
            with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
                with open(path, "rb") as file:
                    note = json.load(file)
                mine = note["spool"] == self._spool
                if mine and not any(_is_live(client, self._spool, t) for t in note["tickets"]):
                    ended.append((os.path.dirname(path), note))
        for folder, note in ended[: max(0, len(ended) - KEPT)]:
            if not remove(folder, note["files"]):
                gone = f"the old snapshot of {note['source']} is removed"
                warn(f"note: {gone}; what its jobs wrote stays in {folder}/files")


def _is_live(client: Client, spool: str, ticket: str) -> bool:
    """Whether a job may still run by itself."""
    try:
        counts = client.ask("page", jobs=[ticket], offset=0, limit=1)["counts"]
    except Refused:  # the daemon knows none: not yet, or not any more
        return has_envelope(spool, ticket)
    except RadrmError:
        return True
    return any(count for state, count in counts.items() if state not in FINAL)


def files_of(folder: str) -> tuple[str, ...]:
    """The paths of the files and links to copy, sorted. Raises `BadFile` for none, and for too many
    or too large ones."""
    found: dict[str, int] = {}
    for place, path in enumerate(_listed(folder)):
        if place >= _MOST_LISTED:
            raise BadFile(f"--snapshot: {folder} has too many files to look at; {_STEP}")
        with contextlib.suppress(OSError):  # git also lists files that were removed
            seen = os.lstat(os.path.join(folder, path))
            is_file = stat.S_ISREG(seen.st_mode) or stat.S_ISLNK(seen.st_mode)
            if is_file and not _LOG.fullmatch(path):
                found[path] = seen.st_size
        if len(found) > MOST_FILES:
            raise BadFile(f"--snapshot: {folder} has more than {MOST_FILES} files; {_STEP}")
    if (size := sum(found.values()) >> 20) > MOST_MIB:
        raise BadFile(f"--snapshot: {folder} has {size} MiB, and the most is {MOST_MIB}; {_STEP}")
    if not found:
        raise BadFile(f"--snapshot: {folder} has no files to copy; name another folder")
    return tuple(sorted(found))


def _listed(folder: str) -> Iterator[str]:
    """The files that git does not ignore; without git, and of a repository within, all."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    command = ["git", "-C", folder, *_GIT, "--exclude-standard"]
    data, code = b"", -1
    with contextlib.suppress(FileNotFoundError):  # no git here
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as git:
            assert git.stdout is not None
            data = git.stdout.read(_MOST_OF_GIT + 1)
            if len(data) > _MOST_OF_GIT:
                git.kill()
                raise BadFile(f"--snapshot: git lists too many files in {folder}; {_STEP}")
        code = git.returncode
    if code != 0:
        yield from _walk(folder, "")
        return
    for name in map(os.fsdecode, filter(None, data.split(b"\0"))):
        path = os.path.join(folder, name)
        inner = os.path.isdir(path) and not os.path.islink(path)
        yield from _walk(folder, name.rstrip("/")) if inner else (name,)


def _walk(folder: str, below: str) -> Iterator[str]:
    for top, folders, files in os.walk(os.path.normpath(os.path.join(folder, below))):
        links = [name for name in folders if os.path.islink(os.path.join(top, name))]
        folders[:] = [name for name in folders if name != ".git"]
        yield from (os.path.relpath(os.path.join(top, name), folder) for name in (*links, *files))


def _copy(source: str, path: str, copy: str) -> None:
    """Copy a file with its mode and times. A link out of the folder leads where it has led."""
    os.makedirs(os.path.dirname(copy), 0o700, exist_ok=True)
    original = os.path.join(source, path)
    leads = os.readlink(original) if os.path.islink(original) else "/"
    at = os.path.normpath(os.path.join(os.path.dirname(path), leads))
    if at.split(os.sep)[0] == os.pardir:
        os.symlink(os.path.normpath(os.path.join(source, at)), copy)
    else:
        shutil.copy2(original, copy, follow_symlinks=False)


def remove(folder: str, copied: list[str]) -> bool:
    """Remove what nobody has touched since the copy was made. Returns whether nothing is left.

    The time of a change of a file's record (ctime) is nobody's to set. No link is followed.
    """
    top = f"{folder}/files"
    with contextlib.suppress(OSError):  # another `radrm submit` may remove it, too
        made_ns, known = os.lstat(f"{folder}/note.json").st_ctime_ns, frozenset(copied)
        for above, folders, files, handle in os.fwalk(top, topdown=False):
            cache = os.path.basename(above) == "__pycache__"
            for each in (*folders, *files):
                path = os.path.relpath(os.path.join(above, each), top)
                with contextlib.suppress(OSError):
                    found = os.stat(each, dir_fd=handle, follow_symlinks=False)
                    untouched = path in known and found.st_ctime_ns <= made_ns
                    if stat.S_ISDIR(found.st_mode):
                        os.rmdir(each, dir_fd=handle)
                    elif untouched or (cache and each.endswith(".pyc")):
                        os.unlink(each, dir_fd=handle)
        os.unlink(f"{folder}/note.json")
        os.rmdir(top)
        os.rmdir(folder)
    return not os.path.lexists(folder)
