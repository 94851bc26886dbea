"""`radrm simulate`, `compare` and `replay`: documents, tables, options, bad input."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from radrm.config import Config
from radrm.core.words import Collocation
from radrm.errors import BadConfig, RadrmError
from radrm.host.storage.store import Store
from radrm.host.storage.submitted import Submission
from radrm.lab.experiments.simulations import runs
from radrm.lab.experiments.simulations.runs import Result, results
from radrm.lab.experiments.simulations.sources import File, load_trace
from radrm.lab.experiments.simulations.variants import Choices, check_settings, make_variant
from radrm.lab.show.replay import caveats, sentence
from radrm.lab.show.simulations import compared_table, one_table, same_line
from radrm.lab.simulator.bounds import Bounds
from radrm.lab.simulator.metrics import Change, Metrics
from radrm.lab.simulator.traces.past import Range, Replayed
from radrm.policies import POLICIES
from tests.cli.runner import invoke
from tests.documents import errors_of
from tests.host.storage.pasts import decided
from tests.lab.simulator.pasts import attempt, past, used
from tests.paths import REPOSITORY

EXAMPLES = REPOSITORY / "examples" / "traces"
AFTERNOON = str(EXAMPLES / "afternoon.csv")
# fmt: off
CONTRACT = [
    "policy", "order", "estimator", "collocation", "recovery", "fidelity", "seeds", "jobs",
    "makespan_s", "mean_wait_s", "mean_exec_s", "mean_jct_s", "p95_jct_s",
    "oom_count", "energy_j", "gpu_smact_mean", "gpu_memory_mean",
]
# fmt: on


def run(*words: str) -> str:
    found = invoke(*words)
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    assert found.exit_code == 0, found.stdout
    if "--json" in words:
        assert errors_of(words, json.loads(found.stdout)) == []
    return found.stdout


def error_of(*words: str) -> str:
    with pytest.raises(RadrmError) as caught:
        run(*words)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def short(folder: Path, trace: str = AFTERNOON, jobs: int = 11) -> str:
    """A trace of the first jobs of another one."""
    file = folder / f"short-{Path(trace).name}"
    file.write_text("".join(open(trace).readlines()[: 1 + jobs]))
    return str(file)


# ------------------------------------------------------------------ simulate


def test_the_document_of_one_run() -> None:
    found = json.loads(run("simulate", AFTERNOON, "--policy", "lug", "--seeds", "2", "--json"))
    assert set(CONTRACT) <= set(found)
    assert {f"{name}_sd" for name in CONTRACT[8:]} <= set(found)
    assert (found["policy"], found["order"], found["collocation"]) == ("lug", "fifo", "timeslice")
    assert (found["estimator"], found["fidelity"], found["seeds"]) == ("auto", "radrm", 2)
    assert found["jobs"] == 40 and found["left_out"] == 0 and found["unfinished"] == 0
    assert found["mean_jct_s"] == pytest.approx(found["mean_wait_s"] + found["mean_exec_s"])
    assert found["bound_makespan_s"] <= found["makespan_s"]
    assert found["bound_mean_jct_s"] <= found["mean_jct_s"]


def test_one_seed_has_no_spread_and_runs_are_the_same_again() -> None:
    words = ("simulate", AFTERNOON, "--fidelity", "published", "--estimator", "guess", "--json")
    first = run(*words)
    assert json.loads(first)["makespan_s_sd"] is None
    assert first == run(*words)


def test_for_people() -> None:
    text = run("simulate", AFTERNOON, "--gpus", "sim:2xA100-40GB", "--users", "3")
    first, second, *_ = text.splitlines()
    assert first == (
        "As configured here: packing, smallest-work, backfill; time-sliced; estimator auto; "
        "nothing declared"
    )
    assert second == "40 jobs on 2 GPUs, 1 seed; recovery exclusive, loop radrm"
    assert "LOWER BOUND" in text and "trace total time" in text


def test_the_first_line_says_what_is_not_as_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--policy", "lug", "--collocation", "mps", "--estimator", "oracle")
    known = ("--known", "smact,duration=0.3")
    assert run("simulate", AFTERNOON, *words, *known).splitlines()[0] == (
        "Not as configured here: lug, fifo, strict; MPS; estimator oracle; memory declared, "
        "SM activity known, duration known within 30%"
    )
    file = tmp_path / "config.toml"
    file.write_text('order = "fifo"\n[mps]\nenabled = true\n')
    monkeypatch.setenv("RADRM_CONFIG", str(file))
    assert run("simulate", AFTERNOON).splitlines()[0] == (
        "As configured here: packing, fifo, backfill; MPS; estimator auto; nothing declared"
    )


def test_exclusive_sharing_and_settings_reach_the_rules() -> None:
    def made(*settings: str, policy: str = "magm", mode: str | None = None) -> Any:
        choices = Choices(collocation=mode, settings=settings)
        return make_variant(Config(), policy, "oracle", choices).scenario

    assert made(mode="exclusive").config.collocation is Collocation.EXCLUSIVE
    assert not made(mode="timeslice").mps and not made().mps and made(mode="mps").mps
    assert made("policy.max_smact=0.5").config.policies == {"sharing": {"max_smact": 0.5}}
    assert made("scheduler.smact_limit=0.75").config.policies == {"sharing": {"max_smact": 0.75}}
    assert made("policies.sharing.margin_mib=1").config.policies == {"sharing": {"margin_mib": 1}}
    assert made("core.settle_s=7").config.core == {"settle_s": 7}
    assert made("life.start_up_s=7").life.start_up_s == 7
    assert made("policy.max_smact=0.5", policy="exclusive").config.policies == {}


def test_a_setting_that_nobody_has() -> None:
    with pytest.raises(BadConfig, match="'max_smct' is no setting of magm; there are: "):
        check_settings(["policy.max_smct=1"], ["magm"])
    with pytest.raises(BadConfig, match="any policy that is run"):
        check_settings(["policy.what=1"], ["magm", "lug"])
    check_settings(["policy.max_smact=0.5"], ["exclusive", "lug"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--policy", "magmm"], "did you mean magm?"),
        (["--order", "fifoo"], "did you mean fifo?"),
        (["--recovery", "maybe"], "no rule 'maybe' among recovery"),
        (["--planner", "none"], "no rule 'none' among planners"),
        (["--estimator", "foo"], "no estimates of 'foo'; there are: "),
        (["--collocation", "mig"], "for MIG, use --gpus"),
        (["--fidelity", "prototype"], "is not one of radrm, published"),
        (["--gpus", "4xA100"], "must begin with 'sim:'"),
        (["--gpus", "sim:1xT4-1GB"], "no job of the trace fits"),
        (["--policy", "magm", "--set", "policy.max_smact=80"], "not a fraction from 0 to 1"),
        (["--set", "life.spread=1"], "below 1"),
        (["--set", "life.speed=1"], "names are: "),
        (["--set", "nonsense"], "KEY=VALUE"),
        (["--import", "csv"], "there are: trace, published"),
        (["--profile", "/nowhere"], "cannot read /nowhere"),
        (["--fill", "/nowhere"], "cannot read /nowhere"),
    ],
)
def test_a_bad_word_is_one_clear_line(words: list[str], said: str) -> None:
    assert said in error_of("simulate", AFTERNOON, *words)


def test_a_trace_that_cannot_be_read(tmp_path: Path) -> None:
    assert "No such file" in error_of("simulate", str(tmp_path / "none.csv"))
    assert "Is a directory" in error_of("simulate", str(tmp_path))
    (tmp_path / "long.csv").write_text("x" * 300_000)
    assert "longer than 65536" in error_of("simulate", str(tmp_path / "long.csv"))


def test_an_imported_trace_can_be_kept(tmp_path: Path) -> None:
    kept = tmp_path / "kept.csv"
    run("simulate", str(EXAMPLES / "sacct.txt"), "--save", str(kept))
    first, again = (
        load_trace(File(str(EXAMPLES / "sacct.txt"))).jobs,
        load_trace(File(str(kept))).jobs,
    )
    assert [(j.name, j.submit_s, j.memory_mib) for j in first] == [
        (j.name, j.submit_s, j.memory_mib) for j in again
    ]
    assert "cannot write" in error_of("simulate", AFTERNOON, "--save", str(tmp_path / "no" / "x"))


def test_processes_give_what_one_process_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = load_trace(File(AFTERNOON)).jobs
    variants = [make_variant(Config(), name, "oracle", Choices()) for name in ("exclusive", "lug")]
    alone = results([jobs], variants, range(2))
    monkeypatch.setattr(runs, "_WORTH_PROCESSES", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    beside = results([jobs], variants, range(2))
    assert [r.runs for r in alone] == [r.runs for r in beside]
    assert alone[0].limits == beside[0].limits


# ------------------------------------------------------------------ compare


def test_policies_and_estimators_beside_exclusive() -> None:
    words = ("--policy", "magm,lug", "--policy", "exclusive", "--estimator", "none,guess")
    found = json.loads(run("compare", AFTERNOON, *words, "--json"))
    assert [each["yours"] for each in found] == [True, *[False] * 5]
    assert [(each["policy"], each["estimator"]) for each in found] == [
        ("packing", "none"),
        ("exclusive", "none"),
        ("magm", "none"),
        ("magm", "guess"),
        ("lug", "none"),
        ("lug", "guess"),
    ]
    assert all(set(CONTRACT) <= set(each) for each in found)
    assert len({each["bound_makespan_s"] for each in found}) == 1
    assert found[2]["makespan_s"] < found[1]["makespan_s"]


def test_all_policies_are_compared_where_none_is_named(tmp_path: Path) -> None:
    text = run("compare", short(tmp_path), "--gpus", "sim:2xA100-40GB")
    assert text.startswith("As configured here: packing")
    table, _, same = text.partition("Left out, with the same results: ")
    rows = [line.split()[0] for line in table.splitlines()[2:]]
    rows = rows[: rows.index("fluid") + 1]
    left_out = {name for part in same.split("; ") for name in part.split(" as ")[0].split(", ")}
    others = [name for name in POLICIES if name != "exclusive" and name not in left_out]
    assert rows == ["your", "exclusive", *others, "lower", "fluid"]
    assert "in percent: of your daemon" in text
    assert "RESIZES" not in text, "no job has several sizes"


def figures(makespan_s: float, jct_s: float | None) -> Metrics:
    return Metrics(3, 0, makespan_s, 10, 20, jct_s, 40, 1, 5e6, 0.5, 0.25)


def test_the_best_is_bold_and_the_unknown_is_a_dash() -> None:
    limits = Bounds(50, 20, 60, 25)
    variants = [make_variant(Config(), name, "oracle", Choices()) for name in ("exclusive", "lug")]
    found = [
        Result(variants[0], (figures(200, 40),), limits),
        Result(variants[1], (figures(100, None),), limits),
    ]
    lines = compared_table(found).lines(None)
    bold = [text for line in lines[1:3] for text, style in line.pieces if "bold" in style]
    assert bold == ["1m40s"]
    assert "-50.0%" in lines[2].plain and lines[3].plain.startswith("lower bound")
    console = Console(width=80, record=True, file=open(os.devnull, "w"))
    console.print(one_table(found[1]))
    assert "+100%" in console.export_text()


def test_a_row_that_repeats_another_is_named_below() -> None:
    limits = Bounds(50, 20, 60, 25)
    names = ("exclusive", "lug", "magm", "mug")
    variants = [make_variant(Config(), name, "oracle", Choices()) for name in names]
    times = (200, 100, 200, 100)
    found = [
        Result(variant, (figures(at, 40),), limits)
        for variant, at in zip(variants, times, strict=True)
    ]
    lines = compared_table(found).lines(None)
    assert [line.plain.split()[0] for line in lines[1:]] == ["exclusive", "lug", "lower", "fluid"]
    assert "ESTIMATOR" not in lines[0].plain, "all have the same"
    said = same_line(found)
    assert "magm as exclusive; mug as lug" in said
    assert same_line(found[:2]) is None


@pytest.mark.parametrize("seeds", [1, 3])
def test_progress_counts_the_jobs_of_all_runs(seeds: int) -> None:
    jobs = load_trace(File(AFTERNOON)).jobs
    variants = [make_variant(Config(), name, "oracle", Choices()) for name in ("exclusive", "lug")]
    told: list[tuple[int, int]] = []
    results([jobs], variants, range(seeds), progress=lambda done, of: told.append((done, of)))
    all_jobs = len(jobs) * len(variants) * seeds
    assert told[-1] == (all_jobs, all_jobs) and {of for _, of in told} == {all_jobs}
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert len(told) > len(jobs) or seeds > 1, "the end of each job is counted"


# ------------------------------------------------------------------ replay


def test_the_sentence_says_how_sure_it_is() -> None:
    said = sentence("lug", "magm", "30d", Change(0.23, 0.2, 0.26))
    assert said == (
        "With lug instead of magm your jobs of the last 30d would have finished 23% sooner "
        "(20% to 26%)."
    )
    assert "5% later (3% to 8%)" in sentence("rr", "magm", "1d", Change(-0.05, -0.08, -0.03))
    unsure = sentence("rr", "magm", "1d", Change(0.02, -0.03, 0.07))
    assert "about when they did (from 3% later to 7% sooner)" in unsure
    assert "the difference is unknown" in sentence("rr", "magm", "1d", None)


def test_the_caveats() -> None:
    job = load_trace(File(AFTERNOON)).jobs[0]
    known = Replayed(
        *((job, job), (), {"never ran": 4}),
        alone=1,
        solved=1,
        unsure=0.125,
        shared=2,
        slow_down=Range(1.5, 1.25, 1.75),
    )
    text = " ".join(caveats(known, 1))
    assert "1 by a run of the job alone; 1 by readings" in text
    for words in ("±0.12", "2 jobs shared", "1.50 times", "(1.25 to 1.75)"):
        assert words in text
    assert "Left out: 4 never ran, 1 too large for the GPUs." in text


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Twenty jobs of a day that shared two GPUs."""
    from tests.host.storage.pasts import envelope
    from tests.lab.simulator.pasts import BEGIN

    made = Store(str(tmp_path / "radrm.sqlite"))
    for n in range(1, 21):
        usage = used("ab"[n % 2], 6000, 0.7, shared=n % 4 != 0)
        one = past(n, 60 * n, attempt(n, 60 * n + 5, 60 * n + 400 + n, usage))
        made.save([decided(one.job, *one.attempts)], [Submission(1, 1, envelope(f"T{n}"))])
    made.close()
    monkeypatch.setattr("radrm.lab.experiments.simulations.past.wall_s", lambda: BEGIN + 86400)
    return made.path


