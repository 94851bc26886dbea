"""What an overview says in words: the first lines of the report, for its page and for terminals."""

from __future__ import annotations

from radrm.client.amounts import local_time, number, show_smact
from radrm.core.units import gpu_count
from radrm.errors import plain
from radrm.pages.charts import short_span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.client.text import Document

_HOUR_S = 3600.0


def summary(answer: Document) -> list[str]:
    """Return the sentences of an overview, the most important first."""
    return [*_jobs(answer), *_waited(answer), *_used(answer), *_deaths(answer), *_energy(answer)]


def main_facts(answer: Document) -> list[tuple[str, str]]:
    """Return the main figures of an overview: amounts, and what they are."""
    total, waited, deaths = answer["total"], answer["waited"], answer["deaths"]
    share = gpu_share(answer)
    found = [
        (f"{total['jobs']:,}", "jobs ended"),
        (percent(total["completed"], total["runs"]), "of them completed"),
        (duration(waited["median_waited_s"]), "median wait"),
        ("-" if share is None else f"{share:.0%}", "of the GPUs' time with a job"),
        (show_smact(answer["use"]["smact"]), "mean SM activity of jobs"),
    ]
    if deaths["jobs_hit"]:
        recovered = f"{deaths['recovered']:,} of {deaths['jobs_hit']:,}"
        found.append((recovered, "jobs completed after out-of-memory"))
    else:
        found.append((f"{total['oom_deaths']:,}", "out-of-memory deaths"))
    if answer["energy_since"] is not None:
        cost = f"{total['cost']:,.2f} {plain(answer['currency'])}"
        found.append((f"{number_of(total['kwh'])} kWh", f"energy of the GPUs, {cost}"))
    return found


def incomplete(answer: Document) -> list[str]:
    """Return what the figures of an overview lack."""
    lines = []
    removed_s = answer["removed_until"]
    if removed_s is not None and removed_s >= answer["since"]:
        moment = local_time(removed_s)[:16]
        lines.append(f"Figures are complete from {moment} on: older jobs are removed.")
    first_s = answer["energy_since"]
    if first_s is None:
        lines.append("No energy is on record: the power of the GPUs was not read.")
    elif first_s > answer["since"]:
        lines.append(f"The record of energy begins at {local_time(first_s)[:16]}.")
    return lines


def gpu_share(answer: Document) -> float | None:
    """Return the part of the GPUs' time with a job, since the first record; None if unknown.

    It is that of the GPUs of now, and unknown if jobs had more GPU time than these could give.
    """
    could_s = answer["gpus"] * (answer["until"] - answer["known_since"])
    held_s: float = answer["use"]["held_s"]
    return held_s / could_s if could_s > 0 and held_s <= could_s * 1.001 else None


def percent(part: float, whole: float) -> str:
    """Return a part of a whole in percent; `-` of nothing."""
    return f"{part / whole:.0%}" if whole else "-"


def duration(seconds: float | None) -> str:
    """Return a time span; `-` if unknown."""
    return "-" if seconds is None else short_span(seconds)


def number_of(amount: float) -> str:
    """Return an amount with three digits, or all before the point."""
    return f"{amount:,.0f}" if amount >= 1000 else number(float(f"{amount:.3g}"))


def _jobs(answer: Document) -> list[str]:
    total = answer["total"]
    begin, end = (local_time(answer[each])[:16] for each in ("since", "until"))
    users = len([each for each in answer["users"] if each["jobs"]]) + answer["more_users"]
    gpus = gpu_count(answer["gpus"], bool(answer.get("simulated")))
    if not total["jobs"]:
        lines = [f"No job ended from {begin} to {end} on this server with {gpus}."]
    else:
        lines = [
            f"From {begin} to {end}, {many(total['jobs'], 'job')} of {many(users, 'user')} ended "
            f"on this server with {gpus}.",
            f"{total['completed']:,} completed, {total['failed']:,} failed, {total['timeout']:,} "
            f"reached their time limit, {total['cancelled']:,} were cancelled.",
        ]
    lines.append(f"Now: {total['running']:,} running, {total['waiting']:,} waiting.")
    return lines


def _waited(answer: Document) -> list[str]:
    waited = answer["waited"]
    if not waited["started"]:
        return []
    median, most = (short_span(waited[each]) for each in ("median_waited_s", "p95_waited_s"))
    return [
        f"Of those that started, half did within {median} of their submission, 95% within {most}."
    ]


def _used(answer: Document) -> list[str]:
    use, share = answer["use"], gpu_share(answer)
    hours = f"{number_of(use['held_s'] / _HOUR_S)} GPU-hours"
    lines = [
        f"Jobs held GPUs for {hours}."
        if share is None
        else f"Jobs held GPUs for {hours}: {share:.0%} of the GPUs' time since "
        f"{local_time(answer['known_since'])[:16]}."
    ]
    if use["peak_share"] is not None:
        lines.append(
            f"Of the memory that was reserved for jobs, {use['peak_share']:.0%} was used at "
            "the peak."
        )
    return lines


def _deaths(answer: Document) -> list[str]:
    deaths, died = answer["deaths"], answer["total"]["oom_deaths"]
    if not died and not deaths["jobs_hit"]:
        return ["No attempt died of GPU out-of-memory."] if answer["total"]["jobs"] else []
    line = f"{many(died, 'attempt')} died of GPU out-of-memory."
    if deaths["jobs_hit"]:
        line += (
            f" Of {many(deaths['jobs_hit'], 'job')} that ended after such a death, "
            f"{deaths['recovered']:,} completed in a later attempt."
        )
    return [line]


def _energy(answer: Document) -> list[str]:
    total = answer["total"]
    if answer["energy_since"] is None or not total["kwh"]:
        return []
    idle = sum(each["idle_kwh"] for each in answer["times"])
    return [
        f"The GPUs used {number_of(total['kwh'])} kWh, {percent(idle, total['kwh'])} of it while "
        f"no job was on them. That cost {total['cost']:,.2f} {plain(answer['currency'])}, with PUE "
        f"{answer['pue']:g}."
    ]


def many(count: int, thing: str) -> str:
    """Return a number of things: `1 job`, `2 jobs`."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"
