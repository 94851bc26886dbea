"""The commands that a user may type next about a job."""

from __future__ import annotations

from radrm.client.states import FINAL, WAITING
from radrm.client.text import label
from radrm.errors import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.client.text import Document

_EDITS = {"begin_at": "--begin=none", "after": "--after=none"}
_EDITS |= {"idle": "--expect-idle", "silent": "--silent-limit=none"}


def next_steps(job: Document) -> list[str]:
    """The commands that users most often type next about a job in this state."""
    name, state = plain(label(job)), job["state"]
    if job.get("held"):
        return [f"radrm release {name}", f"radrm explain {name}"]
    if state in WAITING and job.get("behind"):
        ahead = plain(str(job["behind"]))
        return [f"radrm explain {ahead}", f"radrm edit {name} --priority=N", f"radrm cancel {name}"]
    if state in WAITING:
        change = "--gpu-memory=SIZE" if job.get("gpus") else ""
        for key in ("begin_at", "after"):
            change = _EDITS[key] if job.get(key) else change
        edit = [f"radrm edit {name} {change}"] if change else []
        return [f"radrm explain {name}", *edit, f"radrm cancel {name}"]
    if job.get("adopted"):
        return [f"radrm explain {name}", *([] if state in FINAL else [f"radrm cancel {name}"])]
    if state not in FINAL:
        spares = [_EDITS.get(w["kind"], "") for w in job.get("warnings") or ()]
        edits = [f"radrm edit {name} {' '.join(spares)}"] if any(spares) else []
        return [f"radrm logs {name} -f", *edits, f"radrm explain {name}"]
    if state == "COMPLETED":
        return [f"radrm logs {name}"]
    if not job["attempts"]:
        return [f"radrm explain {name}"]  # a requeued job would fail for the same reason
    return [f"radrm logs {name} --stderr", f"radrm requeue {name}"]
