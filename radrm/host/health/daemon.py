"""Whether a daemon answers, and which one."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from radrm import __version__
from radrm.errors import Unreachable
from radrm.host.health.finding import Finding, fail, ok, warn
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
    system = paths == paths_for({}, 0)
    kind = "the system's" if system else "your own"
    restart = "sudo systemctl restart radrmd" if system else "radrm config reload"
    if isinstance(about, str):
        if about.startswith("no process answers"):
            return warn("daemon", *not_running([paths for paths, _ in asked]))
        stuck = f"{kind}, in {paths.run}: {about}"
        log = "journalctl -u radrmd -n 50; then: " if system else "see its log; then: end it and "
        again = "sudo systemctl restart radrmd" if system else "run radrm daemon"
        return fail("daemon", stuck, f"{log}{again}; running jobs continue")
    version, pid = about.get("version"), about.get("pid")
    if version != __version__:
        other = f"{kind}, process {pid}, is radrm {version} and this command is {__version__}"
        return warn("daemon", other, f"{restart}; running jobs continue")
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
