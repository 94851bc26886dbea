"""Whether a daemon answers, and which one."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from radrm import __version__
from radrm.errors import DeviceError, Refused, Unreachable
from radrm.host.gpus.stream import ask as ask_program
from radrm.host.health.finding import Finding, fail, ok, warn
from radrm.host.service.code import code_of, fault_of, script
from radrm.host.service.files import UNIT, UNIT_PATH, State, current, files_of, state_of, under
from radrm.host.service.ownership import Ownership
from radrm.host.sockets import connect
from radrm.host.storage.paths import Paths, not_running, paths_for

_PATIENCE_S = 5.0
_LONGEST_ANSWER = 1 << 20

Asked = tuple[Paths, "dict[str, Any] | str"]
"""The folders of a daemon, and its answer to `ping`, or the reason why there is none."""


def ask_daemons(candidates: Sequence[Paths]) -> list[Asked]:
    """Ask the daemons in the order of every command, up to the first that accepts a request."""
    asked: list[Asked] = []
    for paths in candidates:
        try:
            about = ask(paths, "ping")
            asked.append((paths, about if isinstance(about, dict) else "it is not radrm"))
            break
        except Unreachable as error:
            asked.append((paths, str(error)))
        except (OSError, ValueError, RecursionError) as error:
            asked.append((paths, f"it accepted a request and gave no answer: {error}"))
            break
    return asked


def ask(paths: Paths, op: str) -> Any:
    """The daemon's answer; None if it is not an answer of radrm.

    Raises `Unreachable`, OSError, ValueError, RecursionError.
    """
    with connect(paths.socket, _PATIENCE_S) as client:
        client.sendall(json.dumps({"op": op}).encode() + b"\n")
        with client.makefile("rb") as lines:
            answer = json.loads(lines.readline(_LONGEST_ANSWER))
    return answer.get("result") if isinstance(answer, dict) else None


def daemon(asked: Sequence[Asked]) -> Finding:
    """Whether the daemon that commands use answers, and has this command's version."""
    paths, about = asked[-1]
    kind = "the system's" if paths == paths_for({}, 0) else "your own"
    if isinstance(about, str):
        if about.startswith("no process answers"):
            return warn("daemon", *not_running([paths for paths, _ in asked]))
        stuck = f"{kind}, in {paths.run}: {about}"
        return fail("daemon", stuck, "see its log and restart it; running jobs continue")
    version, pid = about.get("version"), about.get("pid")
    if version != __version__:
        other = f"{kind}, process {pid}, is radrm {version} and this command is {__version__}"
        return warn("daemon", other, "restart the daemon; running jobs continue")
    return ok("daemon", f"{kind}, process {pid}, answers in {paths.run}, radrm {version}")


def examined(asked: Sequence[Asked]) -> tuple[Paths, dict[str, Any] | None]:
    """The folders of the daemon to check, and its answer to `ping`.

    It is the daemon that answers, or else one that has run here, or else the user's own.
    """
    paths, about = asked[-1]
    if isinstance(about, dict):
        return paths, about
    there = [paths for paths, _ in asked if os.path.isdir(paths.state)]
    return (there or [asked[0][0]])[0], None


# ------------------------------------------------------------------
# The files of radrm's service, and who can change the code that it runs as root.


_STARTS = re.compile(r"^ExecStart=(\S+)", re.MULTILINE)


def is_installed(root: str = "/") -> bool:
    """Whether the administrator's folder has a unit of radrm."""
    return os.path.lexists(under(root, UNIT_PATH))


def files(root: str = "/", radrmd: str | None = None) -> Finding:
    """Whether the service's files are as this release writes them. Raises OSError."""
    name = "service files"
    try:
        radrmd = radrmd or script()
        unit = current(under(root, UNIT_PATH))
        states = [(file, state_of(file, root)) for file in files_of(radrmd)]
    except Refused as error:
        return warn(name, str(error), "run the doctor of the radrm that the service starts")
    again = f"sudo {os.path.dirname(radrmd)}/radrm service install"
    started = _STARTS.search(unit.text or "") if unit is not None else None
    if started is not None and started[1] != radrmd:
        other = f"{UNIT} starts {started[1]}, and this is {radrmd}"
        return warn(name, other, f"run the radrm beside that one; to use this one: {again}")
    for file, state in states:
        path = under(root, file.path)
        if state is State.EDITED:
            difference = f"{path} is not as radrm writes it"
            return warn(name, difference, "see the difference: radrm service install --dry-run")
        if state is State.OLDER:
            return warn(name, f"{path} is of another release", again)
        if state is State.NEW:
            return warn(name, f"{path} does not exist", again)
    return ok(name, "as this release writes them")


