"""The job's own process, from the fork to its first instruction.

All of this runs as the submitter: nothing of theirs is opened before the runner's rights are
dropped, and nothing is imported after that, since the submitter may not be allowed to read our
Python. An error goes to the runner in one line, and to the error log if that is open.
"""

from __future__ import annotations

import _socket
import contextlib
import errno
import os
import pwd
import re
import resource
import signal
import sys

from radrm.host.transient import is_transient

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from radrm.host.attempts.folder import Fields

_DEFAULT_INTERPRETER = ["/bin/sh"]
_BLANKS = re.compile("[ \t]+")
_NOT_STARTED = 125
NO_PROGRAM, CANNOT_RUN = 127, 126
"""The exit codes of shells for a command that they cannot run."""
TRY_LATER = os.EX_TEMPFAIL
"""Its files cannot be reached now: their disk is full, or its file server does not answer."""

LOGS_BEGIN = b"logs begin at "
_MOST_OUTPUT = 8192
_IGNORED = [n for n in signal.valid_signals() if signal.getsignal(n) is signal.SIG_IGN]
"""By Python, or since before this process began. A runner ignores no others."""


_set_handler = getattr(signal.signal, "__wrapped__", signal.signal)
_set_mask = getattr(signal.pthread_sigmask, "__wrapped__", signal.pthread_sigmask)
"""Without names of the signals that were there: to make them takes as long as the fork."""


class CannotStart(Exception):
    """One line: the thing, the cause, the next step."""

    code = _NOT_STARTED

    def later(self) -> CannotStart:
        """This error, as one that may pass."""
        self.code = TRY_LATER
        return self


class NotExecuted(CannotStart):
    """The program itself cannot be run."""

    def __init__(self, line: str, error: OSError) -> None:
        super().__init__(line)
        self.code = NO_PROGRAM if error.errno == errno.ENOENT else CANNOT_RUN


def interpreter_of(script: str) -> list[str]:
    """What runs a script: its first line as the kernel reads it, where all that follows
    the program is one argument; `/bin/sh` when the line names none."""
    line = script.partition("\n")[0]
    words = _BLANKS.split(line[2:].strip(" \t"), maxsplit=1) if line.startswith("#!") else []
    return [word for word in words if word] or _DEFAULT_INTERPRETER


def become_job(launch: Fields, script: str | None, go: int, errors: int) -> NoReturn:
    """Turn this fresh child of the runner into the job.

    `script` is the path of the runner's copy of it. The job begins when a byte can be
    read from `go`; when the runner dies first, it never does. One that may not run outside its
    group (`grouped`) waits there for a byte also before it opens anything. To `errors`, which the
    job's first instruction closes, goes a line that says where its logs begin (`LOGS_BEGIN`), with
    their descriptors, and what went wrong, if anything did. It is one of `error_sockets`.
    """
    log: int | None = None
    code = _NOT_STARTED
    try:
        os.setsid()
        reset_signals()
        _check_user(launch)
        drop_rights(launch)
        os.umask(launch["umask"])
        # A log may be a device file that only processes outside the group could open.
        if launch.get("grouped") and not os.read(go, 1):
            os._exit(_NOT_STARTED)
        # The error log first: it takes the line that says what is wrong with the other.
        together = launch["stdout"] == launch["stderr"]
        _open_log(launch, "stderr", "--output" if together else "--error", 2)
        log = 2
        if together:
            os.dup2(2, 1)
        else:
            _open_log(launch, "stdout", "--output", 1)
        _send_logs(errors)
        enter(launch)
        if script is not None and not os.access(script, os.R_OK):
            raise CannotStart(
                f"user {launch['user']} may not read the copy of the script, {script}; "
                "let everybody pass through the folders above it (chmod o+x)"
            )
        if os.read(go, 1):
            _take_rlimits(launch.get("rlimits") or {})
            execute(launch, script)
    except Exception as error:
        line = f"the job cannot start: {error}"
        if isinstance(error, CannotStart):
            line, code = str(error), error.code
        line = line.replace("\n", " ")
        with contextlib.suppress(OSError):
            os.write(errors, _bytes(line)[:2000])
        if log is not None:
            with contextlib.suppress(OSError):
                os.write(log, b"radrm: " + _bytes(line) + b"\n")
    finally:
        os._exit(code)


