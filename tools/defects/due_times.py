"""Defects of due times: how they are read, and what is expected of jobs that have one."""

from __future__ import annotations

from tools.defects.mutant import Mutant

_MOMENTS, _EXPECTED = "../jobfile/moments.py", "../daemon/views/expected.py"

MUTANTS = (
    Mutant(
        "a local time that exists twice is the second one",
        _MOMENTS,
        "return sorted(found) or [first]",
        "return sorted(found)[-1:] or [first]",
    ),
    Mutant(
        "a local time that does not exist is an hour early",
        _MOMENTS,
        "return sorted(found) or [first]",
        "return sorted(found) or [second]",
    ),
    Mutant(
        "the next 18:00 may be now",
        _MOMENTS,
        "if at_s > here.now_s\n        )",
        "if at_s >= here.now_s\n        )",
    ),
    Mutant(
        "friday is a week ahead on a friday",
        _MOMENTS,
        "days = range(ahead, ahead + 8, 7)",
        "days = range(ahead or 7, ahead + 8, 7)",
    ),
    Mutant(
        "a time in the past is taken",
        "../jobfile/parsing.py",
        "            if not past:\n                refuse_past(text, here)\n",
        "",
    ),
    Mutant(
        "an offset counts in the wrong direction",
        _MOMENTS,
        "return float(self.date_s + self.clock_s - self.offset_s)",
        "return float(self.date_s + self.clock_s + self.offset_s)",
    ),
    Mutant(
        "a waiting job starts at once",
        _EXPECTED,
        "return now.wall_s + max(0.0, wait_s), None",
        "return now.wall_s, None",
    ),
    Mutant(
        "every waiting job is taken for the next one",
        _EXPECTED,
        'if refusals is None or any(refusal.rule == "order" for refusal in refusals):',
        "if False:",
    ),
    Mutant(
        "a job that is over its due time is not late before it ends",
        _EXPECTED,
        "return least_s if least_s > 0 else 0.0 if in_time else None",
        "return 0.0 if in_time else None",
    ),
    Mutant(
        "a job that waits for cheap energy starts when a GPU is free",
        _EXPECTED,
        'frozenset({"price", "cheaper", "preemption", "slots"})',
        'frozenset({""})',
    ),
    Mutant(
        "the weight does not count",
        _EXPECTED,
        "self._costs.tardiness_cost(job.spec.weight, late_s)",
        "self._costs.tardiness_cost(1.0, late_s)",
    ),
    Mutant(
        "what a job has done beside others counts as done alone",
        _EXPECTED,
        "mean / _speed_now(snapshot, live, demand)",
        "1.0 / _speed_now(snapshot, live, demand)",
    ),
    Mutant(
        "a job that has run longer than predicted at most is expected to end soon",
        _EXPECTED,
        "        elif left.exceeded:\n",
        "        elif False:\n",
    ),
)
