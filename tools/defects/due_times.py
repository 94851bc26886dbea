"""Defects of due times: how they are read, and what is expected of jobs that have one.

And of `--begin`, `--retry-on`, `--silent-limit` and `[idle]`.
"""

from __future__ import annotations

from tools.defects.mutant import Mutant

_MOMENTS, _EXPECTED = "../jobfile/moments.py", "../daemon/views/expected.py"

_BEGIN, _SILENCE = "lifecycle/timing/begin.py", "lifecycle/timing/silence.py"
_IDLE = "../planners/idle.py"

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
        "start = now.wall_s + max(0.0, wait_s)",
        "start = now.wall_s",
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
    Mutant(
        "a job that waits for its moment is in the queue",
        "state/queue/queue.py",
        "job.held or job.awaits_begin or job.estimating",
        "job.held or job.estimating",
    ),
    Mutant(
        "a timer begins a job, whatever the clock shows",
        _BEGIN,
        "    if now.awaits_begin:\n        return False\n",
        "    now = replace(now, awaits_begin=False)\n",
    ),
    Mutant(
        "a restart forgets the moment",
        "adoption.py",
        "            if job.awaits_begin:\n                wake_for_begin(state, job)\n",
        "",
    ),
    Mutant(
        "a requeued job does not wait for its moment",
        "lifecycle/edits.py",
        "run_again(state, with_begin(state, replace(job, after=open_yet)), from_start)",
        "run_again(state, replace(job, after=open_yet), from_start)",
    ),
    Mutant(
        "a failure of unknown code is retried for a code",
        "lifecycle/returning.py",
        "any(code is not None and a <= code <= b",
        "any(code is None or a <= code <= b",
    ),
    Mutant(
        "a silent job is stopped without a warning",
        _SILENCE,
        "    elif warning is None:\n",
        "    elif warning is None and silent_s < limit_s:\n",
    ),
    Mutant(
        "reports that no daemon heard count as silence",
        _SILENCE,
        "    if attempt.reported:\n",
        "    if False:\n",
    ),
    Mutant(
        "a word of the job leaves its warning",
        _SILENCE,
        "    if attempt.warnings:\n        warn(",
        "    if False:\n        warn(",
    ),
    Mutant(
        "what is unknown is zero",
        _IDLE,
        "            return cls(None, {})\n",
        "            return cls(0.0, {})\n",
    ),
    Mutant(
        "figures that name nobody prove that all are idle",
        _IDLE,
        "            own = {}  # they do not tell whose the activity is\n",
        "            pass\n",
    ),
    Mutant(
        "one idle GPU of several is enough",
        _IDLE,
        "shown = max(known) if len(known) == len(each) else None",
        "shown = min(known) if len(known) == len(each) else None",
    ),
    Mutant(
        "a gap in the readings is idle time",
        _IDLE,
        "if found is None or stale or found.serial",
        "if found is None or found.serial",
    ),
    Mutant(
        "a warning of an earlier daemon lets the action follow",
        _IDLE,
        "warned_s >= now_s - track.since_s",
        "warned_s < 0",
    ),
    Mutant(
        "an idle job is requeued without end",
        _IDLE,
        "if _requeues(plan.state, job) >= MOST_REQUEUES:",
        "if _requeues(plan.state, job) > 99:",
    ),
)