def code(radrmd: str | None = None, ownership: Ownership | None = None) -> Finding:
    """Whether only root can change the code that the service runs."""
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
    moved = "install radrm in a folder of root's, as docs/dgx.md says"
    step = f"chmod go-w {fault.path}" if fault.mode_only else moved
    return fail(name, f"{fault}, and root runs its code", step)


# ------------------------------------------------------------------
# Versions of the driver and of NVIDIA's tools that are known to be bad for radrm.
#
# Each entry has its source in a comment, and only what a source says is here. A version before
# `since` and one from `repaired` on are not concerned. nvidia-ml-py has no entry: radrm requires a
# version that is newer than 12.535.77, whose lists of processes were wrong
# (https://github.com/XuehaiPan/nvitop/issues/90).


LIMIT_S = 5.0
"""Real seconds for the question to DCGM."""


@dataclass(frozen=True, slots=True)
class Bad:
    """Versions from `since` on are bad, until `repaired`."""

    since: str
    repaired: str
    effect: str

    def has(self, version: str) -> bool:
        return _numbers(self.since) <= _numbers(version) < _numbers(self.repaired)


DRIVER = (
    # https://github.com/XuehaiPan/nvitop/pull/89: 535.43.02 changed the structure of the answer
    # without a new version of the function, and 535.98 took that back.
    Bad("535.43.02", "535.98", "lists wrong processes, so memory is counted for wrong jobs"),
    # https://docs.nvidia.com/datacenter/tesla/tesla-release-notes-570-133-20/, "Fixed Issues".
    Bad("570", "570.133.20", "can stop the kernel where GPU accounting is on"),
)
MPS = (
    # https://docs.nvidia.com/datacenter/tesla/tesla-release-notes-535-104-05/, "Fixed Issues",
    # number 4016266.
    Bad("535", "535.104.05", "has a fault in MPS when several clients fail at once"),
)
"""Versions of the driver, which brings MPS."""
DCGM = (
    # https://github.com/NVIDIA/DCGM/issues/65: 3.1.3 is wrong, 3.1.7 is right.
    Bad("3.1.3", "3.1.7", "reads a wrong DRAM activity"),
)


def versions(
    driver: str | None,
    mps: bool,
    which: Callable[[str], str | None] = shutil.which,
    ask: Callable[[Sequence[str], float], str] = ask_program,
) -> Finding:
    """Whether the versions of driver and DCGM are known to be bad. `mps`: it is switched on."""
    name, dcgm = "versions", _dcgm(which, ask)
    found = [("driver", driver, bad) for bad in (*DRIVER, *(MPS if mps else ()))]
    found += [("DCGM", dcgm, bad) for bad in DCGM]
    known = [
        (f"{what} {version} {bad.effect}", f"{what} {bad.repaired}")
        for what, version, bad in found
        if version is not None and bad.has(version)
    ]
    if known:
        faults, newer = zip(*known, strict=True)
        return warn(name, "; ".join(faults), f"install at least {' and '.join(newer)}")
    looked = [
        f"{what} {version}" for what, version in (("driver", driver), ("DCGM", dcgm)) if version
    ]
    return ok(name, f"nothing bad is known of {' and '.join(looked) or 'what is here'}")


def _dcgm(
    which: Callable[[str], str | None], ask: Callable[[Sequence[str], float], str]
) -> str | None:
    """The version of DCGM; None if it is not there, or does not say."""
    dcgmi = which("dcgmi")
    if dcgmi is None:
        return None
    try:
        printed = ask([dcgmi, "--version"], LIMIT_S)
    except DeviceError:
        return None
    found = re.search(r"version:?\s*(\d{1,3}(?:\.\d{1,4}){1,3})", printed, re.ASCII)
    return found[1] if found else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d{1,9}", version)[:4])
