"""The report's page: an overview of a time as figures and tables."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from radrm.client.amounts import local_time, show_smact
from radrm.core.units import show_mib
from radrm.pages.charts import (
    Bin,
    GanttBar,
    GanttRow,
    Kind,
    Limit,
    Series,
    bars,
    counts,
    curves,
    gantt,
    numbers,
    short_span,
)
from radrm.pages.charts.frame import clock_ticks
from radrm.pages.document import beside, facts, heading, paragraph, table
from radrm.pages.summary import duration, incomplete, main_facts, many, percent, summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.client.text import Document

ENDS = {
    "completed": Kind("completed", "green"),
    "failed": Kind("failed", "orange", "right"),
    "timeout": Kind("time limit", "yellow", "dots"),
    "cancelled": Kind("cancelled", "grey", "across"),
}
"""How ends look, on every page."""
OUTCOMES: dict[str | None, Kind] = {
    "completed": ENDS["completed"],
    "failed": ENDS["failed"],
    "timeout": ENDS["timeout"],
    "cancelled": ENDS["cancelled"],
    "oom": Kind("out of memory", "purple", "grid"),
    "preempted": Kind("preempted", "sky", "down"),
    "lost": Kind("lost", "ink", "left"),
    None: Kind("running", "blue", "open"),
}
_MOST_GPUS = 64
_DAY_S = 86_400.0


def overview_parts(answer: Document) -> list[str]:
    """Return the parts of the page, as HTML, of the daemon's answer to `overview`."""
    parts = [facts(main_facts(answer))]
    parts += [paragraph(line) for line in summary(answer)]
    parts += [paragraph(line, soft=True) for line in incomplete(answer)]
    parts += [
        *(heading("Jobs and waiting"), beside(_throughput(answer), _queue(answer))),
        *(beside(_waits(answer), _users(answer)), heading("GPUs")),
        *(beside(_used(answer), _gpus(answer)), _gantt(answer)),
        *(heading("Out of memory"), *_deaths(answer)),
        *(heading("Energy"), _energy(answer), heading("Estimators"), *_estimators(answer)),
    ]
    return parts


def _throughput(answer: Document) -> str:
    bins = _bins(answer, lambda each: [float(each[name]) for name in ENDS])
    title = f"Jobs that ended, by {_step(answer)}"
    return bars("ended", title, bins, counts("jobs"), tuple(ENDS.values()))


def _queue(answer: Document) -> str:
    points = [(each["at"], each["waiting"]) for each in answer["times"]]
    return curves(
        *("queue", "Jobs that waited, on the mean", [_level("waiting", points, answer)]),
        *(numbers("jobs"), *_span(answer)),
    )


def _used(answer: Document) -> str:
    points = [(each["at"], each["gpus_used"]) for each in answer["times"]]
    limits = [Limit("GPUs now", answer["gpus"])] if answer["gpus"] else []
    return curves(
        *("used", "GPUs with a job, on the mean", [_level("with a job", points, answer)]),
        *(numbers("GPUs"), *_span(answer)),
        limits=limits,
    )


def _waits(answer: Document) -> str:
    classes = answer["waited"]["classes"]
    bins = []
    for place, each in enumerate(classes):
        least = short_span(each["from_s"])
        more = (
            f"to {short_span(classes[place + 1]['from_s'])}"
            if place + 1 < len(classes)
            else "or more"
        )
        bins.append(Bin(least, [each["jobs"]], f"{least} {more}"))
    return bars("waits", "Time from submission to start", bins, counts("jobs"), edges=True)


def _users(answer: Document) -> str:
    columns = [("USER", False), ("STARTED", True), ("MEDIAN WAIT", True), ("95% WITHIN", True)]
    rows = [
        (
            each["user"],
            f"{each['started']:,}",
            duration(each["median_waited_s"]),
            duration(each["p95_waited_s"]),
        )
        for each in answer["users"][:_MOST_WAITS]
    ]
    left = len(answer["users"]) - len(rows) + answer["more_users"]
    more = paragraph(f"{many(left, 'more user')} had less GPU time.", soft=True) if left else ""
    return f"<div>{table(columns, rows)}{more}</div>" if rows else "<div></div>"


_MOST_WAITS = 10


def _gpus(answer: Document) -> str:
    columns = [
        *(("GPU", False), ("WITH A JOB", True), ("SM ACTIVITY", True)),
        *(("RESERVED MEMORY USED", True), ("MEMORY", True)),
    ]
    lasting_s = answer["until"] - answer["known_since"]
    rows = []
    for each in answer["devices"][:_MOST_GPUS]:
        used = each["peak_share"]
        rows.append(
            (
                _gpu(each),
                percent(min(each["held_s"], lasting_s), lasting_s),
                show_smact(each["smact"]),
                "-" if used is None else f"{used:.0%}",
                show_mib(each["total_mib"]),
            )
        )
    return f"<div>{table(columns, rows)}</div>" if rows else "<div></div>"