def test_one_s_own_past_under_other_policies(store: str, tmp_path: Path) -> None:
    words = ("replay", "--store", store, "--gpus", "sim:2xA100-40GB", "--seeds", "2")
    words += ("--instead-of", "magm")
    found = json.loads(run(*words, "--policy", "exclusive", "--json"))
    assert (found["instead_of"], found["jobs"], found["smact_unknown"]) == ("magm", 20, 15)
    assert found["recorded_mean_jct_s"] > 0 and found["shared"] > 10
    before, alone = found["policies"]
    assert before["sooner"] is None and alone["policy"] == "exclusive"
    assert alone["sooner_low"] <= alone["sooner"] <= alone["sooner_high"] < 0
    assert before["estimator"] == "none" and before["collocation"] == "mps"
    text = run(*words, "--policy", "exclusive,lug", "--save", str(tmp_path / "t.csv"))
    assert "With exclusive instead of magm your jobs of the last 30d would" in text
    assert "SM activity of the 20 jobs: 5 by a run of the job alone; 15 by readings" in text
    assert len(load_trace(File(str(tmp_path / "t.csv"))).jobs) == 20


def test_advice_for_one_s_own_past(store: str) -> None:
    words = ("replay", "--store", store, "--gpus", "sim:2xA100-40GB", "--seeds", "3", "--advise")
    found = json.loads(run(*words, "--policy", "exclusive,lug", "--json"))
    assert found["objective"] == "mean_jct_s" and found["tried"] == 4
    assert [each["settings"]["policy"] for each in found["candidates"]] == ["lug"] * 3
    text = run(*words, "--policy", "exclusive,lug", "--objective", "makespan")
    assert "The best 3 of 4 settings by total time" in text
    assert "SM activity of the 20 jobs: 5 by a run of the job alone" in text


def test_advice_for_a_trace(tmp_path: Path) -> None:
    words = ("compare", short(tmp_path), "--advise", "--policy", "rr", "--seeds", "3")
    text = run(*words)
    assert "present" in text and "The best 1 of 1 settings by mean completion time" in text
    assert "takes one --estimator" in error_of(*words, "--estimator", "none,oracle")
    assert "at least 3" in error_of(*words[:-1], "2")
    assert "--objective" in error_of(*words, "--objective", "speed")


def test_a_past_that_cannot_be_replayed(store: str) -> None:
    assert "add --gpus" in error_of("replay", "--store", store)
    assert "holds no job of the last 1m" in error_of("replay", "--store", store, "--since", "1m")
    assert "--since" in error_of("replay", "--store", store, "--since", "soon")
    assert "there is no store" in error_of("replay")
