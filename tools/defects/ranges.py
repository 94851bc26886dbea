"""Defects of ranges and roles in job files, and of the reasons for a size."""

from __future__ import annotations

from tools.defects.mutant import Mutant

_SIZES = "../jobfile/sizes.py"
_LAUNCHERS = "../jobfile/sizes.py"
_REMAINING = "../deadlines/remaining.py"

MUTANTS = (
    Mutant(
        "a range needs no way to another size",
        _SIZES,
        "    if options.checkpoint in _SAVES:\n        return None\n",
        "    return None\n",
    ),
    Mutant(
        "roles need no radrun",
        _SIZES,
        '    if options.role:\n        return "role", "needs radrun',
        '    if not options.role:\n        return "role", "needs radrun',
    ),
    Mutant(
        "a worker of a range gets all GPUs",
        _SIZES,
        "gpus=min(gpus, 1) if options.of_tasks else gpus",
        "gpus=gpus",
    ),
    Mutant(
        "each worker books the memory of the whole job",
        _SIZES,
        "memory_mib=None if options.of_tasks else options.memory_mib",
        "memory_mib=options.memory_mib",
    ),
    Mutant(
        "a role takes the range of the job's CPUs beside its own",
        _SIZES,
        "cpus_max=options.cpus_max if role.cpus is None else role.cpus_max",
        "cpus_max=options.cpus_max",
    ),
    Mutant(
        "a range may begin with its larger end",
        "../jobfile/values.py",
        "        if low > high:\n            ours = ",
        "        if low > 1e9:\n            ours = ",
    ),
    Mutant(
        "a word of echo counts as a command",
        _LAUNCHERS,
        "        if name not in _KEYWORDS and not _ASSIGNMENT.match(word):\n",
        "        if not words:\n",
    ),
    Mutant(
        "a here-document is part of the script",
        _LAUNCHERS,
        "place = _after_documents(text, place, ends, missing)",
        "pass",
    ),
    Mutant(
        "a comment is part of the script",
        _LAUNCHERS,
        "| (?P<comment> (?<![^\\s;&|()`]) \\#[^\\n]* )",
        "| (?P<comment> (?<![^\\s;&|()`]) \\#\\#[^\\n]* )",
    ),
    Mutant(
        "the pace of an earlier size counts",
        _REMAINING,
        "    if live.sized is not None:  # its speed before says nothing of the present size\n",
        "    if False:\n",
    ),
    Mutant(
        "a failed resize has no reason",
        "lifecycle/resizing.py",
        "attempt = replace(without(attempt, ActionKind.RESIZE), resize_failed=failed)",
        "attempt = without(attempt, ActionKind.RESIZE)",
    ),
    Mutant(
        "a waiting job is asked for the reason of its size",
        "planning/reasons.py",
        "if job is None or job.state is not JobState.RUNNING:",
        "if job is None:",
    ),
)
