"""The report of a soak: for people on the screen, and all its samples in a JSON file."""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import median

from proofs.soak import verdict
from proofs.soak.daemon import KEPT
from proofs.soak.ground import USERS
from proofs.soak.jobs import PROBE
from proofs.soak.run import Seen
from proofs.soak.verdict import Latency

FIRST_PART = 1 / 6
"""The first and the last ten minutes of an hour are compared."""
SHORTEST_PART_S = 90.0
"""Shorter parts hold too few answers to judge a drift by."""
_FILLED = 2 * KEPT * len(USERS)
"""With so many ended jobs, each user has more than are kept: users are drawn by chance."""


def findings_of(seen: Seen, groups: list[str], latencies: list[Latency]) -> list[str]:
    """All that is wrong."""
    ended = seen.ledger.ended.values()
    long_s = (seen.submitted_until_s - seen.began_s) * FIRST_PART
    parts = verdict.split(latencies, seen.began_s + long_s, seen.submitted_until_s - long_s)
    kinds = {each.kind for each in seen.ledger.acknowledged.values()}
    return [
        *seen.wrong,
        *verdict.untried(kinds, len(ended), seen.faults),
        *verdict.lost(
            seen.ledger.acknowledged, ended, seen.lines, seen.ledger.cancelled, USERS[-1]
        ),
        *verdict.doubled(ended, seen.lines),
        *verdict.orphaned(seen.processes, groups, seen.files, seen.reserved, seen.memory),
        *verdict.growth(seen.samples, seen.idle, filled=_FILLED),
        *([] if seen.alone else verdict.unanswered(latencies)),
        *(verdict.drift(parts) if long_s >= SHORTEST_PART_S else []),
    ]


def report(
    seen: Seen,
    groups: list[str],
    seed: int,
    seconds: float,
    results: Path,
    tell: Callable[[str], None],
) -> list[str]:
    """Tell what was done and seen, and write the file. Returns the findings."""
    latencies = verdict.calm([*seen.latencies, *starts(seen)], seen.windows)
    findings = findings_of(seen, groups, latencies)
    ended, acknowledged = seen.ledger.ended, seen.ledger.acknowledged
    outcomes = [outcome for job in ended.values() for outcome in job.outcomes.values()]
    tell("")
    tell(f"{seen.refused} batches of submissions were refused for a full disk")
    tell(f"jobs: {len(acknowledged)} submissions acknowledged, {len(ended)} jobs ended in")
    tell(f"  {len(outcomes)} attempts: {_counts(outcomes)}")
    tell(f"  states: {_counts([job.state for job in ended.values()])}")
    for title, counts in (
        ("faults", seen.faults), ("hostile acts", seen.acts), ("commands", seen.commands)
    ):  # fmt: skip
        tell(f"{title}:")
        for name, count in sorted(counts.items()):
            tell(f"  {count:6d}  {name}")
    tell("latency (ms), outside the seconds of a fault: first part, last part, all")
    long_s = (seen.submitted_until_s - seen.began_s) * FIRST_PART
    parts = verdict.split(latencies, seen.began_s + long_s, seen.submitted_until_s - long_s)
    for op in sorted(parts):
        every = [each.took_s for each in latencies if each.op == op and each.answered]
        cells = [_milliseconds(values) for values in (*parts[op], every)]
        tell(f"  {op:14s} {cells[0]:>18s} {cells[1]:>18s} {cells[2]:>18s}  (p50 / p95)")
    for life in sorted({sample.life for sample in seen.samples}):
        of_life = [sample for sample in seen.samples if sample.life == life]
        if len(of_life) >= 6:
            third = len(of_life) // 3
            tell(f"daemon {life}, {len(of_life)} samples; medians of the second and last third:")
            for name in ("rss_kib", "descriptors", "threads"):
                values = [getattr(sample, name) for sample in of_life]
                tell(f"  {name:12s} {median(values[third:-third])} {median(values[-third:])}")
    if seen.idle is not None:
        for name in ("rss_kib", "descriptors", "threads", "store_kib", "home_kib"):
            first, last = (getattr(sample, name) for sample in seen.idle)
            tell(f"  idle daemon, {name:12s} at the start {first}, at the end {last}")
    tell("")
    for finding in findings[: verdict.MOST_TOLD]:
        tell(f"FOUND {finding}")
    if len(findings) > verdict.MOST_TOLD:
        tell(f"FOUND and {len(findings) - verdict.MOST_TOLD} more: see {results}")
    tell(
        "nothing lost, doubled, orphaned or gathered"
        if not findings
        else f"{len(findings)} findings; seed {seed}"
    )
    results.write_text(
        json.dumps(
            {
                "seed": seed,
                "seconds": seconds,
                "machine": platform.platform(),
                "findings": findings,
                "jobs": Counter(job.state for job in ended.values()),
                "attempts": Counter(outcomes),
                "faults": seen.faults,
                "acts": seen.acts,
                "commands": seen.commands,
                "idle": [asdict(sample) for sample in seen.idle or ()],
                "samples": [asdict(sample) for sample in seen.samples],
                "latencies": latencies,
                "windows": seen.windows,
                "kills": seen.kills,
            },
            indent=1,
        )
    )
    return findings


def starts(seen: Seen) -> list[Latency]:
    """Seconds from the submission of each probe to its first instruction."""
    begun: dict[str, float] = {}
    for line in seen.lines:
        if line.word == "begun":
            begun[line.ticket] = min(line.at_s, begun.get(line.ticket, line.at_s))
    return [
        Latency(ack.at_s, "submit to start", begun[ack.ticket] - ack.at_s)
        for ack in seen.ledger.acknowledged.values()
        if ack.kind == PROBE and ack.ticket in begun
    ]


def _counts(words: list[str]) -> str:
    return ", ".join(f"{words.count(word)} {word}" for word in sorted(set(words)))


def _milliseconds(values: list[float]) -> str:
    found = verdict.p50_p95(values)
    return "-" if found is None else f"{found[0] * 1000:.0f} / {found[1] * 1000:.0f}"
