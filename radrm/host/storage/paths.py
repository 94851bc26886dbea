"""The paths of a daemon's state, and how a client finds them.

    state/             0711 for a system daemon, 0700 for a user's own
        spool/         envelopes; 1777 for a system daemon
            users/     a system daemon's: one folder per user, for .rad files
        store/         the database, the daemon's alone
        attempts/      one folder per attempt
        checkpoints/   one folder per job
        elastic/       one folder per live attempt whose tasks can change, its user's: not in
                       run/, a small file system in memory that its user could fill
    run/               sockets
        traces/        notes on the traces that are under way
        progress/      one folder per live attempt, for the socket that takes its reports

The light submit path imports this file, so paths are plain text here: `pathlib`
alone would cost a third of what Python itself takes to start.
"""

from __future__ import annotations

import os
import stat

from radrm.errors import StoreError, UsageError
from radrm.host.storage.files import fsync_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SYSTEM_STATE = "/var/lib/radrm"
_SYSTEM_RUN = "/run/radrm"
SYSTEM_UNITS = (
    "/etc/systemd/system/radrmd.service",
    "/usr/lib/systemd/system/radrmd.service",
    "/lib/systemd/system/radrmd.service",
)
"""Where the unit of the server's daemon is: that of `radrm service install`, those of packages."""


class Paths:
    """The places of one daemon, all absolute."""

    def __init__(self, state: str, run: str) -> None:
        self.state = state
        self.run = run
        self.spool = f"{state}/spool"
        self.users = f"{state}/spool/users"
        """In a system daemon's spool: the folders of users, whose `.rad` files are jobs."""
        self.store = f"{state}/store"
        """The private folder of the database and the files SQLite puts beside it."""
        self.database = f"{state}/store/radrm.sqlite"
        self.attempts = f"{state}/attempts"
        self.lock = f"{state}/radrmd.lock"
        """Held by the daemon: beside the state, for that is what two must not share."""
        self.checkpoints = f"{state}/checkpoints"
        """One folder per job, its user's, for what it saves."""
        self.refused = f"{state}/refused"
        """Where files go that lay in the spool and were no envelopes."""
        self.traces = f"{run}/traces"
        """Notes on the traces that are under way."""
        self.progress = f"{run}/progress"
        """The sockets that take what jobs report."""
        self.elastic = f"{state}/elastic"
        """Where the daemon and the launchers of jobs speak about their tasks."""
        self.socket = f"{run}/radrm.sock"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Paths) and (self.state, self.run) == (other.state, other.run)

    def __hash__(self) -> int:
        return hash((self.state, self.run))

    def __repr__(self) -> str:
        return f"Paths(state={self.state!r}, run={self.run!r})"


# ------------------------------------------------------------------ where


def system_mode(environ: Mapping[str, str], uid: int) -> bool:
    """True for the daemon of the whole server: root, with no folder of its own named."""
    return uid == 0 and not environ.get("RADRM_HOME")


def paths_for(environ: Mapping[str, str], uid: int) -> Paths:
    """Where a daemon of this user keeps its things. Raises `StoreError` for a user without
    a home folder."""
    own = environ.get("RADRM_HOME")
    if own:
        home = os.path.abspath(own)
        return Paths(home, f"{home}/run")
    if uid == 0:
        return Paths(_SYSTEM_STATE, _SYSTEM_RUN)
    found = _user_paths(environ, uid)
    if found is None:
        raise StoreError(
            f"user {uid} has no home folder to keep radrm's state in; "
            "set RADRM_HOME to a folder of your own"
        )
    return found


def client_paths(environ: Mapping[str, str], uid: int) -> tuple[Paths, ...]:
    """Where a client looks for a daemon, best first: the user's own, then the system's."""
    if environ.get("RADRM_HOME"):
        return (paths_for(environ, uid),)
    system = Paths(_SYSTEM_STATE, _SYSTEM_RUN)
    own = _user_paths(environ, uid) if uid != 0 else None
    return (own, system) if own else (system,)


def servers_own() -> Paths | None:
    """The places of this server's radrm for all users; None if it has none.

    The signs are its unit and its socket, which only root can make. The socket stays when the
    daemon ends; `radrm service remove` and the package remove both. Its folders stay, so they
    are no sign.
    """
    found = Paths(_SYSTEM_STATE, _SYSTEM_RUN)
    return found if _has_unit() or os.path.exists(found.socket) else None


def _has_unit() -> bool:
    # Not a link to /dev/null: a unit that is masked after its package was removed.
    return any(map(os.path.isfile, SYSTEM_UNITS))


def refuse_second(
    environ: Mapping[str, str], uid: int, private: bool, way: str = "radrm daemon --private"
) -> None:
    """Raise `UsageError` for a daemon that a user starts beside the server's, unless `private` or
    RADRM_HOME says so: the two would use the same GPUs, and the user's commands would change.

    `way`: the command that starts it.
    """
    if servers_own() is None or uid == 0 or private:
        return
    if environ.get("RADRM_HOME"):
        return
    raise UsageError(
        "this server has a radrm for all users, and your commands use it; to start one of your "
        f"own, which they then use instead: {way}"
    )


