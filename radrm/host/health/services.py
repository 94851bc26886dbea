"""The services around radrm: systemd and radrm's own unit, DCGM, Docker; and the tracer's limits.

A check runs at most one command, which changes nothing and has a time limit.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from radrm.errors import DeviceError
from radrm.host.estimation import confine, start_tracer
from radrm.host.gpus.stream import ask
from radrm.host.health.finding import Finding, fail, ok, warn
from radrm.host.health.gpus import Driver

UNIT = "radrmd.service"
LIMIT_S = 5.0
"""Real seconds for one command."""
_UNIT_FACTS = (
    "LoadState", "UnitFileState", "ActiveState", "Result", "MainPID", "Delegate", "KillMode",
    "Type", "WatchdogUSec", "NeedDaemonReload",
)  # fmt: skip
_STARTS_BY_ITSELF = ("enabled", "enabled-runtime", "static", "linked", "generated", "alias")
_INSTALL = 'install it: sudo "$(command -v radrm)" service install'
_LOG = f"see why: journalctl -u {UNIT} -n 50"
_TRACES = (
    "allow user namespaces (sysctl user.max_user_namespaces, and on Ubuntu "
    "kernel.apparmor_restrict_unprivileged_userns=0), or set estimation.trace = false"
)
_CONTAINERS = "run radrm as root (its service), or use rootless Docker or Podman instead"

Which = Callable[[str], "str | None"]
Ask = Callable[[Sequence[str], float], str]


# ------------------------------------------------------------------ systemd


def systemd(
    system: bool,
    daemon: int | None,
    which: Which = shutil.which,
    ask: Ask = ask,
    booted: Path = Path("/run/systemd/system"),
) -> Finding:
    """Whether systemd starts and keeps the daemon.

    `system`: the check is about the daemon of the whole server; `daemon` is its process, None if
    none answers.
    """
    name = "systemd"
    if not booted.is_dir():
        if system:
            none = "this machine does not run systemd, so nothing starts radrm after a reboot"
            return warn(name, none, "let this machine's service manager start: radrm daemon")
        return ok(name, "this machine does not run systemd; the daemon is started by hand")
    systemctl = which("systemctl")
    if systemctl is None:
        return warn(name, "systemd runs, but systemctl is not on PATH", "add its folder to PATH")
    command = [systemctl, "show", "--no-pager", f"--property={','.join(_UNIT_FACTS)}", UNIT]
    try:
        facts = _facts(ask(command, LIMIT_S))
    except DeviceError as error:
        return warn(name, str(error), f"check it by hand: systemctl status {UNIT}")
    if facts.get("LoadState") == "not-found":
        if system:
            return warn(name, f"{UNIT} is not installed: nothing starts radrm at boot", _INSTALL)
        return ok(name, f"{UNIT} is not installed; the daemon is your own")
    return _unit(facts, daemon if system else None)


def _unit(facts: Mapping[str, str], daemon: int | None) -> Finding:
    """The worst finding about radrm's unit. A fact that systemctl omits counts as correct."""
    name, look = "systemd", f"see: systemctl status {UNIT}"
    load, enabled = facts.get("LoadState", ""), facts.get("UnitFileState", "")
    active = facts.get("ActiveState", "")
    if load == "masked":
        return warn(name, f"{UNIT} is masked: it cannot start", f"systemctl unmask {UNIT}")
    if load != "loaded":
        return fail(name, f"{UNIT} cannot be used as it is ({load or 'unknown'})", look)
    if active in ("failed", "activating"):
        result = facts.get("Result", "success")
        why = f" ({result})" if result != "success" else ""
        state = "has failed" if active == "failed" else "is starting, or restarts again and again"
        return fail(name, f"{UNIT} {state}{why}", _LOG)
    if facts.get("KillMode", "process") not in ("process", "none"):
        ends = f"KillMode={facts['KillMode']} in {UNIT}: a stop of the service ends all jobs"
        return fail(name, ends, "set KillMode=process, then: systemctl daemon-reload")
    pid = facts.get("MainPID", "0")
    if daemon is not None and active == "active" and pid not in ("0", str(daemon)):
        two = f"process {daemon} answers, and {UNIT} runs process {pid}"
        return warn(name, two, f"end process {daemon}, which was started by hand")
    if daemon is not None and active == "inactive":
        return warn(
            name,
            f"process {daemon} answers, and {UNIT} has not started it",
            f"end it (running jobs continue), then: systemctl start {UNIT}",
        )
    if active == "inactive":
        return warn(name, f"{UNIT} does not run", f"systemctl enable --now {UNIT}")
    if enabled and enabled not in _STARTS_BY_ITSELF:
        return warn(name, f"{UNIT} does not start at boot ({enabled})", f"systemctl enable {UNIT}")
    if facts.get("Delegate") == "no":
        return warn(
            name,
            f"{UNIT} may not make control groups for jobs; they are ended process by process",
            "set Delegate=yes in it, then: systemctl daemon-reload",
        )
    if facts.get("NeedDaemonReload") == "yes":
        changed = f"{UNIT} has changed since systemd read it"
        return warn(name, changed, "systemctl daemon-reload; systemctl restart radrmd")
    if facts.get("Type", "notify") not in ("notify", "notify-reload"):
        blind = f"Type={facts['Type']} in {UNIT}: systemd does not know when the daemon serves"
        return warn(name, blind, _INSTALL)
    if facts.get("WatchdogUSec", "5min") in ("0", "infinity"):
        hangs = f"{UNIT} has no WatchdogSec: systemd does not restart a daemon that hangs"
        return warn(name, hangs, _INSTALL)
    return ok(name, f"{UNIT} runs and starts at boot")