_NEVER_LESS = frozenset({"NOFILE", "MEMLOCK", "STACK", "NPROC"})
"""Limits that each shell has, and that the daemon's unit raises for its jobs. The others are none
by default, so one in a shell is meant."""


def _take_rlimits(wanted: dict[str, int]) -> None:
    """Take over the soft limits of the submitting process, as far as this one's hard limits go."""
    most = resource.RLIM_INFINITY
    for name, soft in wanted.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        own, hard = resource.getrlimit(kind)
        if name in _NEVER_LESS and (own == most or own >= soft != most):
            continue
        if hard != most:
            soft = hard if soft == most else min(soft, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, (soft, hard))


def let_go_on(go: int) -> None:
    """Write the byte that the job's process waits for. It may have died already, of a log that it
    cannot write to."""
    with contextlib.suppress(BrokenPipeError):
        os.write(go, b"\n")


def error_sockets() -> tuple[int, int]:
    """Return the ends for the runner and for the job's process."""
    mine, its = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
    return mine.detach(), its.detach()


def _send_logs(errors: int) -> None:
    line = b"%s%d %d\n" % (LOGS_BEGIN, _size(2), _size(1))
    logs = b"".join(fd.to_bytes(4, sys.byteorder) for fd in (2, 1))
    sender = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, errors)
    try:
        sender.sendmsg([line], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, logs)])
    finally:
        sender.detach()


def receive_output(errors: int) -> tuple[bytes, list[int]]:
    """Close the runner's end. Return what the job's process wrote, and the descriptors of its logs:
    standard error, and standard output. They are its own, so their offsets are where the job's last
    writes ended."""
    receiver = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, errors)
    receiver.setblocking(False)
    output, logs = b"", list[int]()
    try:
        while len(output) < _MOST_OUTPUT:
            data, messages, *_ = receiver.recvmsg(4096, _socket.CMSG_SPACE(8))
            for level, kind, fds in messages:
                if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
                    whole = range(0, len(fds) - 3, 4)
                    logs += [int.from_bytes(fds[at : at + 4], sys.byteorder) for at in whole]
            if not data:
                break
            output += data
    except BlockingIOError:
        pass
    finally:
        receiver.close()
    return output, logs


def parse_output(output: bytes) -> tuple[dict[str, int], str]:
    """Where the job's logs begin, and what kept it from starting, from what its process wrote."""
    begins: dict[str, int] = {}
    if output.startswith(LOGS_BEGIN):
        line, _, output = output.removeprefix(LOGS_BEGIN).partition(b"\n")
        begins = dict(zip(("stderr", "stdout"), map(int, line.split()), strict=True))
    return begins, output.decode("utf-8", "backslashreplace")


def reset_signals() -> None:
    """Undo ignored and blocked signals: the job would inherit both. (A handler ends with us.)"""
    for number in _IGNORED:
        _set_handler(number, signal.SIG_DFL)
    _set_mask(signal.SIG_SETMASK, ())


def close_inherited() -> None:
    """Close all that the daemon may have left open in the runner."""
    for fd in [int(name) for name in os.listdir("/proc/self/fd")]:
        with contextlib.suppress(OSError):
            if fd > 2 and os.get_inheritable(fd):  # what we open ourselves is not
                os.close(fd)


def _check_user(launch: Fields) -> None:
    """Raise `CannotStart` unless the user's number is still that user's: while a job waits, its
    user may be removed, and the number be given to another one."""
    uid, name = launch["uid"], launch["user"]
    if uid is None or name == str(uid):
        return
    try:
        now = pwd.getpwuid(uid).pw_name
    except KeyError:  # or a service of names does not answer
        raise CannotStart(
            f"user {name} ({uid}) is not known here any more; ask the administrator"
        ).later() from None
    if now != name:
        raise CannotStart(f"user {uid} is {now} now, and {name} submitted the job; submit it again")


def drop_rights(launch: Fields) -> None:
    """Become the submitter, where the launch record names one. Raises `CannotStart`."""
    if launch["uid"] is None:
        return
    try:
        os.initgroups(launch["user"], launch["gid"])
        os.setgid(launch["gid"])
        os.setuid(launch["uid"])
    except OSError as error:
        raise CannotStart(
            f"cannot become user {launch['user']} ({launch['uid']}): {error.strerror}; "
            "ask the administrator whether the user and its limits are in order"
        ) from None


