"""Estimators tried on measured jobs: the figures, the forms of datasets, and bad ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.errors import BadFile
from radrm.lab.experiments.datasets import read_dataset
from radrm.lab.experiments.evaluation import Case, accuracy
from tests.cli.runner import invoke
from tests.documents import errors_of

TABLE = """\
        Layer (type)               Output Shape         Param #
================================================================
            Linear-1                 [-1, 1024]       1,049,600
================================================================
Total params: 1,049,600
"""
JOB = "conda activate tf\npython a.py\n{summary}\nwiki\n8\nx\n1\n{measured}\n{horus}\n40000\n"


def test_the_figures_of_some_cases() -> None:
    cases = [
        Case("exact", 1000, 1000, 1000, 0.1),
        Case("over", 1000, 1500, 2000, 0.3),
        Case("under", 1000, 900, 950),
        Case("silent", 1000),
        Case("no more than a whole device", 1000, 2.0**30, 2.0**30, None, whole_device=True),
    ]
    found = accuracy("mine", cases)
    assert (found.jobs, found.estimated, found.whole_device) == (5, 3, 1)
    assert found.mape == pytest.approx(0.2) and found.median_error == pytest.approx(0.1)
    assert (found.under, found.worst_under_mib, found.worst_over_mib) == (1, -100, 500)
    assert (found.over_mib, found.upper_under, found.upper_over_mib) == (500, 1, 1000)
    assert found.upper_over == 1.0 and found.seconds == pytest.approx(0.2)


def test_of_nothing_nothing_is_said() -> None:
    found = accuracy("mine", [Case("silent", 1000)])
    assert found.estimated == 0 and found.mape is None and found.seconds is None


@given(st.lists(st.tuples(st.floats(1, 1e6), st.none() | st.floats(0, 1e6))))
def test_under_over_and_exact_are_all_there_is(pairs: list[tuple[float, float | None]]) -> None:
    found = accuracy("mine", [Case("a", measured, said, said) for measured, said in pairs])
    over = sum(said is not None and said > measured for measured, said in pairs)
    exact = sum(said == measured for measured, said in pairs)
    assert found.under + over + exact == found.estimated <= found.jobs == len(pairs)
    assert found.upper_under == found.under


# ------------------------------------------------------------------ datasets


def folder_of_jobs(folder: Path) -> Path:
    (folder / "net.model").write_text(TABLE)
    for name, summary, measured, horus in (
        ("a", "net.model", 1600, 1200),
        ("b", "NET.model", 1500, 1200),
        ("whole", "net.model", 40000, 1200),
        ("gone", "gone.model", 1500, 1200),
    ):
        text = JOB.format(summary=summary, measured=measured, horus=horus)
        (folder / f"{name}.rad").write_text(text)
    (folder / "broken.rad").write_bytes(b"\0")
    (folder / "other.txt").write_text("not a job")
    return folder


def test_a_folder_of_job_files(tmp_path: Path) -> None:
    found = read_dataset(str(folder_of_jobs(tmp_path)))
    assert [(j.name, j.measured_mib) for j in found.jobs] == [
        ("a.rad", 1600),
        ("b.rad", 1500),
        ("gone.rad", 1500),
    ]
    with_summary = [j.job_file is not None and bool(j.job_file.summary) for j in found.jobs]
    assert with_summary == [True, True, False], "a summary is found in another case of letters"
    assert found.jobs[0].recorded == {"horus": 1200, "faketensor": 2.0**30}
    assert len(found.errors) == 3


def test_a_table_by_its_columns(tmp_path: Path) -> None:
    (tmp_path / "net.model").write_text(TABLE)
    table = tmp_path / "measured.csv"
    table.write_text(
        "model,measured_mib,summary,batch_size,valid,horus_mib\n"
        "one,1600,net.model,8,1,1200\n"
        "off,1600,net.model,8,0,1200\n"
        "bad,lots,net.model,8,1,\n"
        "odd,1600,net.model,eight,1,\n"
        "bare,900,,,,\n"
    )
    found = read_dataset(str(table))
    assert [(j.name, j.job_file is not None) for j in found.jobs] == [
        ("one", True),
        ("odd", False),
        ("bare", False),
    ]
    assert found.jobs[0].recorded == {"horus": 1200}
    assert [t.partition(":")[0] for t in found.errors] == ["line 4", "line 5"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "measured_mib"),
        ("a,b\n1,2\n", "measured_mib"),
        ("measured_mib\n", "no job whose memory was measured"),
        ("measured_mib\nnan\n-1\ninf\n", "line 2"),
        ("measured_mib,x\n1,\0\n", "CSV|no job|line"),
    ],
)
def test_a_table_that_cannot_be_used_is_one_line(tmp_path: Path, text: str, why: str) -> None:
    table = tmp_path / "measured.csv"
    table.write_text(text)
    with pytest.raises(BadFile, match=why):
        found = read_dataset(str(table))
        raise BadFile(f"no job: {found}")


def test_a_dataset_that_is_not_there() -> None:
    with pytest.raises(BadFile, match="No such file"):
        read_dataset("/no/such/table.csv")


# ------------------------------------------------------------------ the command


def run(*words: str) -> str:
    result = invoke(*words)
    assert result.exit_code == 0, result.stdout
    if "--json" in words:
        assert errors_of(words, json.loads(result.stdout)) == []
    return result.stdout


def test_the_command_tries_estimators_apart_from_what_the_files_say(tmp_path: Path) -> None:
    folder = str(folder_of_jobs(tmp_path))
    rows = json.loads(run("estimators", "--evaluate", folder, "--json", "--cases"))
    found = {row["estimator"]: row for row in rows}
    assert found["horus (recorded)"]["mape"] != found["horus"]["mape"]
    assert found["faketensor (recorded)"]["whole_device"] == 3
    assert found["horus"]["estimated"] == 2 and found["horus"]["jobs"] == 3
    assert "declared" not in found, "what was measured is told to nobody"
    assert found["auto"]["cases"][2]["memory_mib"] is None
    shown = run("estimators", "--evaluate", folder, "--estimator", "horus")
    assert "2/3" in shown and "%" in shown


@pytest.mark.parametrize(("jobs", "learns"), [(1, False), (9, True)])
def test_a_new_machine_learns_from_the_jobs_before_and_from_none_else(
    tmp_path: Path, jobs: int, learns: bool
) -> None:
    """The GPUs' context is 3 GiB larger than is assumed; what a job needs never tells itself."""
    (tmp_path / "net.model").write_text(TABLE)
    rows = "".join(f"{4600 + 10 * n},net.model,{64 + n}\n" for n in range(jobs))
    (tmp_path / "measured.csv").write_text(f"measured_mib,summary,batch_size\n{rows}")
    words = ("estimators", "--evaluate", str(tmp_path / "measured.csv"), "--estimator", "auto")
    found = {row["estimator"]: row for row in json.loads(run(*words, "--json"))}
    first, learning = found["auto"]["mape"], found["auto (learning)"]["mape"]
    assert (learning < first / 2) if learns else (learning == first)


def test_the_list_says_who_is_asked() -> None:
    rows = json.loads(run("estimators", "--json"))
    asked = {row["estimator"]: row["asked"] for row in rows}
    assert asked["declared"] == 1 and asked["none"] is None
    assert all(row["about"] for row in rows)