def _facts(printed: str) -> dict[str, str]:
    """The values in lines of `NAME=value`."""
    pairs = (line.partition("=") for line in printed.splitlines()[:100])
    return {key.strip(): value.strip() for key, equals, value in pairs if equals}


NVIDIA_UNITS = tuple(
    f"nvidia-{name}.service"
    for name in ("persistenced", "fabricmanager", "imex", "mig-manager", "dcgm")
)
"""The services after which radrm's unit starts: some GPUs cannot be used or read without them."""


def nvidia_services(
    system: bool,
    which: Which = shutil.which,
    ask: Ask = ask,
    booted: Path = Path("/run/systemd/system"),
) -> Finding:
    """Whether NVIDIA's services run that are installed, and start before radrm.

    `system`: the check is about the daemon of the whole server.
    """
    name, systemctl = "NVIDIA services", which("systemctl")
    if not booted.is_dir() or systemctl is None:
        return ok(name, "this machine does not run systemd")
    wanted = "--property=Id,LoadState,ActiveState,UnitFileState,After"
    try:
        printed = ask([systemctl, "show", "--no-pager", wanted, UNIT, *NVIDIA_UNITS], LIMIT_S)
    except DeviceError as error:
        return warn(name, str(error), f"check them by hand: systemctl status {NVIDIA_UNITS[0]}")
    units = {facts.get("Id"): facts for facts in map(_facts, printed.split("\n\n"))}
    there = [each for each in NVIDIA_UNITS if units.get(each, {}).get("LoadState") == "loaded"]
    failed = [each for each in there if units[each].get("ActiveState") == "failed"]
    if failed:
        step = f"see why: journalctl -u {failed[0]} -n 50; if it is not needed here, disable it"
        return warn(name, f"{', '.join(failed)} failed", step)
    radrm = units.get(UNIT, {})
    starts = [u for u in there if units[u].get("UnitFileState") in _STARTS_BY_ITSELF]
    early = [each for each in starts if each not in radrm.get("After", "").split()]
    if system and radrm.get("LoadState") == "loaded" and early:
        before = f"{UNIT} may start before {', '.join(early)}, so its first jobs may fail"
        return warn(name, before, f"add After={' '.join(early)} to it, or {_INSTALL}")
    active = [each for each in there if units[each].get("ActiveState") == "active"]
    return ok(name, f"{', '.join(active) or 'none'} {'run' if len(active) > 1 else 'runs'}")


def logind(
    which: Which = shutil.which, ask: Ask = ask, booted: Path = Path("/run/systemd/system")
) -> Finding:
    """Whether logging out takes shared memory from a user's running jobs (logind.conf(5)).

    logind itself is asked, because the setting can come from several files and its default from
    the distribution.
    """
    name, busctl = "logging out", which("busctl")
    if not booted.is_dir() or busctl is None:
        return ok(name, "logind does not run here, so logging out takes nothing from jobs")
    place = "org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager"
    try:
        printed = ask([busctl, "get-property", *place, "RemoveIPC"], LIMIT_S).split()
    except DeviceError as error:
        return ok(name, f"whether logind has RemoveIPC=yes is unknown: {error}")
    if printed == ["b", "false"]:
        return ok(name, "jobs keep their shared memory (RemoveIPC=no)")
    if printed != ["b", "true"]:
        return ok(name, "whether logind has RemoveIPC=yes is unknown: its answer is")
    takes = "when a user logs out, running jobs lose shared memory and semaphores (RemoveIPC=yes)"
    return warn(name, takes, "set RemoveIPC=no in logind.conf: docs/dgx.md, step 6")


