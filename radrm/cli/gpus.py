"""`radrm gpus`: the devices, who is on them, what is free."""

from __future__ import annotations

from radrm.cli.client import Client
from radrm.cli.options import Json
from radrm.cli.render import devices_table, out, print_json


def gpus(as_json: Json = False) -> None:
    """Show the devices: memory, SM activity, power, jobs.

    \b
    Examples:
      radrm gpus
      radrm gpus --json
    """
    with Client() as client:
        found = client.ask("gpus")
    if as_json:
        print_json(found)
    else:
        out().print(devices_table(found))
