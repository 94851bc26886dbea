"""The files that a traced program sees: it reads what its user can read, and writes to memory.

Theory of operation:

- A mount namespace of its own. At first all that is mounted is made private and read-only; then
  what a program writes to is covered:
    - *places*: the folders of the root folder that hold users' files, other file systems, and the
      folders of the job, are each the lower layer of an overlay. Its upper layer is in memory.
    - `/tmp`, `/var/tmp`, `/dev/shm`, `/run` are new and empty, but for the folders of the job and
      of its programs that lie there. `/dev` has no devices but the harmless ones, and `/proc`
      shows this trace's processes alone.
- All memory of files is one file system of limited size, but for the small one of the documents.
- **Rights.** The process that mounts has already become the user: it holds the right to mount, and
  for the rest reads paths, links and folders as the user does. A root daemon's has that right on
  the machine, another's in a user namespace. All it does is seen in this mount namespace only.
- An overlay keeps the kernel's rules: what the user cannot read stays unreadable. Its own process
  (with more rights, to copy a file's owner) looks only after the program's rights are checked.
- **In a user namespace** the kernel does not let us cover a folder in which something else is
  mounted, and copies no file of another owner or group. So there the folders in it are the
  places, and those on the way to the job's folders that have another owner.
- The libraries of the job's Pythons get a file each (`pythons.py`).
- A place that cannot be covered stays read-only, and `made` says so.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat

from radrm.host.estimation import kernel, pythons
from radrm.host.estimation.kernel import BIND, NO_DEV, NO_EXEC, NO_SUID, READ_ONLY
from radrm.host.processes.procfs import mounts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from radrm.host.attempts.folder import Fields

FOLDER = "/run/radrm-trace"
"""Where traced programs write their documents, and where the job's script lies."""
FOLDER_BYTES = 192 << 20
_MOST_FILES = 200_000
_MEMORY = "/run"
"""Where the memory lies while the sandbox is made. In the end the new `/run` hides it."""
_FRESH = ("/dev/shm", "/var/tmp", "/tmp")
_OF_THE_SYSTEM = frozenset((
    "bin", "boot", "dev", "efi", "etc", "gnu", "lib", "lib32", "lib64", "libx32", "lost+found",
    "nix", "proc", "run", "sbin", "snap", "sys", "tmp", "usr", "var",
))  # fmt: skip
"""Folders of the root folder that are no places: no user's files, or not of a disk."""
_NO_FILES = frozenset((
    "autofs", "bdev", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "cpuset", "debugfs",
    "devpts", "devtmpfs", "efivarfs", "fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore",
    "ramfs", "rpc_pipefs", "securityfs", "selinuxfs", "squashfs", "sysfs", "tracefs",
))  # fmt: skip
"""File systems without files of users."""
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
_NAMES_PATHS = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX")
_ACCESS_LIST = "system.posix_acl_access"
_MOST_PLACES = 64
_MOST_WANTED = 256
_MOST_CHILDREN = 200
_MOST_TEXT = 1 << 20
_IN_FRESH = re.compile(r"/(?:tmp|var/tmp|dev/shm)/[^\s'\"`;:,()<>|&]+")
_LOW = 1 << kernel.SYS_ADMIN
_OF_OVERLAYS = sum(
    1 << each
    for each in (
        kernel.SYS_ADMIN,
        kernel.CHOWN,
        kernel.DAC_OVERRIDE,
        kernel.FOWNER,
        kernel.FSETID,
    )
)
OF_ROOT = sum(
    1 << each
    for each in (
        kernel.CHOWN,
        kernel.DAC_OVERRIDE,
        kernel.DAC_READ_SEARCH,
        kernel.FOWNER,
        kernel.FSETID,
        kernel.KILL,
        kernel.SETGID,
        kernel.SETUID,
    )
)
"""What root's programs expect to be able to do with files and with their own processes."""


class Refused(Exception):
    """One line: what the kernel refuses."""


def made(launch: Fields, user_namespace: bool, most_bytes: int) -> list[str]:
    """Make the sandbox for this process, and say of which places what is written fails.

    Raises `Refused`. It needs the right to mount in a mount namespace of its own.
    """
    low = None if os.getuid() == 0 else _LOW
    kernel.set_effective(low)
    box = _Sandbox(launch, user_namespace, most_bytes, low)
    flags = READ_ONLY | NO_SUID | NO_DEV | NO_EXEC
    steps = (
        ("take the devices that harm nobody", box.take_devices),
        ("make all read-only (that needs Linux 5.12)", kernel.make_read_only),
        ("look at the files of the job", box.look),
        ("mount file systems in memory", box.mount_memory),
        ("make /tmp and /dev anew", box.cover_fresh),
        ("cover the files with overlays", box.cover_places),
        ("make /run anew", box.cover_memory),
        ("mount /proc", lambda: kernel.mount("proc", "/proc", "proc", flags)),
    )
    for name, take in steps:
        try:
            take()
        except OSError as error:
            raise Refused(f"the kernel does not let it {name}: {error.strerror}") from None
    os.chdir("/")
    return box.failed


