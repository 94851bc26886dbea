"""Reads of /proc, each with a bound: any process can make its own files there very long.

An environment can be gigabytes long (`prctl(PR_SET_MM_MAP)`), a list of groups or of open
files a megabyte. Whatever is read of another process is read here. The runner imports this
before it starts a job, so the file keeps to what Python has loaded anyway.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

TOKEN_VARIABLE = "RADRM_TOKEN"
"""Marks in their environment all processes of one attempt."""

MOST_READ = 1 << 20
"""Bytes of one file. The longest honest one is `status` of a process in 65,536 groups."""
LONGEST_ENVIRON = 6 << 20
"""Bytes of an environment that are looked at: a program is never started with more, its
arguments included (execve(2)). What is longer was made so later, by the process itself."""
MOST_MOUNTS = 16 << 20
"""Bytes of a list of mounts: users may mount, too."""
_CHUNK = 1 << 16
_LONGEST_TOKEN = 256


def start_of(path: str, most: int = MOST_READ) -> bytes:
    """The first bytes of a file of /proc; none when the process is gone or hidden from us."""
    return _search(path, most, None)


def token_of(pid: int, proc: str = "/proc", most: int = LONGEST_ENVIRON) -> str | None:
    """The token in a process's environment; None where it has none or we may not look.

    `most`: so many bytes of the environment are looked at.
    """
    mark = b"\0" + TOKEN_VARIABLE.encode() + b"="
    found = _search(f"{proc}/{pid}/environ", most, mark)
    return found.partition(b"\0")[0].decode("ascii", "replace") if found else None


def _search(path: str, most: int, mark: bytes | None) -> bytes:
    """Without a `mark` the first `most` bytes; else what follows it, as far as a token goes."""
    parts: list[bytes] = []
    kept = b"\0"  # the end of what was read so far, where a mark may have begun
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        while most > 0 and (part := os.read(fd, min(most, _CHUNK))):
            most -= len(part)
            if mark is None:
                parts.append(part)
                continue
            kept += part
            at = kept.find(mark)
            if at >= 0:
                found = kept[at + len(mark) :]
                if b"\0" not in found and most > 0:
                    found += os.read(fd, min(most, _LONGEST_TOKEN))
                return found[:_LONGEST_TOKEN]
            kept = kept[1 - len(mark) :]
    except OSError:
        pass  # it has ended: what it was does not matter any more
    finally:
        os.close(fd)
    return b"".join(parts)


class Stat:
    """What the kernel says about a process.

    `environ`: the beginning and end of its environment in memory, both 0 for none and where
    we may not look, None where the kernel does not tell. It changes with each `execve`.
    `marked`: the process carries the token looked for.
    """

    __slots__ = (
        "dead",
        "environ",
        "group",
        "marked",
        "parent",
        "session",
        "start_ticks",
        "threads",
    )

    def __init__(self, text: bytes) -> None:
        # The command's name stands in parentheses and may itself hold any character.
        fields = text[text.rindex(b")") + 2 :].split()
        self.marked = False
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.session = int(fields[3])
        self.threads = int(fields[17])
        self.start_ticks = int(fields[19])
        # A leader that has ended while its other threads run looks like a zombie.
        self.dead = fields[0] in (b"Z", b"X") and self.threads <= 1
        self.environ = (int(fields[47]), int(fields[48])) if len(fields) > 48 else None

    @property
    def environ_bytes(self) -> int:
        """How many bytes of its environment are looked at, at most."""
        if self.environ is None:
            return LONGEST_ENVIRON
        return max(0, min(self.environ[1] - self.environ[0], LONGEST_ENVIRON))


def read_stat(pid: int, proc: str = "/proc") -> Stat | None:
    """None when there is no such process."""
    text = start_of(f"{proc}/{pid}/stat")
    try:
        return Stat(text) if text else None
    except (ValueError, IndexError):  # no kernel's, and no reason to end a daemon
        return None


def is_of(pid: int, users: Collection[int], proc: str = "/proc") -> bool:
    """Whether a process runs as one of these users, or was started by one of them."""
    try:
        uid = os.stat(f"{proc}/{pid}").st_uid
    except OSError:
        return False
    if uid in users:
        return True
    # Root's, as it seems, is also what changed its rights or may not be looked into.
    return uid == 0 and uid_of(pid, proc) in users


def uid_of(pid: int, proc: str = "/proc") -> int | None:
    """The real user of a process, as the kernel has it; None when the process is gone."""
    words = status_of(pid, b"Uid", proc).split()
    return int(words[0]) if words and words[0].isdigit() and len(words[0]) <= 10 else None


def status_of(pid: int, key: bytes, proc: str = "/proc") -> bytes:
    """The value of a key in /proc/PID/status; nothing when the process is gone.

    A process names itself, and the kernel escapes only `\\n` there. So nothing else ends a line: a
    name such as `\\rUid: 0` would be believed.
    """
    return value_of(start_of(f"{proc}/{pid}/status"), key)


def value_of(status: bytes, key: bytes) -> bytes:
    """The value of a key in the text of a /proc/PID/status."""
    return (b"\n" + status).partition(b"\n%b:" % key)[2].partition(b"\n")[0].strip()


def memory_kills() -> int:
    """Return how many processes the kernel has killed since the boot as memory ran out, that of the
    server or of a control group; 0 where it does not tell."""
    words = start_of("/proc/vmstat").partition(b"\noom_kill ")[2].split(maxsplit=1)
    return int(words[0]) if words else 0


def forks() -> int | None:
    """How many processes and threads this machine has started since its boot."""
    words = start_of("/proc/stat").partition(b"\nprocesses ")[2].split(maxsplit=1)
    return int(words[0]) if words else None


def are_in_turn(pid: int, since: int | None) -> bool:
    """Whether every process that is newer than `pid` has a higher number: the kernel gives them out
    in turn, and begins again from the bottom.

    `since` is what `forks` said before that process began. A user who uses up numbers without
    starting processes can make this wrong.
    """
    now, most = forks(), start_of("/proc/sys/kernel/pid_max").strip()
    return since is not None and now is not None and now - since < int(most or b"0") - pid


def groups_of_process(folder: str = "/proc/self") -> list[tuple[str, str, str]]:
    """Hierarchy, controllers and path of each control group of a process, by its folder."""
    lines = (line.split(":", 2) for line in _lines(f"{folder}/cgroup", MOST_READ))
    return [(words[0], words[1], words[2]) for words in lines if len(words) == 3]


def mounts_of(folder: str = "/proc/self") -> list[tuple[str, str, str, str]]:
    """Root, place, file system and its options of each mount that a process sees, by its folder."""
    found = []
    for line in _lines(f"{folder}/mountinfo", MOST_MOUNTS):
        words = line.split(" ")
        if "-" in words[6:-3]:  # optional fields, of any number, stand before it
            kind = words[words.index("-", 6) + 1]
            found.append((words[3], words[4], kind, words[-1]))
    return found


def hides_processes(folder: str = "/proc/self") -> bool:
    """Whether users are kept from the command lines of others (`hidepid` of proc(5)), also if that
    cannot be read."""
    found = [options for _, place, kind, options in mounts_of(folder) if (place, kind) == _PROC]
    options = found[-1].split(",") if found else ["hidepid"]  # the last mount covers the others
    return any(o.startswith("hidepid") and o not in _SHOWN for o in options)


_PROC = ("/proc", "proc")
_SHOWN = ("hidepid=0", "hidepid=off")


def _lines(path: str, most: int) -> list[str]:
    """The lines of a file in which the kernel escapes blanks and `\\n`, and no other character.

    Users choose the names of groups and mounts: these need not be UTF-8, and may have characters
    that Python takes for the end of a line.
    """
    return start_of(path, most).decode("utf-8", "surrogateescape").split("\n")
