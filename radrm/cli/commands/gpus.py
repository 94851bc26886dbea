"""`radrm gpus`: show the GPUs, their memory and jobs, and remarks on them."""

from __future__ import annotations

from radrm.cli.parameters import JSON
from radrm.cli.show.devices import devices_page
from radrm.cli.show.styled import show
from radrm.client.connection import Client
from radrm.client.text import print_json

PARAMETERS = (JSON,)


def gpus(as_json: bool) -> None:
    """Show the GPUs: memory, SM activity, power, jobs.

    Below the table: remarks on their health (ECC errors, heat), and unmanaged processes.
    These are processes that radrm did not start.

    \b
    Examples:
      radrm gpus
      radrm gpus --json
    """
    with Client() as client:
        devices = client.ask("gpus")
    if as_json:
        print_json(devices)
    else:
        show(*devices_page(devices))