class _Sandbox:
    """What is to be covered, and the descriptors of what lies below."""

    def __init__(
        self, launch: Fields, user_namespace: bool, most_bytes: int, low: int | None
    ) -> None:
        self._user_namespace = user_namespace
        self._most_bytes = most_bytes
        self._low = low
        self._launch = launch
        self._written, self._read = paths_of(launch)
        self._libraries: dict[str, tuple[int, bytes]] = {}
        self._overlays = 0
        # On the machine a folder can be renamed, too; that is a right of root.
        self._more = ",userxattr" if user_namespace else ",redirect_dir=on"
        self._mounts: list[tuple[str, str]] = []
        self._places: list[tuple[str, int]] = []
        self._kept: dict[str, tuple[str, int | str]] = {}
        self._devices: dict[str, int] = {}
        self.failed: list[str] = []

    def take_devices(self) -> None:
        """Copy the devices that harm nobody, while they can be opened."""
        for name in _DEVICES:
            with contextlib.suppress(OSError):
                self._devices[name] = kernel.device(f"/dev/{name}")

    def look(self) -> None:
        """Find what is to be covered, before anything is."""
        self._mounts = [(_plain(place), kind) for _, place, kind, _ in mounts_of()]
        for path in (*self._written, *self._read):
            self._keep(path)
        for path in self._places_of(self._tops()):
            with contextlib.suppress(OSError):
                self._places.append((path, _folder(path)))
        for path in () if self._launch["factory"] else pythons.libraries(self._launch):
            with contextlib.suppress(OSError):
                self._libraries[path] = _folder(path), pythons.hook(path)

    # -------------------------------------------------------------- what is covered

    def _tops(self) -> Iterator[str]:
        """The folders under which what is written goes to memory, those of the job first."""
        for path in self._written:
            real = os.path.realpath(path)
            if not _is_fresh(real):
                yield from self._own(real)
        kept = [path for path, (kind, _) in self._kept.items() if kind == "folder"]
        kept = [path for path in kept if not _is_in(path, _MEMORY)]
        yield from kept
        with os.scandir("/") as entries:
            for each in entries:
                if each.name not in _OF_THE_SYSTEM and each.is_dir(follow_symlinks=False):
                    yield f"/{each.name}"
        for place, kind in self._mounts:
            inside = not _of_the_system(place) or any(_is_in(place, path) for path in kept)
            if kind not in _NO_FILES and inside:
                yield place

    def _own(self, path: str) -> Iterator[str]:
        """The topmost folder on the way to `path` that is the user's. In a user namespace also
        those that are not: what is below them could not be copied."""
        uid, gid = os.getuid(), os.getgid()
        folders = [each for each in _on_the_way(path) if os.path.isdir(each)]
        if not uid and folders and _of_the_system(path):
            yield folders[-1]  # root has all of `/usr`, and writes to little of it
        own = False
        for folder in folders[1:]:
            with contextlib.suppress(OSError):
                known = os.stat(folder)
                foreign = self._user_namespace and (known.st_uid, known.st_gid) != (uid, gid)
                top = known.st_uid == uid and not own
                own = own or top
                if top or (foreign and not _of_the_system(folder)):
                    yield folder

    def _places_of(self, tops: Iterable[str]) -> list[str]:
        found: dict[str, None] = {}
        for top in dict.fromkeys(tops):
            if top != "/" and os.path.isdir(top):
                self._divide(top, found)
        return sorted(found, key=lambda path: (path.count("/"), path))

    def _divide(self, path: str, found: dict[str, None]) -> None:
        """Add a folder, or where the kernel would not let us cover it, those in it."""
        if len(found) >= _MOST_PLACES or path in found:
            return
        if not (self._user_namespace and self._inner(path)):
            found[path] = None
            return
        with contextlib.suppress(OSError), os.scandir(path) as entries:
            for each, _ in zip(entries, range(_MOST_CHILDREN), strict=False):
                if each.is_dir(follow_symlinks=False) and not self._without_files(each.path):
                    self._divide(each.path, found)

    def _inner(self, path: str) -> list[str]:
        """The topmost mounts below a folder."""
        inner = {place for place, _ in self._mounts if place.startswith(f"{path}/")}
        return [each for each in sorted(inner) if not inner.intersection(_on_the_way(each)[:-1])]

    def _without_files(self, path: str) -> bool:
        return any(place == path and kind in _NO_FILES for place, kind in self._mounts)

    # -------------------------------------------------------------- /tmp and its like

    def _keep(self, path: str) -> None:
        """Note what of a fresh folder is needed to reach `path`."""
        for each in {os.path.normpath(path), os.path.realpath(path)}:
            fresh = next((f for f in (*_FRESH, _MEMORY) if _is_in(each, f)), None)
            if fresh is None or os.path.realpath(fresh) != fresh:
                continue
            names = each[len(fresh) :].strip("/").split("/")
            kept = each if fresh == _MEMORY or names == [""] else f"{fresh}/{names[0]}"
            if kept in self._kept:
                continue
            with contextlib.suppress(OSError):
                self._kept[kept] = self._kind_of(kept)
                if self._kept[kept][0] == "link":
                    self._keep(os.path.realpath(kept))

    def _kind_of(self, path: str) -> tuple[str, int | str]:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            return "link", os.readlink(path)
        if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            raise OSError
        return "folder" if stat.S_ISDIR(mode) else "file", kernel.copy_of(path, True)

    # -------------------------------------------------------------- mounting

    def mount_memory(self) -> None:
        """Mount the memory in which all writing ends."""
        self._memory(_MEMORY, self._most_bytes)
        for folder in ("overlays", "fresh", "new"):
            os.mkdir(f"{_MEMORY}/{folder}", 0o755)

    def _memory(self, target: str, size: int) -> None:
        options = f"size={size >> 10}k,nr_inodes={_MOST_FILES},mode=755"
        kernel.mount("tmpfs", target, "tmpfs", NO_SUID | NO_DEV, options)

    def cover_places(self) -> None:
        """Cover the places, those above first, and then the libraries of Pythons."""
        for path, lower in self._places:
            self._cover(path, lower)
        for path, (lower, text) in self._libraries.items():
            with contextlib.suppress(OSError):  # then PYTHONPATH has to suffice
                self._overlay(lower, path, text)

    def _cover(self, path: str, lower: int) -> None:
        """Cover a place, and put what is mounted in it back into it."""
        inner = {each: kernel.copy_of(each, True) for each in self._covered_with(path)}
        try:
            self._overlay(lower, path)
        except OSError as error:
            self.failed.append(f"{path} ({error.strerror})")
            return
        finally:
            os.close(lower)
        for each, copy in inner.items():
            with contextlib.suppress(OSError):  # its folder may be gone meanwhile
                kernel.attach(copy, each)
            os.close(copy)

    def _covered_with(self, path: str) -> Sequence[str]:
        """What an overlay of `path` would hide. `copy_of` fails for what the user cannot reach."""
        found = []
        for each in self._inner(path):
            with contextlib.suppress(OSError):
                os.stat(each)
                found.append(each)
        return found

    def _overlay(self, lower: int, target: str, hook: bytes | None = None) -> None:
        """Cover `target` with an overlay above the folder `lower`. `hook`: the text of the one file
        that is not as it is there."""
        self._overlays += 1
        layers = f"{_MEMORY}/overlays/{self._overlays}"
        for folder in (layers, f"{layers}/upper", f"{layers}/work"):
            os.mkdir(folder, 0o700)
        if hook is not None:
            write_file(f"{layers}/upper/{pythons.HOOK}", hook, 0o644)
        below = f"/proc/self/fd/{lower}"
        options = f"lowerdir={below},upperdir={layers}/upper,workdir={layers}/work"
        try:
            if self._low is not None and self._copied(below, f"{layers}/upper"):
                kernel.set_effective(_OF_OVERLAYS)
            kernel.mount("overlay", target, "overlay", NO_SUID | NO_DEV, options + self._more)
        finally:
            kernel.set_effective(self._low)

    def _copied(self, below: str, upper: str) -> bool:
        """Give the upper folder the owner, mode and access list of the one below: the overlay
        judges by the upper's. True if that worked; else the overlay may do only what the user may,
        which in a user namespace it can in any case."""
        kernel.set_effective(_OF_OVERLAYS)
        known = os.stat(below)
        try:
            os.chmod(upper, stat.S_IMODE(known.st_mode))
            os.chown(upper, known.st_uid, known.st_gid)
            if _ACCESS_LIST in os.listxattr(below):
                os.setxattr(upper, _ACCESS_LIST, os.getxattr(below, _ACCESS_LIST))
        except OSError:
            return self._user_namespace
        finally:
            kernel.set_effective(self._low)
        return True

    def cover_fresh(self) -> None:
        """Put new folders in place of `/dev` and those for temporary files; cover `/var`."""
        self._cover_dev()
        # Even where it may not write, a program could open a pipe that has a name. Under an overlay
        # that is another pipe.
        if not (self._user_namespace and self._inner("/var")):
            with contextlib.suppress(OSError):
                self._cover("/var", _folder("/var"))
        for fresh in _FRESH:
            if os.path.realpath(fresh) == fresh and os.path.isdir(fresh):
                self._cover_one(fresh, 0o1777)

    def cover_memory(self) -> None:
        """Hide the memory behind a new `/run`, with the folder of the documents."""
        self._cover_one(_MEMORY, 0o755)
        os.mkdir(FOLDER, 0o700)
        self._memory(FOLDER, FOLDER_BYTES)

    def _cover_one(self, fresh: str, mode: int) -> None:
        new = f"{_MEMORY}/fresh/{fresh.strip('/').replace('/', '-')}"
        os.mkdir(new)
        os.chmod(new, mode)
        kept = {path: what for path, what in self._kept.items() if _is_in(path, fresh)}
        for path, what in sorted(kept.items()):
            with contextlib.suppress(OSError):
                self._put(new + path[len(fresh) :], *what)
        kernel.mount(new, fresh, None, BIND | kernel.RECURSIVE)

    def _put(self, at: str, kind: str, what: int | str) -> None:
        """Let a file, folder or link of the job be seen in a new folder, read-only."""
        os.makedirs(os.path.dirname(at), exist_ok=True)
        if isinstance(what, str):
            os.symlink(what, at)
            return
        if kind == "folder":
            os.makedirs(at, exist_ok=True)
        else:
            os.close(os.open(at, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        kernel.attach(what, at)
        os.close(what)

    def _cover_dev(self) -> None:
        new = f"{_MEMORY}/new/dev"
        os.mkdir(new, 0o755)
        for name, copy in self._devices.items():
            os.close(os.open(f"{new}/{name}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            kernel.attach(copy, f"{new}/{name}")
            os.close(copy)
        for name, target in _LINKS.items():
            os.symlink(target, f"{new}/{name}")
        for name, mode in (("pts", 0o755), ("shm", 0o1777)):
            os.mkdir(f"{new}/{name}")
            os.chmod(f"{new}/{name}", mode)
        options = "newinstance,ptmxmode=0666,mode=0620"
        kernel.mount("devpts", f"{new}/pts", "devpts", NO_SUID | NO_EXEC, options)
        kernel.mount(new, "/dev", None, BIND | kernel.RECURSIVE)


# ------------------------------------------------------------------ the paths of a job


def paths_of(launch: Fields) -> tuple[list[str], list[str]]:
    """The absolute paths that a job names: those to which it may write, and all others."""
    environment, script = launch["environment"], (launch["script"] or "")[:_MOST_TEXT]
    words = [word[:_MOST_TEXT] for word in (launch["argv"] or ())[:_MOST_WANTED]]
    programs = [*(launch["interpreter"] or ()), *launch["reads"]]
    if launch["script"] is None:
        programs, words = [*programs, *words[:1]], words[1:]
    written = [launch["cwd"], environment.get("HOME", ""), environment.get("TMPDIR", "")]
    written += [part for word in words for part in (word, word.partition("=")[2])]
    read = [*programs, *(p for name in _NAMES_PATHS for p in environment.get(name, "").split(":"))]
    read += [path for text in (script, *words) for path in _IN_FRESH.findall(text)]
    return _absolute(written), _absolute(read)


def _absolute(paths: Iterable[str]) -> list[str]:
    found = [os.path.normpath(p) for p in paths if p.startswith("/") and "\0" not in p]
    return list(dict.fromkeys(found))[:_MOST_WANTED]


def _folder(path: str) -> int:
    """A descriptor of a folder, no link, that the user may enter."""
    folder = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    if os.access(f"/proc/self/fd/{folder}", os.X_OK):
        return folder
    os.close(folder)
    raise PermissionError


def write_file(path: str, data: bytes, mode: int) -> None:
    """Write a new file, whole. Raises `OSError`."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]
    finally:
        os.close(fd)


def _on_the_way(path: str) -> list[str]:
    """The folders above `path`, the topmost first, and `path`."""
    names = path.strip("/").split("/")
    return ["/" + "/".join(names[: n + 1]) for n in range(len(names))]


def _of_the_system(path: str) -> bool:
    return path == "/" or path.split("/")[1] in _OF_THE_SYSTEM


def _is_fresh(path: str) -> bool:
    return any(_is_in(path, fresh) for fresh in (*_FRESH, _MEMORY))


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _plain(place: str) -> str:
    """A path as mountinfo has it, without its escapes."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), place)
