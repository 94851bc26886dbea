"""What a job has left when its main process has ended, and what to say of it.

Theory of operation. Three kinds of processes may be left:

    helpers   end by themselves once they see that the main process is gone
    readers   their standard input is a pipe, as in `exec > >(tee log)` and `2>&1 | ts`: they hold
              the last words of the job, and end when all that write to them have ended
    work      all others: what the script has left in the background (`python train.py &`)

So the runner gives all of them `MOMENT_S`. What is then left of the work is named in the exit
record, and gets TERM, and KILL. After that the readers have `DRAIN_S`, because only now their input
can end. What is left after that is named and ended, too. At the end the log says so, unless the job
has failed: then its last line is the reason of that. If the daemon stops the job meanwhile, the
rest goes as in every stop. The daemon may end and start again: until the exit record is there, the
attempt runs.

The runner imports this before the job ends, without anything that the job would wait for.
"""

from __future__ import annotations

import contextlib
import os
import stat

from radrm.host.attempts.tails import Look, read_as_user
from radrm.host.processes.procfs import start_of
from radrm.host.processes.stop import is_shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from radrm.host.attempts.folder import Fields
    from radrm.host.processes.procfs import Stat

MOMENT_S = 0.3
"""Real seconds for all that is left to end by itself."""
DRAIN_S = 2.0
"""Real seconds for readers to end once all others have."""
MOST_NAMED = 3
_LONGEST_NAME = 80
_INTERPRETERS = frozenset(
    {"python", "pypy", "bash", "sh", "dash", "zsh", "ksh", "perl", "ruby", "node", "julia"}
)
LONGEST_TEXT = MOST_NAMED * (_LONGEST_NAME + 20) + 40


def reads_pipe(pid: int) -> bool:
    """Return whether the standard input of a process is a pipe."""
    try:
        return stat.S_ISFIFO(os.stat(f"/proc/{pid}/fd/0").st_mode)
    except OSError:  # it has ended, or may not be looked at
        return False


def work_in(found: Mapping[int, Stat]) -> dict[int, Stat]:
    """Return those of these processes that are no readers."""
    return {pid: each for pid, each in found.items() if not reads_pipe(pid)}


def named(found: Mapping[int, Stat]) -> str:
    """Return the names of these processes, as `python train.py (pid 12) and 2 more`; "" for none.

    Of a process and its children the parent counts; of a shell, what it runs.
    """
    shells = set(filter(is_shell, found))
    chosen = [pid for pid in found if pid not in shells and not _inside(pid, found, shells)]
    names = {pid: _command(pid) for pid in sorted(chosen or found)}
    return listed([f"{name} (pid {pid})" for pid, name in names.items() if name])


def listed(texts: Sequence[str]) -> str:
    """Return the first of these texts, and how many more there are."""
    more = len(texts) - MOST_NAMED
    return ", ".join(texts[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _inside(pid: int, found: Mapping[int, Stat], shells: set[int]) -> bool:
    """Return whether a process is below another one that is no shell."""
    seen = {pid}
    parent = found[pid].parent
    while parent in found and parent not in seen:
        if parent not in shells:
            return True
        seen.add(parent)
        parent = found[parent].parent
    return False


def _command(pid: int) -> str:
    """Return the command of a process on one line, as `python -u train.py`; "" once it has ended.

    Other users read it, too, so not the arguments, which may be secret: only an interpreter's
    options, and what it runs.
    """
    words = start_of(f"/proc/{pid}/cmdline", 4096).decode("utf-8", "replace").split("\0")
    shown = [words[0].rpartition("/")[2]]
    interprets = shown[0].rstrip("0123456789.") in _INTERPRETERS
    for word in words[1:]:
        if word.startswith("-") and (not interprets or "c" in word or word.startswith("--")):
            break
        shown.append(word)
        if not word.startswith("-"):
            break
    text = " ".join(" ".join(shown).split())
    text = "".join(each if each.isprintable() else "?" for each in text)
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 3]}..."


def tell(launch: Fields, names: str) -> None:
    """Add a line to the job's error log, as its user."""
    end = "script" if launch["script"] is not None else "command"
    wait = "write `wait` at the end of the script, or " if end == "script" else ""
    line = (
        f"radrm: the {end} ended, and radrm stopped what was still running: {names}. "
        f"To keep it running, {wait}use --background=wait.\n"
    )
    path = os.path.join(launch["cwd"], launch["stderr"])

    def add(_: int) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
        with contextlib.suppress(OSError):
            log = os.open(path.encode("utf-8", "surrogateescape"), flags | os.O_CLOEXEC)
            os.write(log, line.encode("utf-8", "replace"))

    read_as_user(launch, [Look(add, 1, lambda _: {})])