def _gantt(answer: Document) -> str:
    places = {outcome: place for place, outcome in enumerate(OUTCOMES)}
    kinds = list(OUTCOMES.values())
    rows: list[list[GanttBar]] = [[] for _ in answer["devices"]]
    for each in answer["bars"]:
        label = f"{each['job']} {each['name']}"
        more = f"{each['user']}, peak {show_mib(each['peak_mib'])}"
        ended_s = each["end_at"] if each["outcome"] is not None else None
        bar = GanttBar(each["begin_at"], ended_s, places[each["outcome"]], label, more)
        for gpu in each["gpus"]:
            rows[gpu].append(bar)
    shown = [
        GanttRow(_gpu(device), found)
        for device, found in zip(answer["devices"], rows, strict=True)
        if found or device["index"] is not None
    ]
    chart = gantt(
        *("attempts", "Attempts on GPUs", shown, kinds, *_span(answer)),
        left_out=answer["more_bars"],
    )
    gpuless = answer["deaths"]["attempts_without_gpu"]
    note = f"Without a GPU, and not drawn: {many(gpuless, 'attempt')}." if gpuless else ""
    return chart + (paragraph(note, soft=True) if note else "")


def _deaths(answer: Document) -> list[str]:
    deaths = answer["deaths"]
    lines = []
    if deaths["attempts_shared"]:
        lines.append(
            f"{deaths['attempts_shared']:,} of {deaths['attempts']:,} attempts shared a GPU with "
            f"another one; {deaths['deaths_shared']:,} of these died of out-of-memory."
        )
    if deaths["not_ended"]:
        lines.append(f"Not ended yet after such a death: {many(deaths['not_ended'], 'job')}.")
    lines.append(
        "How many deaths reservations have avoided is not on record: nobody knows what would have "
        "happened without them."
    )
    died = answer["total"]["oom_deaths"]
    found = [paragraph(line) for line in lines]
    if died:
        bins = _bins(answer, lambda each: [float(each["oom_deaths"])])
        title = f"Attempts that died of GPU out-of-memory, by {_step(answer)}"
        kinds = (OUTCOMES["oom"],)
        found.append(beside(bars("deaths", title, bins, counts("attempts"), kinds)))
    return found


def _energy(answer: Document) -> str:
    first_s = answer["energy_since"]
    if first_s is None:
        return paragraph("No energy is on record.", soft=True)

    def values(each: Document) -> list[float | None]:
        if each["until"] <= first_s:
            return [None, None]
        return [each["kwh"] - each["idle_kwh"], each["idle_kwh"]]

    def cost(each: Document) -> list[float | None]:
        return [None if each["until"] <= first_s else each["cost"]]

    kinds = Kind("with a job", "blue"), Kind("idle", "grey", "across")
    step, currency = _step(answer), answer["currency"]
    return beside(
        bars(
            "energy", f"Energy of the GPUs, by {step}", _bins(answer, values), numbers("kWh"), kinds
        ),
        bars("cost", f"Its cost, by {step}", _bins(answer, cost), numbers(currency)),
    )


def _estimators(answer: Document) -> list[str]:
    rows = [
        (
            each["estimator"],
            f"{each['runs']:,}",
            *(_times(each[name]) for name in ("ratio", "ratio_p5", "ratio_p95")),
            percent(each["below"], each["runs"]),
        )
        for each in answer["estimators"]
    ]
    if not rows:
        return [paragraph("No attempt with an estimate has shown its peak.", soft=True)]
    columns = [
        *(("ESTIMATOR", False), ("ATTEMPTS", True), ("ESTIMATE/PEAK: MEDIAN", True)),
        *(("5TH PERCENTILE", True), ("95TH", True), ("ESTIMATE BELOW PEAK", True)),
    ]
    said = (
        "What each estimator had said of the GPU memory, before correction, beside the peak of the "
        "attempt. 1.00x is exact; an estimate below the peak reserves too little."
    )
    return [paragraph(said), table(columns, rows)]


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}x"


# ------------------------------------------------------------------ time


def _span(answer: Document) -> tuple[float, float]:
    """Return the time of all charts: from the first record."""
    times = answer["times"]
    return (times[0]["at"] if times else answer["since"]), answer["until"]


def _step(answer: Document) -> str:
    """Return how long the bins are, in words."""
    longest = max((each["until"] - each["at"] for each in answer["times"]), default=0.0)
    if longest <= 3600:
        return "hour"
    days = round(longest / _DAY_S)
    return "day" if days <= 1 else f"{days} days"


def _level(name: str, points: list[tuple[float, float]], answer: Document) -> Series:
    """Return means of bins as steps, up to the end of the last one."""
    ends = [(answer["until"], points[-1][1])] if points else []
    return Series(name, [*points, *ends], steps=True, filled=True)


def _bins(answer: Document, values: Callable[[Document], Sequence[float | None]]) -> list[Bin]:
    """Return a bin for each time, with labels at round times."""
    times = answer["times"]
    edges = [each["at"] for each in times]
    labels: dict[int, str] = {}
    if times:
        for at_s, text in clock_ticks(edges[0], times[-1]["until"] - 1.0):
            labels.setdefault(bisect_right(edges, at_s) - 1, text)
    return [
        Bin(labels.get(place, ""), values(each), local_time(each["at"])[:16])
        for place, each in enumerate(times)
    ]


def _gpu(device: Document) -> str:
    return f"GPU {device['index']}" if device["index"] is not None else device["gpu"]
