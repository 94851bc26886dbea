"""`radrm mps`: CUDA's MPS on this server's GPUs, looked at, started and stopped."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from radrm.cli.commands.drain import on_terminal
from radrm.cli.options import Devices, Json
from radrm.cli.orders import tell
from radrm.client.connection import Client
from radrm.client.text import Document, print_json
from radrm.errors import plain

mps = typer.Typer(
    name="mps",
    help="CUDA MPS: jobs of one user share a GPU, each with a memory cap.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_PATIENCE_S = 60.0
_PAUSE_S = 0.1
_SETTLED = {True: ("up", "down"), False: ("off",)}
"""The states that a start and a stop can lead to."""


@mps.command()
def status(as_json: Json = False) -> None:
    """Show the MPS control daemons: which GPUs they serve, their clients, what is wrong.

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
        for line in _lines(row):
            print(plain(line))
    if not rows:
        modelled = [str(g["index"]) for g in served if g.get("mps")]
        if modelled:
            print(f"MPS is modelled on GPU {', '.join(modelled)}; no control daemon is needed.")
        else:
            print("There is no MPS here; to have it: mps.enabled = true in the configuration.")


@mps.command()
def start(devices: Devices = None, as_json: Json = False) -> None:
    """Have MPS serve GPUs, also such as mps.enabled leaves out.

    For root and the daemon's own user. It holds until the daemon is started again.

    \b
    Examples:
      radrm mps start
      radrm mps start 0 1
    """
    _order("mps-start", devices or [], True, as_json)


@mps.command()
def stop(
    devices: Devices = None,
    force: Annotated[bool, typer.Option("--force", help="End the jobs that are clients.")] = False,
    yes: Annotated[bool, typer.Option("--all", help="All GPUs, without asking.")] = False,
    as_json: Json = False,
) -> None:
    """Have MPS serve GPUs no more; jobs share them by time-slicing then.

    For root and the daemon's own user. It holds until the daemon is started again. Where jobs
    are clients it is refused, unless they are to be ended.

    \b
    Examples:
      radrm mps stop 2
      radrm mps stop --all --force
    """
    if not devices and not yes and on_terminal():
        typer.confirm("Stop MPS on all GPUs of this server?", abort=True, err=True)
    _order("mps-stop", devices or [], False, as_json, force=force)


# ------------------------------------------------------------------ orders


def _order(op: str, devices: list[str], on: bool, as_json: bool, **words: Any) -> None:
    """Give the order, wait until it has had its effect, say what came of it."""
    with Client() as client:
        results = client.ask(op, devices=devices, **words)
        wanted = [r["uuid"] for r in results if r["error"] is None]
        rows = _settled(client, wanted, on)
    for result in results:
        row = rows.get(result["uuid"])
        if result["error"] is None and (row is None or row["state"] not in _fine(on)):
            why = row["trouble"] if row is not None else None
            state = row["state"] if row is not None else "unknown"
            result["error"] = f"MPS of GPU {result['index']} is {state}: {why or 'see the log'}"
    done = "MPS serves" if on else "MPS serves no more"
    tell(results, lambda r: f"{done}: GPU {r['index']}", as_json)


def _fine(on: bool) -> tuple[str, ...]:
    return _SETTLED[on][:1]


def _settled(client: Client, uuids: list[str], on: bool) -> dict[str, Document]:
    """The row of each of these GPUs, once nothing more is to come or patience ends."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        rows = {uuid: row for row in client.ask("mps") for uuid in row["uuids"]}
        done = all(rows[u]["state"] in _SETTLED[on] for u in uuids if u in rows)
        if done or time.monotonic() > deadline:
            return rows
        time.sleep(_PAUSE_S)


# ------------------------------------------------------------------ a page


def _lines(row: Document) -> list[str]:
    """As `GPU 0: up, control daemon 4711, 2 clients (job 12, job 13)`."""
    name = f"GPU {', '.join(map(str, row['gpus']))}"
    clients = [c for server in row["servers"] for c in server["clients"]]
    words = [row["state"]]
    if row["pid"] is not None:
        words.append(f"control daemon {row['pid']}")
        words.append(_clients(clients))
    lines = [f"{name}: {', '.join(words)}"]
    if row["trouble"]:
        lines.append(f"  {row['trouble']}")
    if row["wanted"] or row["pid"] is not None:
        lines.append(f"  pipes {row['pipes']}, logs {row['logs']}")
    return lines


def _clients(clients: list[Document]) -> str:
    jobs = sorted({c["job"] for c in clients if c["job"] is not None})
    strangers = sum(c["job"] is None for c in clients)
    parts = [f"job {job}" for job in jobs]
    if strangers:
        parts.append(f"{strangers} that radrm did not start")
    many = f"{len(clients)} client{'s' if len(clients) != 1 else ''}"
    return f"{many} ({', '.join(parts)})" if parts else many
