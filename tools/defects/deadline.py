"""Defects of the planner `deadline`, and of the ranking of due jobs."""

from __future__ import annotations

from tools.defects.mutant import Mutant

_RANKING = "../deadlines/ranking.py"
_CANDIDATES, _LATER, _SEEN, _STOPPING, _TARDINESS = (
    f"../planners/lateness/{name}.py"
    for name in ("candidates", "later", "candidates", "stopping", "tardiness")
)

MUTANTS = (
    Mutant(
        "what a planner had half done when it failed stays",
        "planning/planners.py",
        "self._view.memo.pop(planner.name, None)  # it may be half done",
        "pass",
    ),
    Mutant(
        "while a job takes long to save, another one is stopped for the same waiting one",
        _TARDINESS,
        "if over and (key not in gives or not _gives_way(view, job, gives[key][1])):",
        "if over:",
    ),
    Mutant(
        "slack does not count in the rank of due jobs",
        _RANKING,
        "size = entry.latest_s / self._unit_s - entry.size",
        "size = -entry.size",
    ),
    Mutant(
        "weight over remaining time does not count in the rank of late jobs",
        _RANKING,
        "entry.line, entry.key = DUE, (entry.prefix, -entry.size, job_id)",
        "entry.line, entry.key = DUE, (entry.prefix, entry.latest_s, job_id)",
    ),
    Mutant(
        "a job grows old before its due time",
        _RANKING,
        "return max(since.wall_s, job.spec.due_s or 0.0) + max_wait_s",
        "return since.wall_s + max_wait_s",
    ),
    Mutant(
        "no job without a due time grows old",
        _CANDIDATES,
        "is_old = old_s <= now_s",
        "is_old = False",
    ),
    Mutant(
        "a device is kept idle for a job that is late whatever is done",
        _TARDINESS,
        "if self.only_lower and not lower:",
        "if False:",
    ),
    Mutant(
        "nobody may use the slack of the first that waits",
        _TARDINESS,
        "if self.until_s is not None and not lower:",
        "if False:",
    ),
    Mutant(
        "any number of jobs wait for one cheap hour",
        _LATER,
        "return all(last_s <= due_s for due_s, _ in jobs)",
        "return True",
    ),
    Mutant(
        "a job that cannot save is stopped for a due one",
        _STOPPING,
        "            and job.spec.checkpoint.kind is not CheckpointKind.NONE\n",
        "",
    ),
    Mutant(
        "a job of a higher priority is stopped for a due one",
        _STOPPING,
        "return prefix(instead) <= prefix(job) and self.can_stop",
        "return self.can_stop",
    ),
    Mutant(
        "the tardiness of the stopped job does not count",
        _STOPPING,
        "return added + terms.costs",
        "return terms.costs",
    ),
    Mutant(
        "the time to save and restart does not count",
        _STOPPING,
        "lost_s = self.save_s + self.restart_s\n        back_s",
        "lost_s = 0.0\n        back_s",
    ),
    Mutant(
        "a job is stopped again at once",
        _TARDINESS,
        "return str(job.id) in self.stops or",
        "return",
    ),
    Mutant(
        "a clock set back lengthens a pause",
        _TARDINESS,
        "plain_moment(now) if over or passed_s < 0 else at",
        "plain_moment(now) if over else at",
    ),
    Mutant(
        "what failed is believed although a device has changed",
        _SEEN,
        "if self.look is None or view.look() != self.look:",
        "if self.look is None:",
    ),
)
