"""The services around radrm: systemd and radrm's own unit, logind; the tracer's limits; who can
change the service's code.

A check runs at most one command, which changes nothing and has a time limit.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from radrm.errors import DeviceError, Refused
from radrm.host.estimation import confine, start_tracer
from radrm.host.gpus.stream import ask
from radrm.host.health.finding import Finding, fail, ok, warn
from radrm.host.service.files import UNIT

if TYPE_CHECKING:
    from radrm.host.service.ownership import Ownership

LIMIT_S = 5.0
"""Real seconds for one command."""
_FACTS = "LoadState,UnitFileState,ActiveState,Result,Delegate,KillMode"
_STARTS_BY_ITSELF = ("enabled", "enabled-runtime", "static", "linked", "generated", "alias")
_INSTALL = 'install it: sudo "$(command -v radrm)" service install'
_LOG = f"see why: journalctl -u {UNIT} -n 50"
_NO_TRACES = "set estimation.trace = false"

_KEEP_IPC = (
    r"sudo mkdir -p /etc/systemd/logind.conf.d; printf '[Login]\nRemoveIPC=no\n' | sudo tee "
    "/etc/systemd/logind.conf.d/radrm.conf; in force after a reboot"
)

Which = Callable[[str], "str | None"]
Ask = Callable[[Sequence[str], float], str]


# ------------------------------------------------------------------ systemd


def systemd(
    system: bool,
    which: Which = shutil.which,
    ask: Ask = ask,
    booted: Path = Path("/run/systemd/system"),
) -> Finding:
    """Whether systemd starts and keeps the daemon.

    `system`: the check is about the daemon of the whole server.
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
    command = [systemctl, "show", "--no-pager", f"--property={_FACTS}", UNIT]
    try:
        facts = _facts(ask(command, LIMIT_S))
    except DeviceError as error:
        return warn(name, str(error), f"check it by hand: systemctl status {UNIT}")
    if facts.get("LoadState") == "not-found":
        if system:
            return warn(name, f"{UNIT} is not installed: nothing starts radrm at boot", _INSTALL)
        return ok(name, f"{UNIT} is not installed; the daemon is your own")
    return _unit(facts)


def _unit(facts: Mapping[str, str]) -> Finding:
    """The worst finding about radrm's unit. A fact that systemctl omits counts as correct."""
    name, look = "systemd", f"see: systemctl status {UNIT}"
    load, enabled = facts.get("LoadState", ""), facts.get("UnitFileState", "")
    active = facts.get("ActiveState", "")
    if load == "masked":
        return warn(name, f"{UNIT} is masked: it cannot start", f"sudo systemctl unmask {UNIT}")
    if load != "loaded":
        return fail(name, f"{UNIT} cannot be used as it is ({load or 'unknown'})", look)
    if active in ("failed", "activating"):
        result = facts.get("Result", "success")
        why = f" ({result})" if result != "success" else ""
        state = "has failed" if active == "failed" else "is starting, or restarts again and again"
        return fail(name, f"{UNIT} {state}{why}", _LOG)
    if facts.get("KillMode", "process") not in ("process", "none"):
        ends = f"KillMode={facts['KillMode']} in {UNIT}: a stop of the service ends all jobs"
        return fail(name, ends, f"sudo systemctl edit {UNIT}: [Service] KillMode=process")
    if active == "inactive":
        return warn(name, f"{UNIT} does not run", f"sudo systemctl enable --now {UNIT}")
    if enabled and enabled not in _STARTS_BY_ITSELF:
        return warn(
            name, f"{UNIT} does not start at boot ({enabled})", f"sudo systemctl enable {UNIT}"
        )
    if facts.get("Delegate") == "no":
        return warn(
            name,
            f"{UNIT} may not make control groups for jobs; they are ended process by process",
            f"sudo systemctl edit {UNIT}: [Service] Delegate=yes",
        )
    return ok(name, f"{UNIT} runs and starts at boot")


def _facts(printed: str) -> dict[str, str]:
    """The values in lines of `NAME=value`."""
    pairs = (line.partition("=") for line in printed.splitlines()[:100])
    return {key.strip(): value.strip() for key, equals, value in pairs if equals}


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
    return warn(name, takes, _KEEP_IPC)


# ------------------------------------------------------------------ traces


def traces(wanted: bool, owner: int, uid: int, ask: Ask = ask) -> Finding:
    """Whether training steps can be traced: in a sandbox, or not at all.

    `wanted` is `estimation.trace`, `owner` the daemon's user, `uid` this command's user.
    """
    name = "traces"
    if not wanted:
        return ok(name, "no training step is traced (estimation.trace = false)")
    if uid != owner:
        return ok(name, f"only user {owner}, who runs the daemon, can check their limits")
    try:
        answer = ask(start_tracer.PROBE, LIMIT_S).strip()
    except DeviceError as error:
        return warn(name, f"their sandbox cannot be checked: {error}", _NO_TRACES)
    if answer not in (start_tracer.APART, start_tracer.TOGETHER):
        cause, _, step = answer.partition("; ")
        return warn(name, f"no training step is traced: {cause}", step or _NO_TRACES)
    more = "" if answer == start_tracer.APART else " more than its user has"
    most = f"at most {confine.MOST_PROCESSES} processes{more}"
    return ok(name, f"a trace changes no file, has no network and {most}")


# ------------------------------------------------------------------ the service's code


def code(radrmd: str | None = None, ownership: Ownership | None = None) -> Finding:
    """Whether only root can change the code that the service runs."""
    from radrm.host.service.code import code_of, fault_of, script  # only root's doctor needs it
    from radrm.host.service.ownership import Ownership

    name = "service code"
    try:
        fault = fault_of(code_of(radrmd or script()), ownership or Ownership(lasting=True))
    except Refused as error:
        return warn(name, str(error), "run the doctor of the radrm that the service starts")
    except OSError as error:
        unseen = f"this user cannot look at {error.filename}"
        return ok(name, f"{unseen}; root can: sudo radrm doctor")
    if fault is None:
        return ok(name, "only root can change it")
    moved = "install radrm in a folder of root's, as `radrm help dgx` says"
    step = f"chmod go-w {fault.path}" if fault.mode_only else moved
    return fail(name, f"{fault}, and root runs its code", step)
