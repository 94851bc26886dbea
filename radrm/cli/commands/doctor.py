"""`radrm doctor`: is this machine fit for radrm, and what to do where it is not."""

from __future__ import annotations

import functools
import json
import os
import resource
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import typer
from rich.console import Console, ConsoleOptions
from rich.text import Text

from radrm import __version__
from radrm.cli.options import Json
from radrm.cli.settings import find_troubles
from radrm.cli.show.render import out
from radrm.client.text import print_json
from radrm.config import Config, examine_config, find_config
from radrm.errors import BadConfig, Unreachable, plain
from radrm.host.attempts import cgroups
from radrm.host.gpus import nvml
from radrm.host.health import gpus, kernel, places, served, services, software
from radrm.host.health.finding import Check, Finding, Level, fail, ok, run_checks, warn
from radrm.host.health.job_files import job_files
from radrm.host.sockets import connect
from radrm.host.storage.paths import Paths, client_paths, paths_for

_PATIENCE_S = 5.0
_DAEMON_LIMIT_S = 20.0
_STORE_LIMIT_S = 120.0
_LONGEST_ANSWER = 1 << 20
_REAL_GPUS = ("NVML", "nvidia-smi")
"""What a daemon calls its devices where they are real."""
_INDENT, _STEP = 6, "-> "
_STYLE = {Level.OK: "green", Level.WARN: "bold yellow", Level.FAIL: "bold red"}


def doctor(as_json: Json = False) -> None:
    """Check this machine, the configuration and the daemon.

    Needs no daemon and changes nothing. The exit code is 1 if anything fails.

    \b
    Examples:
      radrm doctor
      radrm doctor --json
    """
    findings: list[Finding] = []
    console = out()
    for finding in run_checks(all_checks(os.environ, os.getuid())):
        findings.append(finding)
        if not as_json:
            console.print(Line(finding), soft_wrap=True)
    if as_json:
        print_json([_document(finding) for finding in findings])
    else:
        console.print(summary(findings, by_name=console.is_terminal))
    if any(finding.level is Level.FAIL for finding in findings):
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class Line:
    """A finding for people: one line in a pipe; on a terminal the next step stands below, and
    what is long goes on below its beginning."""

    finding: Finding

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        level, step = self.finding.level, self.finding.next_step
        head = Text.assemble((f"{level.value:<4}", _STYLE[level]), "  ")
        words = Text(plain(f"{self.finding.check}: {self.finding.finding}"))
        if not console.is_terminal:
            words.append(f"; {plain(step)}" if step is not None else "")
            yield _whole(head + words)
            return
        words.stylize("bold", 0, len(self.finding.check) + 1)
        room = max(20, options.max_width - _INDENT)
        lines = list(words.wrap(console, room))
        if step is not None:
            below = Text(plain(step)).wrap(console, room - len(_STEP))
            marks = [_STEP, *[" " * len(_STEP)] * (len(below) - 1)]
            lines += [Text(mark, "dim") + line for mark, line in zip(marks, below, strict=True)]
        for line in lines:
            line.rstrip()
            yield _whole(head + line)
            head = Text(" " * _INDENT)


