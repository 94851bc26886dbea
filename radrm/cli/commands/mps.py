"""`radrm mps`: show, start and stop CUDA MPS on this server's GPUs."""

from __future__ import annotations

import time
from typing import Any

from radrm.cli.parameters import DEVICES, FLAG, JSON, YES, Parameter
from radrm.cli.results import show_results
from radrm.cli.show.question import be_sure
from radrm.client.connection import Client
from radrm.client.text import Document, print_json, say
from radrm.core.units import gpus_named
from radrm.errors import UsageError

_PATIENCE_S = 60.0
_PAUSE_S = 0.1
_QUIET_S = 1.0
"""So long a command waits before it says what for."""
_SETTLED = {True: ("up", "down"), False: ("off",)}
"""The states that a start and a stop can lead to."""


STATUS_PARAMETERS = (JSON,)


def status(as_json: bool) -> None:
    """Show the MPS control daemons.

    With their GPUs, their clients, and errors.

    \b
    Examples:
      radrm mps status
      radrm mps status --json
    """
    with Client() as client:
        rows = client.ask("mps")
        served = client.ask("gpus")
    if as_json:
        print_json(rows)
        return
    for row in rows:
        say(*_lines(row))
    if not rows:
        simulated = [gpu["index"] for gpu in served if gpu.get("mps")]
        if simulated:
            say(f"MPS is simulated on {gpus_named(simulated)}; no control daemon is needed.")
        else:
            say("MPS is off; to enable it, set mps.enabled = true in the configuration.")


START_PARAMETERS = (DEVICES, JSON)


def start(devices: list[str], as_json: bool) -> int:
    """Start MPS on GPUs; a setting leaves some out.

    The setting is mps.enabled. Only root and the user of the daemon may do this. It holds until
    the daemon restarts.
    Without DEVICE, MPS starts on all GPUs.

    \b
    Examples:
      radrm mps start
      radrm mps start 0 1
    """
    return _command("mps-start", devices, True, as_json)


STOP_PARAMETERS = (
    DEVICES,
    Parameter("force", FLAG, "End the jobs that use MPS.", flags=("--force",)),
    *(YES, JSON),
)


def stop(devices: list[str], force: bool, yes: bool, as_json: bool) -> int:
    """Stop MPS on GPUs; jobs then share them by time-slicing.

    Only root and the user of the daemon may do this. It holds until the daemon restarts.
    While jobs use MPS, this is refused without --force. Without DEVICE, MPS stops on all GPUs:
    on a terminal you are asked first, elsewhere it needs --yes.

    \b
    Examples:
      radrm mps stop 2
      radrm mps stop --yes --force
    """
    if yes and devices:
        raise UsageError("--yes means all GPUs; leave it out, or the named ones")
    if not devices and not yes:
        be_sure("Stop MPS on all GPUs of this server?", "name GPUs, or add --yes")
    return _command("mps-stop", devices, False, as_json, force=force)


# ------------------------------------------------------------------ start and stop


def _command(command: str, devices: list[str], on: bool, as_json: bool, **words: Any) -> int:
    """Start or stop MPS, wait until it has started or stopped, and show the results."""
    with Client() as client:
        results = client.ask(command, devices=devices, **words)
        wanted = [r["uuid"] for r in results if r["error"] is None]
        rows = _settled(client, wanted, on)
    for result in results:
        row = rows.get(result["uuid"])
        if result["error"] is None and (row is None or row["state"] not in _fine(on)):
            why = row["fault"] if row is not None else None
            state = row["state"] if row is not None else "unknown"
            result["error"] = f"MPS of GPU {result['index']} is {state}: {why or 'see the log'}"
    done = "Started" if on else "Stopped"
    return show_results(results, lambda r: f"{done} MPS on GPU {r['index']}", as_json)


def _fine(on: bool) -> tuple[str, ...]:
    return _SETTLED[on][:1]


def _settled(client: Client, uuids: list[str], on: bool) -> dict[str, Document]:
    """Wait until MPS has started or stopped on these GPUs, or time is up. Returns their rows.

    Standard error says what it waits for.
    """
    began, said = time.monotonic(), set[str]()
    while True:
        rows = {uuid: row for row in client.ask("mps") for uuid in row["uuids"]}
        left = [rows[u] for u in uuids if u in rows and rows[u]["state"] not in _SETTLED[on]]
        waited_s = time.monotonic() - began
        if not left or waited_s > _PATIENCE_S:
            return rows
        for line in map(_waits_for, left if waited_s > _QUIET_S else ()):
            if line not in said:
                say(line, error=True)
                said.add(line)
        time.sleep(_PAUSE_S)


def _waits_for(row: Document) -> str:
    why = f": {row['fault']}" if row["fault"] else ""
    return f"Waiting for {_name(row)}, which is {row['state']}{why}"


# ------------------------------------------------------------------ status


def _lines(row: Document) -> list[str]:
    """As `GPU 0: up, control daemon 4711, 2 clients (job 12, job 13)`."""
    name = _name(row)
    clients = [c for server in row["servers"] for c in server["clients"]]
    words = [row["state"]]
    if row["pid"] is not None:
        words.append(f"control daemon {row['pid']}")
        words.append(_clients(clients))
    lines = [f"{name}: {', '.join(words)}"]
    if row["fault"]:
        lines.append(f"  {row['fault']}")
    if row["wanted"] or row["pid"] is not None:
        lines.append(f"  pipes {row['pipes']}, logs {row['logs']}")
    return lines


def _name(row: Document) -> str:
    return gpus_named(row["gpus"])


def _clients(clients: list[Document]) -> str:
    jobs = sorted({c["job"] for c in clients if c["job"] is not None})
    unmanaged = sum(c["job"] is None for c in clients)
    parts = [f"job {job}" for job in jobs]
    if unmanaged:
        parts.append(f"{unmanaged} unmanaged")
    many = f"{len(clients)} client{'s' if len(clients) != 1 else ''}"
    return f"{many} ({', '.join(parts)})" if parts else many
