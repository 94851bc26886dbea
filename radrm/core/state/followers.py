"""An index of followers, so that an end finds them without a search."""

from __future__ import annotations

from radrm.core.records import Job
from radrm.core.words import Condition


class Followers:
    """An index from a followed job or array to its followers.

    Saving a job's record adds entries. Editing a dependency away removes none, so the caller of
    `take` must check the follower's record.
    """

    def __init__(self) -> None:
        self._ids: dict[tuple[bool, int, Condition], set[int]] = {}

    def add(self, follower: Job) -> None:
        """Enter a job under each of its unmet dependencies."""
        for dependency in follower.after:
            key = (dependency.array, dependency.job_id, dependency.condition)
            self._ids.setdefault(key, set()).add(follower.id)

    def take(self, ended: Job, array_over: bool) -> set[int]:
        """Remove and return the ids of the followers that this end concerns.

        Followers of an array are concerned by the end that breaks their condition, or by the
        last end (`array_over`). So most ends of elements cost nothing.
        """
        keys = [(False, ended.id, condition) for condition in Condition]
        if ended.array is not None:
            keys += [
                (True, ended.array.array_id, condition)
                for condition in Condition
                if array_over or not condition.met_by(ended.state)
            ]
        return {job_id for key in keys for job_id in self._ids.pop(key, ())}

    def __len__(self) -> int:
        return len(self._ids)
