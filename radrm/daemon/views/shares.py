"""The recent GPU time of users and groups, and whose job is next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from radrm.core.records import Use
from radrm.core.snapshot import Snapshot
from radrm.daemon.views.documents import Document

Name = TypeVar("Name", int, str)


def shares(snapshot: Snapshot) -> Document:
    """The users with recent GPU time or unfinished jobs, most time first, and the groups.

    `rank`: 1 for the user whose job is first in the line for GPUs; null without a job there.
    """
    recent = snapshot.uses
    names = {job.spec.uid: job.spec.user for job in snapshot.jobs}
    running = Counter(job.spec.uid for job, _ in snapshot.running)
    waiting = Counter(job.spec.uid for job in snapshot.jobs if job.state.waiting)
    line, _ = snapshot.lines
    ranks = {uid: at for at, uid in enumerate(dict.fromkeys(job.spec.uid for job in line), 1)}
    uses = {each.uid: each.own for each in recent.users}
    names.update((each.uid, each.user) for each in recent.users)
    users = _with_shares((uid, uses.get(uid, Use())) for uid in sorted(names))
    groups = _with_shares(recent.groups)
    return {
        "half_life_s": snapshot.settings.use_half_life_s,
        "users": [
            {
                "user": names[uid],
                "uid": uid,
                **figures,
                "running": running[uid],
                "waiting": waiting[uid],
                "rank": ranks.get(uid),
            }
            for uid, figures in users
        ],
        "groups": [{"group": name, **figures} for name, figures in groups],
    }


def _with_shares(uses: Iterable[tuple[Name, Use]]) -> list[tuple[Name, Document]]:
    """The figures of each use, most first, with its share (0..1) of the sum; null without any."""
    found = sorted(uses, key=lambda each: -each[1].gpu_s)
    total_s = sum(use.gpu_s for _, use in found)
    return [
        (
            name,
            {
                "gpu_s": use.gpu_s,
                "share": use.gpu_s / total_s if total_s else None,
                "gpus": use.gpus,
            },
        )
        for name, use in found
    ]
