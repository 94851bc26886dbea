"""Use the names in a folder, but no file system that is mounted over one of them.

Theory of operation. A user can mount a file system (FUSE) over each file and folder of their own,
also in a folder of radrm. Such a file system can deny access even to root, and can block a reader
for ever. So a name is opened with `O_PATH` first, which sends no request to the file system, and
`/proc/self/fdinfo` tells the mount of the descriptor. A name on another mount than its folder is
not used. All others are used through the descriptor, because a mount can follow at any time.
"""

from __future__ import annotations

import errno
import os
import stat

_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_OF_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_MOST_INFO = 4096


class OpenFolder:
    """An open folder. Its methods raise `OSError`, with EXDEV for a name that has a mount over it.

    The folder itself may be a mount. With `links`, `path` may be a symbolic link to it.
    """

    def __init__(self, path: str, links: bool = False) -> None:
        self._begin(os.open(path, _OF_FOLDER | (0 if links else os.O_NOFOLLOW)))

    def _begin(self, fd: int) -> None:
        self.fd = fd
        try:
            self._mount = _mount_of(fd)
        except OSError:
            os.close(fd)
            raise

    @property
    def path(self) -> str:
        """A path to the open folder. Names below this path are not checked for mounts."""
        return f"/proc/self/fd/{self.fd}"

    def below(self, name: str) -> OpenFolder:
        found = object.__new__(OpenFolder)
        found._begin(self.open(name, _OF_FOLDER))
        return found

    def stat(self, name: str) -> os.stat_result:
        """What this name is; of a link, the link itself."""
        looked = self._look(name)
        try:
            return os.fstat(looked)
        finally:
            os.close(looked)

    def open(self, name: str, flags: int) -> int:
        """A descriptor of what has this name. No link is followed."""
        looked = self._look(name)
        try:
            return _open_again(looked, flags)
        finally:
            os.close(looked)

    def open_file(self, name: str) -> tuple[int, os.stat_result] | None:
        """A descriptor of a regular file with one name, and what it is; None for anything else."""
        try:
            looked = self._look(name)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EXDEV):
                return None
            raise
        try:
            if not is_single_file(os.fstat(looked)):
                return None  # to open a device may do something
            handle = _open_again(looked, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        finally:
            os.close(looked)
        return handle, os.fstat(handle)

    def _look(self, name: str) -> int:
        looked = os.open(name, _LOOK, dir_fd=self.fd)
        try:
            if _mount_of(looked) != self._mount:
                raise OSError(errno.EXDEV, "a file system is mounted there", name)
        except OSError:
            os.close(looked)
            raise
        return looked

    def close(self) -> None:
        os.close(self.fd)

    def __enter__(self) -> OpenFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_single_file(found: os.stat_result) -> bool:
    """True for a regular file with one name. With a second name it may be another user's."""
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1


def _open_again(looked: int, flags: int) -> int:
    # This link of /proc is to be followed. One that was looked at is not: ELOOP.
    return os.open(f"/proc/self/fd/{looked}", flags & ~os.O_NOFOLLOW)


def _mount_of(fd: int) -> bytes:
    """The number of the mount that a descriptor is on (proc(5))."""
    info = os.open(f"/proc/self/fdinfo/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = os.read(info, _MOST_INFO)
    finally:
        os.close(info)
    number = text.partition(b"mnt_id:")[2].partition(b"\n")[0].strip()
    if not number:
        raise OSError(errno.ENOSYS, "the kernel does not tell the mount of a descriptor")
    return number
