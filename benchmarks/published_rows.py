"""The published figures of the five papers, and where ours stands on the pages of docs/lab.

A figure is as its text prints it (percent, seconds, counts). `plot` says that it was read from a
picture, since the text has no number; `implied`, that it follows from numbers of the text. `Pick`
names ours: the cell of a table, or a sentence.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from benchmarks.flowcon import rows as flowcon
from benchmarks.simulation import published as thesis
from benchmarks.specon import rows as specon

BUILT = "by construction"
FITTED = "fitted"


class Pick(Struct, frozen=True):
    """Where our figure is: the `nth` number in the cell of a row and a column.

    `under` is the heading above the table, if several tables have such a row. `column` None: `row`
    is a pattern of the page's text, and its first group the figure. `times` changes the unit.
    """

    page: str
    row: str
    column: str | None = None
    nth: int = 0
    under: str | None = None
    times: float = 1.0


class Row(Struct, frozen=True):
    """A published figure, or the ends of a published range.

    `within`: counts may be so far off. `spread` names the standard deviation of our runs, if there
    is one: a single published run may be two of them off. `close`: it is no change but a size, such
    as joules, seconds or an accuracy, of which the policies differ by less than 25 %.
    """

    source: str
    what: str
    published: tuple[float, float]
    pick: Pick | None = None
    word: str | None = None
    within: float = 0.0
    close: bool = False
    spread: Pick | None = None


class Part(Struct, frozen=True):
    """The rows of one system. `command`: a sentence with the commands that make ours. `why`: why
    rows are missed."""

    title: str
    command: str
    rows: tuple[Row, ...]
    why: str = ""


def _row(
    source: str,
    what: str,
    published: float | tuple[float, float],
    pick: Pick | None = None,
    word: str | None = None,
    within: float = 0.0,
    *,
    close: bool = False,
) -> Row:
    ends = published if isinstance(published, tuple) else (published, published)
    return Row(source, what, ends, pick, word, within, close)


# ------------------------------------------------------------------ FlowCon, SpeCon

_GROWN = "reproduction-flowcon-specon"


def _grown(row: str, nth: int = 0) -> Pick:
    return Pick(_GROWN, row, "letter", nth)


def _flowcon() -> Iterator[Row]:
    yield _row(
        "6.1.3, fig. 6.5",
        "VAE's part of the CPUs when MNIST-P comes",
        0.25,
        Pick(_GROWN, r"the letter gives VAE\s(\S+)"),
    )
    sources = {(0.05, 30.0): "6.1.3", (0.05, 20.0): "6.1.3, table 6.2"}
    for setting, changes in flowcon.THREE.items():
        name, ends = "{:.0%}, {:.0f} s".format(*setting), (min(changes), max(changes))
        source = sources.get(setting, "table 6.2")
        yield _row(source, f"MNIST-TF's time, {name} (%)", ends, _grown(name))
    fall = Pick(_GROWN, r"the letter's by\s(\S+) %", times=-1.0)
    yield _row("6.1.3", "makespan of three jobs (%)", (-5.0, -1.0), fall)
    alone = "equal sharing: MNIST-TF, all (s)"
    yield _row("6.1.3", alone, 84.7, Pick(_GROWN, r"equal sharing \((\S+) s"), FITTED)
    for setting, sooner in flowcon.FIVE.items():
        name = "{:.0%}, {:.0f} s".format(*setting)
        row = _grown(f"5 jobs, {name}")
        yield _row("6.1.4", f"jobs of 5 that end sooner, {name}", sooner, row, within=1)
    yield _row(
        "6.1.4", "makespan of 5 jobs, 3%, 30 s (%)", (-5.0, -1.0), _grown("5 jobs, 3%, 30 s", 1)
    )
    yield _row("6.1.4", "5 jobs, 3%, 30 s: best (%)", -42.06, _grown("5 jobs, 3%, 30 s", 2))
    yield _row("6.1.4", "5 jobs, 5%, 60 s: worst (%)", 11.8, _grown("5 jobs, 5%, 60 s", 3))
    for count, _, figures in flowcon.MANY:
        for nth, (what, published) in enumerate(
            zip(("that end sooner", "makespan (%)", "best (%)", "worst (%)"), figures, strict=True)
        ):
            pick = _grown(f"{count} jobs, 10%, 20 s", nth)
            source = "6.1.5, implied" if (count, nth) == (10, 1) else "6.1.5"
            within = 0.0 if nth else 1.0
            yield _row(source, f"{count} jobs: {what}", published, pick, within=within)


def _specon() -> Iterator[Row]:
    whole = [row for row in specon.ROWS if row.sooner is not None]
    for source, each in zip(("6.2.3", "6.2.3", "6.2.4", "6.2.2"), whole, strict=True):
        assert each.makespan is not None and each.sooner is not None
        # The period of the meter is chosen with the first two in view.
        word = FITTED if each.name.startswith("20 mixed") else None
        for nth, (what, published) in enumerate(
            (("mean (%)", each.mean), ("makespan (%)", each.makespan), ("sooner", each.sooner))
        ):
            pick, within = _grown(each.name, nth), 1.0 if nth == 2 else 0.0
            fitted = word if nth < 2 else None
            place = f"{source}, implied" if published == -5.6 else source
            yield _row(place, f"{each.name}: {what}", published, pick, fitted, within=within)
    for each in specon.ROWS[len(whole) :]:
        change = (-8.0, -3.2) if each.mean == -8.0 else each.mean  # the text has both
        yield _row("6.2.3", f"{each.name}: mean (%)", change, _grown(each.name))
    for source, name, mean, makespan, word in (
        ("6.2.3", "20 mixed jobs, 4 workers", 710.0, 1421.0, FITTED),
        ("6.2.3", "30 mixed jobs, 4 workers", 799.5, 1640.0, None),
        ("6.2.4", "50 mixed jobs, 8 workers", 596.3, 2070.0, None),
        ("6.2.2", "20 VAE, one each 50 s", 275.2, 1260.0, FITTED),
    ):
        for nth, (what, published) in enumerate((("mean (s)", mean), ("makespan (s)", makespan))):
            # The first number of the cell is the mean, the second the makespan.
            pick = Pick(_GROWN, name, "without SpeCon", nth)
            fitted = word if nth == 0 else None
            place = f"{source}, implied" if published == 710.0 else source
            yield _row(place, f"{name}, without: {what}", published, pick, fitted, close=True)


# ------------------------------------------------------------------ ANDREAS

_ANDREAS = "reproduction-andreas"


def _andreas() -> Iterator[Row]:
    for scenario, published in ((1, 62.0), (2, 30.0)):
        pick = Pick(_ANDREAS, rf"scenario {scenario}: (\S+) % less on average")
        yield _row("V-B", f"scenario {scenario}: saved on average (%)", published, pick)
    yield _row(
        "V-B",
        "scenario 1: longest call (s, below 0.1)",
        (0.0, 0.1),
        Pick(_ANDREAS, r"scenario 1's longest call is (\S+) s"),
    )
    yield _row(
        "V-B",
        "scenario 2: a call (s, below 0.01)",
        (0.0, 0.01),
        Pick(_ANDREAS, r"scenario 2's calls take (\S+) s"),
    )
    yield _row(
        "table III",
        "predicted and metered cost apart (%)",
        12.29,
        Pick(_ANDREAS, r"\s(\S+) % of the prediction apart"),
        BUILT,
    )
    yield _row("table III", "apart for each call (%)", 10.81)


# ------------------------------------------------------------------ DLRover, NEARCHUS

_ELASTIC = "reproduction-elastic"


def _elastic(row: str, nth: int = 0, times: float = 1.0) -> Pick:
    return Pick(_ELASTIC, row, "reached", nth, times=times)


def _dlrover() -> Iterator[Row]:
    plan = "plan for W&D, xDeepFM, C = 200 (Table 1)"
    for nth, what, published in ((0, "W&D", 24), (4, "xDeepFM", 8)):
        yield _row("table 1", f"plan: workers of {what}", published, _elastic(plan, nth), BUILT)
    hot = "W&D, two hot PS replaced by 24 CPUs each"
    yield _row("table 1", "W&D before (steps/s)", 210, _elastic(hot), FITTED)
    yield _row("4.2", "W&D, hot servers replaced (steps/s)", 258, _elastic(hot, 1), close=True)
    more = "xDeepFM, 8 → 10 workers"
    yield _row("table 1", "xDeepFM before (steps/s)", 47.8, _elastic(more), FITTED)
    yield _row("4.2", "xDeepFM, two more workers (steps/s)", 56, _elastic(more, 1), close=True)
    slow = "a worker at 25 % CPU: time saved (W&D, xDeepFM)"
    yield _row("6.2", "slow worker, W&D: saved (%)", 24, _elastic(slow), FITTED)
    yield _row("6.2", "slow worker, xDeepFM: saved (%)", 42, _elastic(slow, 1), FITTED)
    server = "a PS at 25 % CPU: time saved (W&D, xDeepFM)"
    yield _row("6.2", "slow server, W&D: saved (%)", 42, _elastic(server))
    yield _row("6.2", "slow server, xDeepFM: saved (%)", 25, _elastic(server, 2))
    wide = "W&D: time against auto-scaling, Optimus"
    pick = _elastic(wide)
    yield _row("6.3", "W&D, against auto-scaling (%, more than)", 30, pick, FITTED)
    deep = "xDeepFM: time against auto-scaling, Optimus"
    yield _row("6.3", "xDeepFM, against auto-scaling (%, more than)", 10, _elastic(deep))
    for what, published in (
        ("median completion time of a cluster (%)", -31),
        ("the same, jobs with hot servers (%)", -21),
        ("the same, jobs with too few CPUs (%)", -57),
        ("CPU utilisation after (before: 29 %)", 44),
        ("memory utilisation after (before: 31 %)", 52),
    ):
        yield _row("6.4", what, published)


def _nearchus() -> Iterator[Row]:
    cores = "MU: one worker on 20, 32, 64 cores (fig. 3)"
    for nth, (size, published) in enumerate(((20, 16), (32, 21), (64, 37))):
        what = f"one worker on {size} cores uses (CPUs)"
        yield _row("III-A", what, published, _elastic(cores, nth), BUILT)
    workers = "MU: 1, 2, 10 workers on 64 cores (fig. 4)"
    for nth, (count, used) in enumerate(((1, 37), (2, 46), (10, 57))):
        word = FITTED if count < 10 else None
        what = f"{count} workers on 64 cores use (CPUs)"
        yield _row("III-A", what, used, _elastic(workers, nth), word)
    net = "PSN: 1 instead of 10 Gbps on 20, 32, 64 cores (fig. 5a)"
    for nth, (size, change) in enumerate(((20, -17.7), (32, -53.5), (64, -53.4))):
        what = f"1 instead of 10 Gbps, {size} cores: use (%)"
        yield _row("III-A", what, change, _elastic(net, nth), FITTED)
    bend = "PSN: where use stagnates with 1 PS, with 10 (fig. 5b)"
    yield _row("III-A", "use stagnates with 1 server at (workers)", 8, _elastic(bend))
    part = "ResNet-50: part of 100 vCPU that Optimus uses (III-C)"
    yield _row("III-C", "ResNet-50: part that Optimus uses (%)", 43, _elastic(part))
    speed = r"one job: speed against Optimus \(A\).*{} \+(\d+) %"
    for name, faster in (("ResNet-50", 71.4), ("InceptionV3", 129.1)):
        pick = Pick(_ELASTIC, speed.format(name))
        yield _row("V-A", f"{name}: speed against Optimus (%)", faster, pick)
    brute = r"one job: speed against FA-BF \(A\).*\| (?:\*\*)?MobileNet.*{} \+(\d+) %"
    pick = Pick(_ELASTIC, r"one job: speed against FA-BF \(A\).*\| (?:\*\*)?MobileNet \+(\d+) %")
    yield _row("V-A", "MobileNet: speed against FA-BF (%)", 18.3, pick)
    pick = Pick(_ELASTIC, brute.format("ResNet-50"))
    yield _row("V-A", "ResNet-50: speed against FA-BF (%)", 19.9, pick)
    alone = "one job: time against Optimus (A, B)"
    yield _row("V-A", "one job, cluster A: time saved (%, up to)", 37.2, _elastic(alone, 2))
    yield _row("V-A", "one job, cluster B: time saved (%, up to)", 61.6, _elastic(alone, 3))
    forty = "`nearchus`, 40 jobs (A): queue, time against FA-BF"
    yield _row("V-B", "40 jobs (A): queue against FA-BF (%)", -67.8, _elastic(forty))
    yield _row("V-B", "40 jobs (A): time against FA-BF (%)", -23.6, _elastic(forty, 3))
    beside = "`nearchus`, 40 jobs (A): time against Optimus"
    yield _row("V-B", "40 jobs (A): time against Optimus (%)", -35.6, _elastic(beside))
    run = "40 jobs (B): run time against Optimus"
    yield _row("V-B", "40 jobs (B): run time against Optimus (%)", -24.6, _elastic(run))
    rival = "40 jobs (A): Optimus' queue against FA-BF"
    yield _row("V-B", f"{rival} (%)", -32.6, _elastic(rival))
    yield _row("V-A", "LSTM: speed against Optimus (%)", 14.4)
    yield _row("V-A", "GPT: speed against Optimus (%)", 55.6)


# ------------------------------------------------------------------ RAD-RM

_RAD = "reproduction"


def _rad(trace: str, row: str, column: str, nth: int) -> Pick:
    return Pick(_RAD, row, column, nth, under=trace)


def _radrm() -> Iterator[Row]:
    for trace in ("mix90", "heavy60"):
        for row in thesis.ROWS:
            if row.trace != trace or row.policy == "exclusive" or row.oom is None:
                continue
            table = "6.5" if trace == "heavy60" else "6.3" if row.estimator == "none" else "6.4"
            what, ends = f"{trace}, {row.what}: deaths", (float(row.oom),) * 2
            ours, spread = (_rad(trace, row.what, "OOM", nth) for nth in (1, 2))
            yield Row(f"table {table}", what, ends, ours, within=1.0, spread=spread)
    for row in thesis.ROWS:
        if row.energy_mj is not None:
            pick, word = _rad("heavy60", row.what, "energy", 1), FITTED if row.minutes else None
            what = f"heavy60, {row.what}: energy (MJ)"
            yield _row("table 6.6", what, row.energy_mj, pick, word, close=True)
    pick = Pick(_RAD, r"saved by MAGM: 13\.3→(\S+)%")
    yield _row("6.4.6", "energy saved by MAGM; by the text with GPUMemNet (%)", 13.25, pick)
    changed = [row for row in thesis.ROWS if row.trace == "mix90" and row.change]
    for source, row in zip(("6.4.1", "6.4.2", "6.4.3"), changed, strict=True):
        assert row.change is not None
        pick = _rad("mix90", row.what, "time", 1)
        yield _row(source, f"mix90, {row.what}: total time (%)", row.change, pick)
    both = "MAGM + GPUMemNet (80%)"
    pick = _rad("heavy60", both, "time", 1)
    yield _row("fig. 6.11, plot", f"heavy60, {both}: total time (%)", -26.7, pick)
    for name, minutes in (("Exclusive", 638.8), (both, 468.0)):
        pick = Pick(_RAD, rf"{minutes}\*→(\d+)±\d+")
        what = f"heavy60, {name}: total time (min)"
        yield _row("fig. 6.13, plot", what, minutes, pick, FITTED)
    for name, smact, word in (("Exclusive", 0.609, FITTED), (both, 0.853, None)):
        pick = Pick(_RAD, rf"{smact}\*→(0\.\d+)")
        what = f"heavy60, {name}: SMACT"
        yield _row("fig. 6.14, plot", what, smact, pick, word, close=True)
    for nth, (what, minutes_there) in enumerate((("waiting", 119.3), ("execution", 74.3))):
        # `119+74→124+62/...`: published, then ours.
        pick = _rad("heavy60", both, "wait+exec", nth + 2)
        yield _row(
            "fig. 6.12, plot", f"heavy60, {both}: {what} (min)", minutes_there, pick, close=True
        )


_MEMNET = "gpumemnet-tables"


def _gpumemnet() -> Iterator[Row]:
    for source, row, published in (
        ("table 5.3", "MLP, 1 GB", 0.9542),
        ("table 5.3", "MLP, 2 GB", 0.9706),
        ("table 5.5", "CNN, random networks", 0.8825),
        ("table 5.7", "transformer, random networks", 0.8552),
    ):
        yield _row(
            source, f"{row}: accuracy", published, Pick(_MEMNET, row, "accuracy"), close=True
        )
    for size, published in ((1, 0.9673), (2, 0.9804)):
        pick = Pick("gpumemnet", rf"of {size} GB\s(?:for )?(0\.\d+)")
        what = f"Transformer estimator, MLPs, {size} GB: accuracy"
        yield _row("table 5.3", what, published, pick, close=True)
    pick = Pick("gpumemnet", r"Random CNNs \*\*miss\*\*: (0\.\d+)")
    yield _row("table 5.5", "Transformer estimator, CNNs: accuracy", 0.8449, pick, close=True)
    yield _row("table 5.7", "Transformer estimator, transformers: accuracy", 0.8650)
    yield _row("table 5.1", "buckets of the first MLPs: accuracy", 0.8182)
    pick = Pick("gpumemnet", "GPUMemNet, ours", "below")
    yield _row("5.5.2", "real jobs that GPUMemNet puts too low", 2, pick, within=1)


def _gpu() -> Iterator[Row]:
    for source, what, published in (
        ("3.3.2, fig. 3.1", "one thread in one block: GRACT (%)", 90),
        ("table 3.2", "ResNet50, epoch without a tool (min)", 37.06),
        ("table 3.2", "ResNet50, epoch with dcgm (min)", 37.19),
        ("4.3.2", "3 copies, MPS or MIG: time per epoch (%)", (50, 110)),
        ("4.3.2", "7 copies, MPS or MIG: time per epoch (times)", (2, 2.5)),
        ("table 4.2", "recommender and ResNet152, time-sliced (%)", -5),
        ("table 4.2", "recommender and ResNet152, MPS (%)", -13),
        ("table 4.2", "recommender and ResNet152, MIG (%)", -13),
    ):
        yield _row(source, what, published, word="needs a GPU")


_FLOWCON_WHY = """\
*Makespans*: no CPU of the model is idle, so none can fall; that of 5 jobs rises, since LSTM-CFC,
among the last, is limited to less than the 19 % that it can use. *VAE's part*: a new job would have
to count as all growth; the independent model then gives MNIST-TF -50 % (5%, 30 s), and the text
-32. *5 jobs, best*: the same. *Intervals of 40 s and more*: both programs of the printed algorithms
agree, for all losses that were tried; single published runs of one setting are 7 to 8 points apart
(10%, 20 s; 5%, 20 s). *10 and 15 jobs*: their work is not published."""

_SPECON_WHY = """\
Losses and run times are not published, and each published figure is of one run. *30 mixed jobs,
without*: as published, 30 jobs have hardly more work for a worker than 20. *One each 50 s*: with
these run times no worker is overloaded, so there is hardly anything to gain. *Intervals*: published
are -1 to -10 % for settings that do not differ here."""

_ANDREAS_WHY = """\
The paper names no load, which decides what is saved: ours are at load 0.5."""

_DLROVER_WHY = """\
*Slow server*: in the model a server with a quarter of its CPUs limits both jobs far more than was
measured. *Auto-scaling*: what it begins with is not published."""

_NEARCHUS_WHY = """\
*Speeds*: Optimus as modelled ends with 1 server and 19 workers; where it ended in the paper is not
printed. *40 jobs, run time*: the lengths of the jobs are not published; ours gains more than was
published."""

_RADRM_WHY = """\
*RR*: in the model, deaths follow from which large jobs meet, hardly from chance. *FakeTensor*: not
explained. *Execution*: 28 of 53 published placements join a GPU that the model shows above its
limit."""

_MEMNET_WHY = """\
The thesis's networks are not available, and ours have labels that are modelled, not measured."""