# ------------------------------------------------------------------ DCGM


def dcgm(driver: Driver, wanted: str, which: Which = shutil.which, ask: Ask = ask) -> Finding:
    """Whether DCGM's host engine answers. `wanted` is `readings.smact`.

    If the driver has the counters itself (GPM), or another source is wanted, radrm does not need
    DCGM.
    """
    name = "DCGM"
    has_gpm = bool(driver.gpus) and all(gpu.gpm for gpu in driver.gpus)
    needed = wanted == "dcgm" or (wanted == "auto" and not has_gpm)
    dcgmi = which("dcgmi")
    if dcgmi is None:
        return ok(name, "dcgmi is not on PATH" + ("" if needed else "; nothing here needs it"))
    try:
        found = _number_of_gpus(ask([dcgmi, "discovery", "-l"], LIMIT_S))
    except DeviceError as error:
        if not needed:
            return ok(name, f"{error}; nothing here needs it")
        silent = f"its host engine does not answer ({error}), so SM activity is not read"
        start = "start it: systemctl enable --now nvidia-dcgm"
        return fail(name, silent, start) if wanted == "dcgm" else warn(name, silent, start)
    if found is None:
        return warn(name, "dcgmi's answer has an unknown format", "see: dcgmi --version")
    there = len(driver.gpus)
    if found < there and needed:
        fewer = f"its host engine knows {found} GPUs and the driver {there}"
        return warn(name, fewer, "systemctl restart nvidia-dcgm")
    return ok(name, f"its host engine answers and knows {found} GPUs")


def _number_of_gpus(printed: str) -> int | None:
    """The number in `4 GPUs found.`; None if there is none."""
    found = re.search(r"^(\d{1,4}) GPUs? found", printed, re.MULTILINE | re.ASCII)
    return int(found[1]) if found else None


# ------------------------------------------------------------------ traces


def traces(wanted: bool, owner: int, uid: int, ask: Ask = ask) -> Finding:
    """Whether a traced training step runs without network and with limited processes.

    `wanted` is `estimation.trace`, `owner` the daemon's user, `uid` this command's user.
    """
    name = "traces"
    if not wanted:
        return ok(name, "no training step is traced (estimation.trace = false)")
    if uid != owner:
        return ok(name, f"only user {owner}, who runs the daemon, can check their limits")
    try:
        flags = int(ask(start_tracer.PROBE, LIMIT_S))
    except (DeviceError, ValueError) as error:
        return warn(name, f"their limits cannot be checked: {error}", _TRACES)
    if not flags & confine.NEW_NET:
        return warn(name, "the kernel does not let this user run them without network", _TRACES)
    more = "" if flags & confine.NEW_USER else " more than its user has"
    most = f"at most {confine.MOST_PROCESSES} processes{more}"
    return ok(name, f"a trace has no network and {most}")


# ------------------------------------------------------------------ containers


def docker(
    root: bool,
    sockets: Sequence[str] = ("/run/docker.sock", "/var/run/docker.sock"),
    may_use: Callable[[str], bool] = lambda path: os.access(path, os.W_OK),
) -> Finding:
    """Whether radrm can find the job of a container that uses a GPU. `root`: radrm runs as root."""
    name = "containers"
    path = next(filter(_is_root_socket, sockets), None)
    if path is None:
        return ok(name, "no Docker runs as root here")
    if root:
        return ok(name, "Docker and radrm run as root: radrm finds the job of each container")
    if not may_use(path):
        return ok(name, "Docker runs as root; this user may not use it")
    return warn(
        name,
        "Docker runs as root and radrm does not: it cannot find the job of a container, so the "
        "container's GPU memory counts as an unmanaged process's and not as its job's",
        _CONTAINERS,
    )


def _is_root_socket(path: str) -> bool:
    try:
        found = os.stat(path)
    except OSError:
        return False
    return stat.S_ISSOCK(found.st_mode) and found.st_uid == 0
