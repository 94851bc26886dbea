"""The size of a job with a range or roles, and its tasks, as people read them."""

from __future__ import annotations

from radrm.cli.show.columns import Column, Rows
from radrm.core.units import show_mib, show_seconds
from radrm.errors import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from radrm.client.text import Document

MOST_TASKS = 32
"""Tasks that a card shows; `status --json` has all of them."""


def tasks_table(tasks: Sequence[Document], index: Mapping[str, int]) -> Rows:
    """A row for each of a job's first tasks. `index`: the GPUs' indices."""
    ended = any(task["exit_code"] is not None for task in tasks)
    table = Rows(
        (
            Column("TASK"),
            Column("GPU"),
            Column("CPUS", right=True),
            Column("CPU TIME", right=True, rank=2),
            Column("MEMORY", right=True, rank=1),
            *[Column("EXIT CODE", right=True)] * ended,
        )
    )
    for task in tasks[:MOST_TASKS]:
        table.add(
            plain(f"{task['role']} {task['task']}"),
            ",".join(str(index.get(uuid, plain(uuid[:12]))) for uuid in task["gpus"]) or "-",
            "-" if task["cpus"] is None else f"{task['cpus']:g}",
            show_seconds(task["cpu_s"]),
            show_mib(task["memory_mib"]),
            *["-" if task["exit_code"] is None else str(task["exit_code"])] * ended,
        )
    if len(tasks) > MOST_TASKS:
        table.add(f"and {len(tasks) - MOST_TASKS} more", *[""] * (len(table.columns) - 1))
    return table