PARTS = (
    Part(
        "FlowCon (Zheng's thesis)",
        "`python -m benchmarks.flowcon`, *letter*.",
        (*_flowcon(),),
        _FLOWCON_WHY,
    ),
    Part(
        "SpeCon (Zheng's thesis)",
        "`python -m benchmarks.specon`, *letter*.",
        (*_specon(),),
        _SPECON_WHY,
    ),
    Part("ANDREAS", "`make bench-deadlines`, free moves.", (*_andreas(),), _ANDREAS_WHY),
    Part("DLRover", "`make bench-elastic`.", (*_dlrover(),), _DLROVER_WHY),
    Part("NEARCHUS", "`make bench-elastic`.", (*_nearchus(),), _NEARCHUS_WHY),
    Part(
        "RAD-RM, scheduling",
        "`python -m benchmarks.simulation.reproduction --data FOLDER`, the published loop.",
        (*_radrm(),),
        _RADRM_WHY,
    ),
    Part(
        "RAD-RM, GPUMemNet",
        "`python -m benchmarks.gpumemnet.train --tables`, `series` and `extremes` beside it.",
        (*_gpumemnet(),),
        _MEMNET_WHY,
    ),
    Part(
        "RAD-RM, on a GPU",
        "No GPU was there yet: `make gpu-accept` and `python -m benchmarks.micro`.",
        (*_gpu(),),
    ),
)
