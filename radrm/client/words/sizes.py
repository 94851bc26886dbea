"""The size of a job with a range or roles, as people read it."""

from __future__ import annotations

from radrm.errors import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.client.text import Document


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
