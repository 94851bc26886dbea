"""Show the answers of estimators about one job to people."""

from __future__ import annotations

from collections.abc import Iterator

from radrm.cli.show.columns import Column, table_of
from radrm.cli.show.styled import Styled, show
from radrm.client.amounts import sane_mib, show_smact, shown_duration, shown_smact
from radrm.client.estimates import Asked, first_of, memory_of
from radrm.client.fitting import Fit
from radrm.client.text import warn
from radrm.config import Config
from radrm.core.records import Estimate
from radrm.core.units import show_mib, show_seconds
from radrm.core.words import Quantity
from radrm.estimators.learning.learned import learned_for
from radrm.host.estimation.asking import Answer
from radrm.structs import replace


def show_estimates(
    asked: Asked, config: Config, answers: dict[str, Answer], explain: bool, several: bool
) -> None:
    if several:
        show(Styled(asked.file, "bold"))
    table = table_of(
        ((name, found, memory_of(found)) for name, found in answers.items()),
        Column("ESTIMATOR", lambda row: row[0]),
        Column("MEMORY", lambda row: "-" if row[2] is None else _show(row[2].value), right=True),
        Column("AT MOST", lambda row: "-" if row[2] is None else _show(row[2].upper), right=True),
        Column("SMACT", lambda row: show_smact(_value(row[1], Quantity.SMACT)), right=True, rank=2),
        Column(
            "DURATION",
            lambda row: show_seconds(_value(row[1], Quantity.DURATION)),
            right=True,
            rank=3,
        ),
        Column("TOOK", lambda row: _took(row[2]), right=True, rank=1),
        Column("SOURCE", lambda row: "none" if row[2] is None else row[2].source),
    )
    show(table)
    for line in (*_bases(answers), *_predicted(answers), *_guesses(answers)):
        show(Styled(f"  {line}"))
    for note in dict.fromkeys([*asked.notes, *(n for f in answers.values() for n in f.notes)]):
        warn(f"{asked.file}: {note}")
    if explain:
        for line in _explained(asked, config, answers):
            show(Styled(f"  {line}"))


def _predicted(answers: dict[str, Answer]) -> Iterator[str]:
    """One line about each prediction of SM activity and of duration, with its bound."""
    seen: set[str] = set()
    for found in answers.values():
        smact, duration = first_of(found, Quantity.SMACT), first_of(found, Quantity.DURATION)
        lines = []
        if smact is not None:
            lines.append(f"SM activity: {shown_smact(smact.value, smact.upper, smact.source)}")
        if duration is not None:
            figures = duration.value, duration.upper, duration.source
            lines.append(f"duration alone: {shown_duration(*figures)}")
        yield from (line for line in lines if line not in seen)
        seen.update(lines)


def _bases(answers: dict[str, Answer]) -> Iterator[str]:
    """One line about what each estimator has done."""
    memories = map(memory_of, answers.values())
    yield from dict.fromkeys(each.basis for each in memories if each is not None and each.basis)


def show_fit(fit: Fit) -> None:
    """What would make a job fit on the largest GPU."""
    lines = [f"it does not fit: the largest GPU here has {show_mib(fit.room_mib)}"]
    if fit.batch_size is not None and fit.upper_mib is not None:
        at_most = show_mib(round(fit.upper_mib))
        lines.append(f"{fit.name} {fit.batch_size} fits (at most {at_most})")
    elif fit.name is not None:
        lines.append(f"no {fit.name} was found that fits")
    lines += [f"with {c.option}: at most {show_mib(round(c.upper_mib))}" for c in fit.changes]
    for line in lines:
        show(Styled(f"  {line}"))


def _guesses(answers: dict[str, Answer]) -> Iterator[str]:
    """One line about the assumptions of each estimator that has an answer."""
    seen: set[str] = set()
    for found in answers.values():
        memory = memory_of(found)
        if memory is not None and memory.guesses and memory.source not in seen:
            seen.add(memory.source)
            yield f"{memory.source} assumes: {'; '.join(memory.guesses)}"


def _value(found: Answer, quantity: Quantity) -> float | None:
    first = first_of(found, quantity)
    return None if first is None else first.value


def _took(memory: Estimate | None) -> str:
    if memory is None or memory.seconds is None:
        return "-"
    seconds = memory.seconds
    return f"{seconds:.1f} s" if seconds >= 1.0 else f"{seconds * 1e3:.1f} ms"


def _show(mib: float) -> str:
    known = sane_mib(int(mib))
    return "whole GPU" if known is None else show_mib(known)


def _explained(asked: Asked, config: Config, answers: dict[str, Answer]) -> Iterator[str]:
    """What was learned from runs on this server, and how it changes each estimate."""
    job = asked.job
    kind = job.device_kind or "any kind of GPU"
    if not job.recent_runs and not job.profile:
        yield "nothing is learned here yet: no run has ended, or no daemon answers"
    if job.same_runs:
        peaks = ", ".join(show_mib(run.peak_mib) for run in job.same_runs[:5])
        yield f"history: {len(job.same_runs)} runs of the same job, peaks {peaks}"
    if job.profile:
        times = (f"{p.gpus} x {p.kind} {show_seconds(p.duration_s)}" for p in job.profile)
        yield f"profile: all its work takes {', '.join(times)}"
    quantile = float(config.estimators.get("auto", {}).get("quantile", 0.95))
    seen: set[str] = set()
    for found in answers.values():
        for each in found.estimates:
            if each.quantity is not Quantity.MEMORY or each.source in seen or each.raw is None:
                continue
            seen.add(each.source)
            known, context = learned_for(replace(each, value=each.raw), job)
            how = f"{known.runs} runs on {kind}" if known.runs else "no run here yet"
            shift_mib = context.shift_mib + known.shift_mib(each.raw + context.shift_mib)
            shift = f", shifted by {shift_mib:+.0f} MiB" if known.runs or shift_mib else ""
            yield (
                f"{each.source}: estimates {each.raw:.0f} MiB{shift} ({how}); in {quantile:.0%} of "
                f"runs at most {each.upper:.0f} MiB"
            )
