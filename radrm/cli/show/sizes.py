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


def size_text(job: Document) -> str:
    """The present size of a job with a range or roles: `2 of 1-4 GPUs`; "" for others.

    With the size that a resize under way leads to: `2 of 1-4 GPUs, changing to 3`.
    """
    roles = job.get("roles") or []
    if not roles:
        return ""
    if len(roles) == 1 and roles[0]["gpus"]:
        span = _span(job["gpus_min"], job["gpus_max"])
        held = "" if roles[0]["count"] is None else f"{job['gpus']} of "
        found = f"{held}{span} GPU{'' if span == '1' else 's'}"
    else:
        found = ", ".join(map(_role_text, roles))
    then = job.get("resizing")
    if then is None:
        return found
    if len(roles) == 1 and roles[0]["gpus"]:
        return f"{found}, changing to {then['gpus']}"
    counts = (f"{name} {count}" for name, count in then["roles"].items())
    return f"{found}, changing to {plain(', '.join(counts))}"


def requested_size(job: Document) -> str:
    """The GPUs or tasks that a job asks for: `1-4 GPUs with 4-16 CPUs each`."""
    roles = job.get("roles") or []
    if not roles:
        return f"{job['gpus']} GPU{'' if job['gpus'] == 1 else 's'}"
    found = []
    for role in roles:
        if len(roles) == 1 and role["gpus"]:
            span = _span(job["gpus_min"], job["gpus_max"])
            text = f"{span} GPU{'' if span == '1' else 's'}"
        else:
            text = plain(f"{role['name']} {_span(role['min'], role['max'])}")
        if role["cpus"] is not None:
            most = role["cpus_max"]
            up_to = "" if most is None else f"-{most:g}"
            text += f" with {role['cpus']:g}{up_to} CPUs each"
        found.append(text)
    return ", ".join(found)


def _role_text(role: Document) -> str:
    held = "" if role["count"] is None else f"{role['count']} of "
    return plain(f"{role['name']} {held}{_span(role['min'], role['max'])}")


def _span(least: int, most: int) -> str:
    return f"{least}" if least == most else f"{least}-{most}"


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