def _open_log(launch: Fields, which: str, option: str, target: int) -> None:
    path = os.path.join(launch["cwd"], launch[which])
    # Not blocking: a pipe without a reader is an error, not a reason to wait for ever.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NOCTTY | os.O_NONBLOCK
    try:
        fd = os.open(_bytes(path), flags | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if not os.path.isdir(_bytes(launch["cwd"])):
            enter(launch)  # that is what is wrong, and it says so
        folder = os.path.dirname(path)
        if error.errno == errno.ENOENT and not os.path.isdir(_bytes(folder)):
            cause, step = f"the folder {folder} does not exist", "make it"
        elif error.errno == errno.ELOOP:
            cause, step = "it is a symbolic link", "remove it"
        elif error.errno == errno.ENXIO:
            cause, step = "no program reads this pipe", "start one first"
        else:
            cause, step = str(error.strerror), f"let {launch['user']} write there"
        wrong = CannotStart(
            f"cannot write the log {path}: {cause}; {step}, or name another with {option}"
        )
        raise wrong.later() if is_transient(error) else wrong from None
    os.set_blocking(fd, True)
    os.dup2(fd, target)


def _size(log: int) -> int:
    """Where this attempt begins in a log that may have been there before."""
    return os.fstat(log).st_size


def enter(launch: Fields) -> None:
    """Change to the job's folder. Raises `CannotStart`."""
    folder: str = launch["cwd"]
    try:
        os.chdir(_bytes(folder))
    except OSError as error:
        absent = error.errno == errno.ENOENT
        if absent and launch.get("snapshot", False):
            raise CannotStart(
                f"the snapshot of the code is gone: {folder}; submit the job again"
            ) from None
        wrong = f"cannot enter the folder {folder}: {error.strerror}; "
        if is_transient(error) or (absent and _home_is_away(launch)):
            raise CannotStart(wrong + "see whether its file system is mounted").later() from None
        raise CannotStart(wrong + "make it, or name another with --chdir") from None


def _home_is_away(launch: Fields) -> bool:
    """Return whether the job's folder is in the home folder of its user, which does not exist: then
    most likely it is not mounted, and each job of the user would fail."""
    home = launch.get("environment", {}).get("HOME", "").rstrip("/")
    inside = bool(home) and f"{launch['cwd']}/".startswith(f"{home}/")
    return inside and not os.path.exists(_bytes(home))


def execute(launch: Fields, script: str | None) -> NoReturn:
    """Become the program that the record names. Raises `NotExecuted`."""
    interpreter: list[str] = launch["interpreter"] or []
    if script is not None:
        interpreter = interpreter or interpreter_of(launch["script"])
        argv = [*interpreter, script, *(launch["argv"] or ())]
    else:
        argv = launch["argv"]
    environment = {_bytes(key): _bytes(value) for key, value in launch["environment"].items()}
    words = [_bytes(word) for word in argv]
    missing = OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    denied: OSError | None = None
    for path in _candidates(words[0], environment):
        try:
            os.execve(path, words, environment)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:  # as a shell does: another folder may have it
            denied = denied or error
        except OSError as error:
            raise _not_executed(launch, argv[0], error) from None
    raise _not_executed(launch, argv[0], denied or missing)


def _candidates(program: bytes, environment: dict[bytes, bytes]) -> list[bytes]:
    """Where the program may lie. (`os.execvpe` imports: now the job's user would have to be
    allowed to read our Python.)"""
    if b"/" in program:
        return [program]
    folders = environment.get(b"PATH", os.defpath.encode()).split(b":")
    return [os.path.join(folder, program) for folder in folders]


def _not_executed(launch: Fields, program: str, error: OSError) -> NotExecuted:
    absent = error.errno == errno.ENOENT
    if absent and "/" in program and os.path.exists(_bytes(program)):
        line = f"cannot run {program}: the interpreter in its first line does not exist; correct it"
    elif launch["script"] is not None:
        where = "named in line 1 " if launch["interpreter"] is None else ""
        cause = "does not exist" if absent else f"cannot run: {error.strerror}"
        # Quoted where it holds what the eye cannot see, as the \r of a file from Windows.
        shown = program if program.isprintable() else repr(program)
        line = f"the interpreter {shown} {where}{cause}; correct the first line of the script"
    elif absent:
        line = f"cannot run {program}: there is no such program; correct its name or the PATH"
    else:
        line = f"cannot run {program}: {error.strerror}; check that it is an executable program"
    return NotExecuted(line, error)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