def not_running(candidates: Sequence[Paths]) -> tuple[str, str]:
    """What to say if no daemon answers in these places, and what to do."""
    server = servers_own()
    if server is None or server not in candidates:
        places = " or ".join(paths.run for paths in candidates)
        return f"no radrm daemon answers in {places}", "start one: radrm daemon"
    start = "systemctl start radrmd" if _has_unit() else "radrm daemon"
    step = f"start it: {start}" if os.geteuid() == 0 else f"ask the administrator ({start})"
    return "the server's radrm is not running", step


def own_state(paths: Paths, environ: Mapping[str, str]) -> str:
    """The folder for what this user keeps beside a daemon of these paths: the daemon's, if it is
    this user's. Raises `StoreError` for a user without a home folder."""
    try:
        if os.stat(paths.state).st_uid == os.geteuid():
            return paths.state
    except OSError:
        pass
    own = _user_paths(environ, os.geteuid())
    if own is None:
        raise StoreError(f"user {os.geteuid()} has no home folder; set HOME or XDG_STATE_HOME")
    return own.state


def _user_paths(environ: Mapping[str, str], uid: int) -> Paths | None:
    state_home = _absolute(environ, "XDG_STATE_HOME")
    if state_home is None:
        home = _absolute(environ, "HOME") or _home_of(uid)
        if home is None:
            return None
        state_home = f"{home}/.local/state"
    state = f"{state_home}/radrm"
    runtime = _absolute(environ, "XDG_RUNTIME_DIR")
    return Paths(state, f"{runtime}/radrm" if runtime else f"{state}/run")


def _absolute(environ: Mapping[str, str], name: str) -> str | None:
    """A folder named by the environment; the XDG rules say to ignore a relative one."""
    value = environ.get(name, "")
    return os.path.normpath(value) if value.startswith("/") else None


def _home_of(uid: int) -> str | None:
    import pwd  # here: hardly anyone lacks HOME, and everyone waits for imports

    try:
        return pwd.getpwuid(uid).pw_dir or None
    except KeyError:
        return None


# ------------------------------------------------------------------ making


def prepare(paths: Paths, system: bool) -> None:
    """Make the folders that are missing, with their modes; their names survive a power failure.

    A folder that is there keeps the mode that its owner gave it. Raises `StoreError`
    for one that another user owns or in which all users may rename files, for a link where
    radrm removes files (spool, store, attempts), and when a folder cannot be made.
    """
    open_mode = 0o711 if system else 0o700
    _folder(paths.state, open_mode)
    for path in (paths.spool, paths.store, paths.attempts):
        if os.path.islink(path):
            raise StoreError(
                f"{path} is a symbolic link, and radrm would remove files where it leads; "
                "remove the link, or set RADRM_HOME to a folder on that disk"
            )
    _folder(paths.spool, 0o1777 if system else 0o700)
    _folder(paths.store, 0o700)
    _folder(paths.attempts, open_mode)
    _folder(paths.checkpoints, open_mode)
    _folder(paths.elastic, open_mode)
    prepare_run(paths, system)


def prepare_run(paths: Paths, system: bool) -> None:
    """As `prepare`, for the run folder alone: also under a daemon that runs."""
    open_mode = 0o711 if system else 0o700
    _folder(paths.run, 0o755 if system else 0o700)
    _folder(paths.progress, open_mode)


def _folder(path: str, mode: int) -> None:
    try:
        _parents(path)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            _check(path)
        else:
            os.chmod(path, mode)  # mkdir's own mode is cut by the umask
            fsync_folder(os.path.dirname(path))
    except OSError as error:
        raise StoreError(
            f"cannot make the folder {path}: {error.strerror}; "
            "make it yourself, or set RADRM_HOME to a folder of your own"
        ) from error


def _parents(path: str) -> None:
    """Make what is missing above, writable by its owner alone even under an umask of 0."""
    parent = os.path.dirname(path)
    if not os.path.isdir(parent):
        _parents(parent)
        os.mkdir(parent, 0o755)
        fsync_folder(os.path.dirname(parent))


def _check(path: str) -> None:
    me = os.geteuid()
    link, found = os.lstat(path), os.stat(path)
    if not stat.S_ISDIR(found.st_mode):
        raise StoreError(f"{path} is not a folder; move it away")
    if found.st_uid != me or link.st_uid not in (me, 0):
        owner = found.st_uid if found.st_uid != me else link.st_uid
        raise StoreError(
            f"{path} belongs to user {owner}, and you are user {me}; if its files are yours, run: "
            f"chown {me} {path}; else unset RADRM_HOME, or set it to a folder of your own"
        )
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        raise StoreError(
            f"{path} can be written by everybody; look whether its files are yours, "
            f"then run: chmod o-w {path}"
        )
