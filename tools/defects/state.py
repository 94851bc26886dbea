"""Defects of `radrm/core/state`."""

from __future__ import annotations

from tools.defects.mutant import Mutant

MUTANTS = (
    Mutant(
        name="a shared second counts twice",
        file="state/holding.py",
        old="part.seconds += until_s - since_s",
        new="part.seconds += 2 * (until_s - since_s)",
    ),
    Mutant(
        name="shared time has any number of parts",
        file="state/holding.py",
        old="if key not in self.beside and len(self.beside) >= MOST_BESIDE:",
        new="if key not in self.beside and len(self.beside) >= 99 * MOST_BESIDE:",
    ),
    Mutant(
        name="a cold reading shows the activity of shared time",
        file="state/ledger.py",
        old="smact is not None and self.is_quiet and self.load.counts(reading)",
        new="smact is not None and self.is_quiet",
    ),
    Mutant(
        name="each job on a shared device pays for all of it",
        file="state/use.py",
        old="1.0 / len(jobs_on[uuid])",
        new="            1.0",
    ),
    Mutant(
        name="a restart forgets the use while no daemon ran",
        file="state/use.py",
        old="            return  # the stored rate was the present one",
        new="            pass",
    ),
    Mutant(
        name="a copy of the queue follows later ranks",
        file="state/queue/ranked.py",
        old="found = RankedQueue(lambda spec: ranks[spec.uid])",
        new="found = RankedQueue(self._rank_of)",
    ),
    Mutant(
        name="who has used more is next",
        file="state/queue/ranked.py",
        old="(1, least * rank.factor)",
        new="(1, least / rank.factor)",
    ),
    Mutant(
        name="an owner's reservations add up",
        file="state/reserved/of_device.py",
        old="largest[owner] = max(mib, largest.get(owner, 0))",
        new="largest[owner] = mib + largest.get(owner, 0)",
    ),
    Mutant(
        name="a reservation for later counts now",
        file="state/reserved/claims.py",
        old="        if claim.start_s <= at_s < claim.end_s:",
        new="        if at_s < claim.end_s:",
    ),
    Mutant(
        name="only the start of an interval counts",
        file="state/reserved/claims.py",
        old="    return [start_s, *sorted(starts)]",
        new="    return [start_s]",
    ),
    Mutant(
        name="figures undo a decision",
        file="state/state.py",
        old="if volatile and name not in step.changed:",
        new="if volatile:",
    ),
    Mutant(
        name="a record is durable and volatile",
        file="state/state.py",
        old="            step.volatile.pop(name, None)\n",
        new="",
    ),
    Mutant(
        name="a report of progress is durable",
        file="state/state.py",
        old='self._note("job", job.id, job, volatile=True)',
        new='self._note("job", job.id, job)',
    ),
    Mutant(
        "settled although it grows",
        "state/ledger.py",
        "quiet_s = boot_s - max(holding.grew_s, holding.since_s)",
        "quiet_s = boot_s - holding.since_s",
    ),
    Mutant(
        "settled for good",
        "state/holding.py",
        "                self.settled = False\n",
        "",
    ),
    Mutant(
        "warm at once after an exit",
        "state/load.py",
        "latest_s + self._settings.smact_warm_s, left_s + self._settings.smact_after_exit_s",
        "latest_s + self._settings.smact_warm_s, float('-inf')",
    ),
    Mutant(
        "usage counted twice",
        "state/holding.py",
        "return tuple({u.device: u for u in (*usage, *newer)}.values())",
        "return (*usage, *newer)",
    ),
    Mutant(
        "planners' wake-ups pruned",
        "state/state.py",
        "return not timer.job_id or (job is not None and job.estimating)",
        "return job is not None and job.estimating",
    ),
    Mutant(
        "what was seen before a restart weighs as one reading",
        "state/holding.py",
        "self.smact_count = max(1, usage.smact_count)",
        "self.smact_count = 1",
    ),
    Mutant(
        "the energy of one that leaves is its neighbours'",
        "state/ledger.py",
        "        left_s = now_s if left_s is None else left_s\n"
        "        self._count_before(left_s)\n",
        "        left_s = now_s if left_s is None else left_s\n",
    ),
    Mutant(
        "an offer from before a reading",
        "state/ledger.py",
        "if self._shown() != shown:",
        "if False:",
    ),
    Mutant(
        "what was reported and not saved outlives an attempt",
        "state/state.py",
        "if not state.live and state is not JobState.COMPLETED:",
        "if state is JobState.PENDING:",
    ),
    Mutant(
        "a user with as many running jobs as allowed starts one more",
        "state/users.py",
        "use.running >= most_jobs",
        "use.running > most_jobs",
    ),
    Mutant(
        "a resize does not count for its user",
        "state/users.py",
        "ways = (attempt.placement, attempt.target, job.target)",
        "ways = (attempt.placement, None, job.target)",
    ),
    Mutant(
        "a place that has become free stays empty",
        "state/state.py",
        "            self.waiting.use_changed(job.spec.uid)\n",
        "            pass\n",
    ),
    Mutant(
        "exempt users have limits",
        "state/users.py",
        "(0, 0) if uid in self._exempt else",
        "(0, 0) if False else",
    ),
)
