"""Defects of elastic jobs: of sizes, resizes and their withdrawal, and host memory."""

from __future__ import annotations

from tools.defects.mutant import Mutant

MUTANTS = (
    Mutant(
        "a resize that is not answered is undone at once",
        "applying.py",
        "        withdraw(state, job, attempt, pending)\n        return\n",
        '        _undo(state, job, attempt, ActionKind.RESIZE, "late")\n        return\n',
    ),
    Mutant(
        "a withdrawal has no deadline of its own",
        "lifecycle/resizing.py",
        "due_s = now.boot_s + state.settings.action_limit_s",
        "due_s = now.boot_s + 1e9",
    ),
    Mutant(
        "after a restart a withdrawn resize is asked for again",
        "lifecycle/pending.py",
        "            withdrawn=pending.withdrawn,\n",
        "",
    ),
    Mutant(
        "a resize has the limit of other actions",
        "lifecycle/pending.py",
        "        return settings.resize_limit_s\n",
        "        return settings.action_limit_s\n",
    ),
    Mutant(
        "a late answer completes the next resize",
        "applying.py",
        "if attempt.target == event.target and not late:",
        "if attempt.target == event.target:",
    ),
    Mutant(
        "a change of CPUs reserves a task's memory again",
        "lifecycle/resizing.py",
        "    tasks = {(share.role, share.task) for share in before.shares}\n"
        "    return [share for share in then.shares if (share.role, share.task) not in tasks]",
        "    return [share for share in then.shares if share not in before.shares]",
    ),
    Mutant(
        "a reservation shrinks while new tasks are on their way",
        "lifecycle/usage.py",
        "if smaller is not None and attempt.target is None:",
        "if smaller is not None:",
    ),
    Mutant(
        "a new task beside another counts as settled",
        "state/holding.py",
        "        self.settled, self.grew_s = False, now_s\n",
        "        pass\n",
    ),
    Mutant(
        "a shrink checks the devices that stay",
        "constraints/placement.py",
        "set(shares_by_task(present)) if present else ()",
        "()",
    ),
    Mutant(
        "a restart checks no device that it has",
        "constraints/proposal.py",
        "present = attempt.placement if how is Resizing.LIVE else None",
        "present = attempt.placement",
    ),
    Mutant(
        "a resize comes between a request to save and its answer",
        "constraints/proposal.py",
        "    ResizeTo: (ActionKind.SHARES, ActionKind.CHECKPOINT),\n",
        "    ResizeTo: (ActionKind.SHARES,),\n",
    ),
    Mutant(
        "a resize to the present size is carried out",
        "constraints/proposal.py",
        "    if target == attempt.placement:\n",
        "    if False:\n",
    ),
    Mutant(
        "a restart that failed is proposed again at once",
        "applying.py",
        "            _delay_next(state, job.id, ResizeTo, reason)\n        state.put",
        "        state.put",
    ),
    Mutant(
        "each task books the host memory of the job",
        "records/jobs.py",
        "        if task or role.name != self.spec.roles[0].name:\n            return None\n",
        "",
    ),
    Mutant(
        "a job starts at its fewest tasks for ever",
        "planning/assembly.py",
        "        for task in range(job.count(role))\n",
        "        for task in range(role.count_min)\n",
    ),
    Mutant(
        "new tasks share their devices in any mode",
        "planning/sizing.py",
        "part, mode = replace(job, spec=spec, counts=()), before.collocation",
        "part, mode = replace(job, spec=spec, counts=()), None",
    ),
    Mutant(
        "the first tasks of a role go",
        "planning/sizing.py",
        "kept = set(present[:wanted])",
        "kept = set(present[-wanted:])",
    ),
    Mutant(
        "tasks without a GPU are all on the first node",
        "planning/hosts.py",
        "use = next(fitting, order[0])",
        "use = order[0]",
    ),
    Mutant(
        "host memory grows while a job waits for it",
        "lifecycle/memory/growing.py",
        " or _somebody_waits(state):",
        ":",
    ),
    Mutant(
        "host memory grows beyond the room of its node",
        "lifecycle/memory/growing.py",
        "most = span[1] if free is None else min(span[1], booked + free)",
        "most = span[1]",
    ),
    Mutant(
        "a growth of memory that failed delays CPU shares",
        "applying.py",
        "if kind is ActionKind.SHARES and changes_memory(attempt, asked.shares):",
        "if False:",
    ),
    Mutant(
        "host memory of a running job shrinks",
        "constraints/proposal.py",
        "if not had < wanted <= span[1]:",
        "if not wanted <= span[1]:",
    ),
    Mutant(
        "the memory after a death counts from the least",
        "lifecycle/memory/larger.py",
        "memory_mib=min(2 * booked, most)",
        "memory_mib=min(2 * span[0], most)",
    ),
    Mutant(
        "the number of workers doubles after a death",
        "lifecycle/memory/larger.py",
        "role is not job.spec.roles[-1] and role.count_max > role.count_min",
        "role.count_max > role.count_min",
    ),
    Mutant(
        "a larger job goes on at its old target",
        "lifecycle/ending.py",
        "        drop_target(state, job)  # its old size would die there again\n",
        "",
    ),
)
