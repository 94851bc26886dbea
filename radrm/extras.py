"""The command that adds an extra (`top`, `web`...) to the radrm that runs now.

Each way to install keeps its packages otherwise, and only its own command keeps what it adds: pipx
and uv leave a record in the environment, Debian's package has a place of its own. Nothing is
started to find out.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from contextlib import suppress
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from radrm.toml import parse_toml

PACKAGED = "/usr/lib/radrm"
"""The environment of the Debian package. It has no pip."""
_PIP = "-I", "-m", "pip"
"""Isolated: a `pip.py` in the present folder, which may be a user's, is not run as root."""
_PIPX, _UV = "pipx_metadata.json", "uv-receipt.toml"


def lacks(what: str, package: str, extra: str) -> str:
    """The message for a part of radrm that needs a package of an extra, with the command."""
    return f"{what} needs {package}; run: {command(extra)}"


def command(extra: str, prefix: str = "", python: str = "") -> str:
    """The shell command that adds an extra to the installation whose environment is `prefix`, by
    default this one. It keeps the extras that are there."""
    prefix, python = prefix or sys.prefix, python or sys.executable or "python3"
    own = os.access(prefix, os.W_OK)
    sudo = [] if own else ["sudo"]
    if os.path.exists(os.path.join(prefix, _PIPX)):
        everybody = [] if own else ["--global"]
        name = os.path.basename(prefix)
        return shlex.join([*sudo, "pipx", "inject", *everybody, name, *packages(extra)])
    if os.path.exists(os.path.join(prefix, _UV)):
        return shlex.join([*sudo, "uv", "tool", "install", *_for_uv(extra, prefix)])
    if prefix == PACKAGED:
        pip = ["sudo", "python3", *_PIP, "--python", python, "install", *packages(extra)]
        return f"sudo apt install python3-pip && {shlex.join(pip)}"
    if prefix == sys.prefix and find_spec("pip") is None:  # as `uv venv` makes one
        return shlex.join([*sudo, "uv", "pip", "install", "--python", python, *packages(extra)])
    return shlex.join([*sudo, python, *_PIP, "install", f"radrm[{extra}]"])


def packages(extra: str) -> list[str]:
    """What an extra asks for, as `textual>=0.86`: from the metadata of this radrm."""
    try:
        asked = metadata.requires("radrm") or []
    except metadata.PackageNotFoundError:  # it runs from a folder that nobody has installed
        asked = []
    found = []
    for line in asked:
        package, _, condition = line.partition(";")
        if condition.replace('"', "'").strip() == f"extra == '{extra}'":
            found.append(package.strip())
    return found or [f"radrm[{extra}]"]


def _for_uv(extra: str, prefix: str) -> list[str]:
    """The words after `uv tool install`: it keeps only what they name."""
    extras, beside = {extra}, []
    with suppress(OSError, ValueError, LookupError, TypeError):  # a receipt of another uv
        receipt: Any = parse_toml(Path(prefix, _UV).read_text())
        for each in receipt["tool"]["requirements"]:
            if each["name"] == "radrm":
                extras |= set(each.get("extras", ()))
            else:
                beside += ["--with", each["name"] + each.get("specifier", "")]
    return [*beside, f"radrm[{','.join(sorted(extras))}]{_origin()}"]


def _origin() -> str:
    """As ` @ file:///tmp/radrm.whl`: where this radrm was installed from; "" for an index."""
    with suppress(metadata.PackageNotFoundError, OSError, ValueError, LookupError, TypeError):
        text = metadata.distribution("radrm").read_text("direct_url.json")
        url, vcs = (document := json.loads(text or "")).get("url"), document.get("vcs_info")
        if url:
            return f" @ git+{url}@{vcs['commit_id']}" if vcs else f" @ {url}"
    return ""