def _whole(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ignore"
    return text


def _document(finding: Finding) -> dict[str, Any]:
    return {
        "check": finding.check,
        "level": finding.level.value,
        "finding": finding.finding,
        "next_step": finding.next_step,
    }


def summary(findings: Sequence[Finding], by_name: bool) -> Text:
    """How many of each level, as `20 ok, 1 warn, 0 fail`; `by_name`, for whom the lines have
    scrolled away, with those that are not fine: `1 warn (MPS)`."""
    parts = []
    for level in Level:
        names = [f.check for f in findings if f.level is level]
        told = f" ({', '.join(names)})" if by_name and names and level is not Level.OK else ""
        parts.append(f"{len(names)} {level.value}{told}")
    return Text(", ".join(parts))


# ------------------------------------------------------------------ which checks


def all_checks(environ: Mapping[str, str], uid: int) -> Iterator[Check]:
    """The checks, one after another: what one finds decides which others make sense.

    Whatever may hang is done inside a check, which has a time limit.
    """
    yield Check("Python", lambda: software.python(tuple(sys.version_info[:3])))
    yield Check("packages", _packages)
    candidates = client_paths(environ, uid)
    examined: list[tuple[Paths, dict[str, Any] | None]] = []

    def look_for_daemon() -> Finding:
        asked = ask_daemons(candidates)
        examined.append(_examined(asked))
        return daemon(asked)

    before = time.time(), _boot_s()
    yield Check("daemon", look_for_daemon, _DAEMON_LIMIT_S)
    paths, about = examined[0] if examined else (candidates[0], None)
    yield from _checks_of(paths, about, environ, uid, before)


def _checks_of(
    paths: Paths,
    about: dict[str, Any] | None,
    environ: Mapping[str, str],
    uid: int,
    before: tuple[float, float],
) -> Iterator[Check]:
    """Those of a daemon's places and of the machine. `about` is None where no daemon answers,
    `before` an earlier moment by the date and since boot."""
    system = paths == paths_for({}, 0)
    owner = 0 if system else uid
    pid = about.get("pid") if about is not None else None
    pid = pid if type(pid) is int and os.path.isdir(f"/proc/{pid}") else None
    yield Check("systemd", lambda: services.systemd(system, pid))
    for wanted in places.folders(paths, system):
        look = functools.partial(places.folder, wanted, owner, served=about is not None)
        yield Check(wanted.name, look)
    yield Check("job files", lambda: job_files(paths, system, uid))
    yield Check("spool contents", lambda: places.spool_contents(paths.spool, system))
    yield Check("free space", lambda: places.space(paths.state))
    yield Check("file system", lambda: places.file_system(paths.state))
    yield Check("socket path", lambda: places.socket_address(paths))
    sound: list[Config] = []
    yield Check("configuration", lambda: configuration(environ, system, sound.append))
    config = sound[0] if sound else Config()
    yield Check("cgroup", lambda: _cgroup(pid, _owner(pid)))
    yield Check("pidfd", kernel.pidfd)
    yield Check("inotify", kernel.inotify)
    yield Check("open files", lambda: _open_files(pid, config.mps.enabled))
    modelled = about is not None and about.get("gpus") not in _REAL_GPUS
    if about is not None and modelled:
        described = f"the daemon runs on software GPUs ({about.get('gpus')})"
        yield Check("GPUs", lambda: ok("GPUs", described))
    else:
        yield from _gpu_checks(config, daemon_tells=about is not None)
    coarse = bool(config.core.get("use_coarse_smact"))
    told: list[dict[str, Any]] = []
    if about is not None:
        yield from _served_checks(paths, coarse, told)
    yield Check("MPS", lambda: gpus.mps(config.mps.enabled, environ))
    if not modelled:
        root = (_owner(pid) if pid is not None else uid) == 0
        yield Check("containers", lambda: services.docker(root))
    yield Check("traces", lambda: services.traces(config.estimation.trace, owner, uid))
    yield Check("SQLite", lambda: software.sqlite(sqlite3.sqlite_version_info))
    moved_s = told[0].get("clock_moved_s") if told else None
    yield Check("clock", lambda: served.clock_moved(moved_s) or _clock(paths.database, before))
    yield Check("time service", services.time_service)
    yield Check("rights", lambda: software.rights(system, uid, environ.get("RADRM_HOME")))
    yield Check("store", lambda: places.store(paths.database, os.geteuid()), _STORE_LIMIT_S)


def _gpu_checks(config: Config, daemon_tells: bool) -> Iterator[Check]:
    """Those of single GPUs only where the driver answers at all, and in time. `daemon_tells`:
    one runs, which knows better where SM activity comes from."""
    known: list[gpus.Driver] = []

    def look() -> Finding:
        found = nvml.find()
        if found.gpus is None:
            driver = gpus.Driver(reason=found.reason)
        else:
            import pynvml  # what `find` has found to be sound

            driver = gpus.look(pynvml, found)
        finding = gpus.devices(driver, gpus.has_hardware())
        known.append(driver)
        return finding

    yield Check("GPUs", look)
    if not known or not known[0].gpus:
        return
    (driver,) = known
    mps = config.mps.enabled
    yield Check("GPU driver", lambda: gpus.driver_version(driver))
    yield Check("MIG", lambda: gpus.mig(driver))
    yield Check("persistence mode", lambda: gpus.persistence(driver))
    yield Check("compute mode", lambda: gpus.compute_mode(driver, mps))
    coarse, wanted = bool(config.core.get("use_coarse_smact")), config.readings.smact
    if not daemon_tells:
        yield Check("SM activity", lambda: gpus.sm_activity(driver, coarse, wanted=wanted))
    yield Check("DCGM", lambda: services.dcgm(driver, wanted))


def _served_checks(paths: Paths, coarse: bool, told: list[dict[str, Any]]) -> Iterator[Check]:
    """What the daemon says of its GPUs; its whole answer is put into `told`."""

    def look() -> Finding:
        answer = _ask(paths, "health")
        if not isinstance(answer, dict) or not isinstance(answer.get("devices"), list):
            return warn(
                "GPU health",
                "the daemon does not tell how its GPUs are",
                "start it again if it is of an older version: running jobs run on",
            )
        told.append(answer)
        return served.health(answer["devices"])

    yield Check("GPU health", look)
    if not told:
        return
    (now,) = told
    devices, root = now["devices"], now["uid"] == 0
    yield Check("SM activity", lambda: served.sm_activity(devices, coarse))
    yield Check("MPS servers", lambda: served.mps(now["mps"]))
    yield Check("strangers", lambda: served.strangers(devices, now["strangers"], root))
    yield Check("rules", lambda: served.rules(now.get("rules", ())))


def _packages() -> Finding:
    try:
        requirements = metadata.requires("radrm") or []
    except metadata.PackageNotFoundError:
        return software.packages(None, ())
    return software.packages(requirements, tuple(sys.version_info[:3]))


def _cgroup(daemon: int | None, owner: int | None) -> Finding:
    """Where the daemon's jobs get control groups; of one that is not there, as if started here."""
    if daemon is not None:
        return kernel.served_group(daemon, owner)
    return kernel.tree_kill(cgroups.place(f"radrm-doctor-{os.getpid()}"))


def _owner(pid: int | None) -> int | None:
    """Whose a process is; None for one that is not there."""
    try:
        return None if pid is None else os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


def _open_files(daemon: int | None, mps: bool) -> Finding:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if daemon is not None:
        limits = kernel.file_limits(daemon)
    return kernel.open_files(*limits, mps=mps)


def _clock(database: str, before: tuple[float, float]) -> Finding:
    try:
        newest_s = os.stat(database).st_mtime
    except OSError:
        newest_s = None
    wall_s, boot_s = time.time(), _boot_s()
    jumped_s = (wall_s - before[0]) - (boot_s - before[1])
    return software.clock(wall_s, boot_s, time.monotonic(), newest_s, jumped_s)


def _boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


# ------------------------------------------------------------------ the daemon


Asked = tuple[Paths, "dict[str, Any] | str"]
"""Where a daemon was looked for, and what it told of itself, or why it told nothing."""


def ask_daemons(candidates: Sequence[Paths]) -> list[Asked]:
    """Ask in the order in which every command does; the first that answers is the last asked."""
    asked: list[Asked] = []
    for paths in candidates:
        try:
            about = _ask(paths, "ping")
            asked.append((paths, about if isinstance(about, dict) else "it does not know radrm"))
            break
        except Unreachable as error:
            asked.append((paths, str(error)))
        except (OSError, ValueError, RecursionError) as error:
            asked.append((paths, f"it took a question and gave no answer: {error}"))
            break
    return asked


def _ask(paths: Paths, op: str) -> Any:
    """What the daemon there answers; None for what is no answer of a daemon. Raises
    `Unreachable`, OSError, ValueError, RecursionError."""
    with connect(paths.socket, _PATIENCE_S) as client:
        client.sendall(json.dumps({"op": op}).encode() + b"\n")
        with client.makefile("rb") as lines:
            answer = json.loads(lines.readline(_LONGEST_ANSWER))
    return answer.get("result") if isinstance(answer, dict) else None


def daemon(asked: Sequence[Asked]) -> Finding:
    """Whether the daemon that commands would talk to answers, and is of this version."""
    paths, about = asked[-1]
    kind = "the system's" if paths == paths_for({}, 0) else "your own"
    if isinstance(about, str):
        if about.startswith("nobody answers"):
            where = " or ".join(p.run for p, _ in asked)
            return warn("daemon", f"no radrm daemon answers in {where}", "start one: radrm daemon")
        stuck = f"{kind}, in {paths.run}: {about}"
        return fail("daemon", stuck, "look at its log, and start it again: running jobs run on")
    version, pid = about.get("version"), about.get("pid")
    if version != __version__:
        other = f"{kind}, process {pid}, is radrm {version} and this command is {__version__}"
        return warn("daemon", other, "start the daemon again: running jobs run on")
    return ok("daemon", f"{kind}, process {pid}, answers in {paths.run}, radrm {version}")


def _examined(asked: Sequence[Asked]) -> tuple[Paths, dict[str, Any] | None]:
    """The places of the daemon that answers; else of one that was there; else the user's own."""
    paths, about = asked[-1]
    if isinstance(about, dict):
        return paths, about
    there = [paths for paths, _ in asked if os.path.isdir(paths.state)]
    return (there or [asked[0][0]])[0], None


# ------------------------------------------------------------------ the configuration


def configuration(
    environ: Mapping[str, str], system: bool, use: Callable[[Config], object] = lambda _: None
) -> Finding:
    """Whether a daemon would take it. What of it can be used is handed to `use`."""
    name, next_step = "configuration", "all that is wrong: radrm config check"
    try:
        file = find_config(environ, system)
    except BadConfig as error:
        return fail(name, str(error), next_step)
    if file.text is None:
        where = "" if file.path is None else f"; it would be {file.path}"
        return ok(name, f"no file, defaults are used{where}")
    use(examine_config(file.text, str(file.path))[0])
    troubles = find_troubles(file.text, str(file.path))
    if troubles:
        more = f" (and {len(troubles) - 1} more)" if len(troubles) > 1 else ""
        return fail(name, troubles[0] + more, next_step)
    return ok(name, f"{file.path}: fine")
