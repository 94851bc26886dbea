"""Defects of run times: what is left of a job, its profile, and the orders by due times."""

from __future__ import annotations

from tools.defects.mutant import Mutant

_REMAINING = "../deadlines/remaining.py"
_PROFILE = "../estimators/learning/profile.py"
_FORECAST = "../planners/forecast.py"

MUTANTS = (
    Mutant(
        "work that earlier attempts have done is done again",
        _REMAINING,
        "return 1.0 - min(1.0, max(0.0, done or 0.0))",
        "return 1.0",
    ),
    Mutant(
        "the time since the last report does not count",
        _REMAINING,
        "return Remaining(max(0.0, left_s - age_s), max(0.0, most_s), PROGRESS)",
        "return Remaining(left_s, max(0.0, most_s), PROGRESS)",
    ),
    Mutant(
        "a report that is too old counts",
        _REMAINING,
        "if most_s < 0 and progress.work_done < 1:",
        "if False:",
    ),
    Mutant(
        "a job beside others is as fast as alone",
        _REMAINING,
        "left_s = whole.value_s * part / speed - ran_s",
        "left_s = whole.value_s * part - ran_s",
    ),
    Mutant(
        "a job beyond its estimate ends now",
        _REMAINING,
        "left_s = OVERRUN * ran_s",
        "left_s = 0.0",
    ),
    Mutant(
        "the profile of another number of GPUs counts",
        _REMAINING,
        "if each.kind == kind and each.gpus == gpus:",
        "if each.kind == kind:",
    ),
    Mutant(
        "a running job does all its work again on other GPUs",
        _REMAINING,
        "left_s = part * whole_s",
        "left_s = whole_s",
    ),
    Mutant(
        "the time limit does not count what earlier attempts used",
        _REMAINING,
        "    limit_s = inf if job.limit_s is None else max(0.0, job.limit_s - ran_s)",
        "    limit_s = job.spec.time_limit_s or inf",
    ),
    Mutant(
        "a shared run shows the pace alone",
        _PROFILE,
        "if len(attempt.reported) < 2 or any(usage.shared for usage in attempt.used.values()):",
        "if len(attempt.reported) < 2:",
    ),
    Mutant(
        "runs of another length make a profile",
        _PROFILE,
        "if run.alone and run.length == length and run.duration_s is not None:",
        "if run.alone and run.duration_s is not None:",
    ),
    Mutant(
        "start-up is a part of the pace",
        _PROFILE,
        "    pace_s = took_s / done\n",
        "    pace_s = (last.at.since(attempt.started or first.at) or 0.0) / last.work_done\n",
    ),
    Mutant(
        "a job that joins slows down no job that reports",
        _FORECAST,
        "slower = before / speed if left.source == PROGRESS else 1.0",
        "slower = 1.0",
    ),
    Mutant(
        "an attempt keeps its latest report as its first",
        "records/attempts.py",
        "self.reported or (progress,)",
        "(progress,)",
    ),
    Mutant(
        "a job without a due time is first",
        "../orders/due.py",
        "first = (1, 0.0) if due_s is None else (0, due_s)",
        "first = (-1, 0.0) if due_s is None else (0, due_s)",
    ),
    Mutant(
        "the lightest job is first",
        "../orders/weight.py",
        "return (-job.spec.weight, *job.place, job.id)",
        "return (job.spec.weight, *job.place, job.id)",
    ),
    Mutant(
        "the run time does not count for the latest start",
        "../orders/latest_start.py",
        "due_s - (0.0 if left is None else left.value_s)",
        "due_s",
    ),
)
