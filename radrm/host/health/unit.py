"""The files of radrm's service, and who can change the code that it runs as root."""

from __future__ import annotations

import os
import re

from radrm.errors import Refused
from radrm.host.health.finding import Finding, fail, ok, warn
from radrm.host.service.code import code_of, fault_of, script
from radrm.host.service.files import UNIT, UNIT_PATH, State, current, files_of, state_of, under
from radrm.host.service.ownership import Ownership

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
