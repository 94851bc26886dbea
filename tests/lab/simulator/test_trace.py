"""The trace: what is read, what is refused with its line, and what a server can hold."""

from __future__ import annotations

import string
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.errors import BadFile
from radrm.interference.model import FAMILIES
from radrm.lab.simulator.traces import table
from radrm.lab.simulator.traces.job import TraceJob
from radrm.lab.simulator.traces.trace import Trace, fitting, read_trace, trace_lines
from radrm.structs import replace

HEAD = "submit_s,name,gpus,duration_s,memory_mib,smact"
GOOD = "0,a,1,60,1000,0.5"


def read(*rows: str, head: str = HEAD) -> Trace:
    return read_trace([f"{line}\n" for line in (head, *rows)], "t.csv")


def error_of(*rows: str, head: str = HEAD) -> str:
    with pytest.raises(BadFile) as caught:
        read(*rows, head=head)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_columns_that_are_needed() -> None:
    (job,) = read("0,resnet,2,90.5,8000,0.25").jobs
    assert (job.name, job.gpus, job.duration_s) == ("resnet", 2, 90.5)
    assert (job.memory_mib, job.smact, job.estimates) == (8000, 0.25, {})
    assert (job.user, job.priority, job.due_s, job.weight, job.line) == ("user", 0, None, 1.0, 2)


def test_what_may_be_known_beside_and_what_rides_along() -> None:
    head = f"{HEAD},horus_mib,gpumemnet_mib,user,priority,due_s,weight,batch_size,family,mood"
    jobs = read(f"{GOOD},900,,ada,5,100,2,32,vgg,good", f"{GOOD},,,,,,,,,", head=head).jobs
    assert jobs[0].estimates == {"horus": 900}
    assert (jobs[0].user, jobs[0].priority, jobs[0].due_s) == ("ada", 5, 100)
    assert (jobs[0].weight, jobs[0].batch_size, jobs[0].family) == (2, 32, "vgg")
    assert (jobs[1].user, jobs[1].batch_size, jobs[1].family) == ("user", None, None)
    assert (jobs[1].weight, jobs[1].estimates) == (1.0, {})


def test_columns_in_any_order_with_a_byte_order_mark_and_windows_line_ends() -> None:
    lines = ["\ufeffname,smact,gpus,memory_mib,duration_s,submit_s\r\n", "a,1,1,5,6,0\r\n", "\r\n"]
    (job,) = read_trace(lines, "t.csv").jobs
    assert (job.name, job.smact, job.memory_mib, job.duration_s) == ("a", 1.0, 5, 6)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("-1,a,1,60,1000,0.5", "submit_s '-1'"),
        ("nan,a,1,60,1000,0.5", "submit_s 'nan'"),
        ("0,a,1,inf,1000,0.5", "duration_s 'inf'"),
        ("0,a,1,0,1000,0.5", "duration_s '0' is not a number above 0"),
        ("0,a,1,-5,1000,0.5", "duration_s '-5'"),
        ("0,a,1,,1000,0.5", "duration_s is missing"),
        ("0,a,1,60,1e300,0.5", "memory_mib '1e300'"),
        ("0,a,1,60,nan,0.5", "memory_mib 'nan'"),
        ("0,a,0,60,1000,0.5", "gpus '0' is not a whole number from 1"),
        ("0,a,1.5,60,1000,0.5", "gpus '1.5'"),
        ("0,a,nan,60,1000,0.5", "gpus 'nan'"),
        ("0,a,1,60,1000,62", "write 0.62 for 62 %"),
        ("0,a,1,60,1000,nan", "smact 'nan'"),
        ("0,a,1,60,1000,", "smact is missing"),
        ("0,a,1,60,1000", "has 5 values for the 6 columns"),
        ("0,a,1,60,1000,0.5,7", "has 7 values for the 6 columns"),
        (f"0,{'x' * 300},1,60,1000,0.5", "longer than 200 characters"),
    ],
)
def test_a_row_that_cannot_be_used_is_named_by_its_line(row: str, words: str) -> None:
    said = error_of(GOOD, row)
    assert said.startswith("t.csv line 3: ") and words in said


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("steady_mib", "2000", "above memory_mib"),
        ("family", "cnnn", "did you mean cnn?"),
        ("batch_size", "0", "batch_size '0'"),
        ("weight", "-1", "weight '-1'"),
        ("due_s", "soon", "due_s 'soon'"),
        ("priority", "1e9", "priority '1e9'"),
        ("horus_mib", "0", "horus_mib '0'"),
    ],
)
def test_a_bad_value_beside(column: str, value: str, words: str) -> None:
    assert words in error_of(f"{GOOD},{value}", head=f"{HEAD},{column}")


def test_many_bad_lines_are_one_line() -> None:
    said = error_of(*["0,a,1,nan,5,0.5"] * 50)
    assert "(49 more lines: 3, 4, 5, 6, 7, ...)" in said and len(said) < 200


def test_no_trace_at_all() -> None:
    assert "no columns gpus, smact" in error_of(GOOD, head="submit_s,name,duration_s,memory_mib")
    assert "--import=FORM" in error_of(head="JobID|State")
    assert "separated by ';'" in error_of(head=HEAD.replace(",", ";"))
    assert "two columns 'name'; rename one" in error_of(GOOD, head=f"{HEAD},name")
    assert "holds no job" in error_of()
    assert "NUL byte" in error_of("\0")
    assert "longer than" in error_of("x" * 70_000)
    with pytest.raises(BadFile, match="empty"):
        read_trace([], "t.csv")


def test_a_trace_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MAX_ROWS", 3)
    assert len(read(*[f"{i},a,1,60,1000,0.5" for i in range(3)]).jobs) == 3
    assert "line 5: more than 3 rows" in error_of(*[f"{i},a,1,60,1000,0.5" for i in range(4)])


def test_unsorted_times_are_sorted_and_said() -> None:
    found = read("5,b,1,60,1000,0.5", "9,c,1,60,1000,0.5", "0,a,1,60,1000,0.5")
    assert [job.name for job in found.jobs] == ["a", "b", "c"]
    assert found.notes == ("line 4 is earlier than the line before; the jobs were sorted by time",)


def test_the_first_submission_is_the_beginning() -> None:
    found = read(f"1500000000{GOOD[1:]},1500000100", head=f"{HEAD},due_s")
    assert (found.jobs[0].submit_s, found.jobs[0].due_s) == (0, 100)


def test_duplicates_are_kept_and_said() -> None:
    found = read(GOOD, "0,b,1,60,1000,0.5", GOOD, GOOD)
    assert len(found.jobs) == 4
    assert found.notes == ("lines 2 and 4 are the same job (and 1 more); both are kept",)


def test_jobs_that_fit_no_device_are_left_out_and_said() -> None:
    found = read(GOOD, "1,big,1,60,50000,0.5", "2,wide,3,60,10,0.5", "3,pair,2,60,30000,0.5")
    kept = fitting(found.jobs, [40000, 20000])
    assert [job.name for job in kept.jobs] == ["a"]
    (note,) = kept.notes
    assert "3 jobs fit no GPUs" in note and "line 3 (50000 MiB, there are 40000)" in note
    assert "line 4 (3 GPUs of 2)" in note and "line 5 (30000 MiB on each of 2" in note
    with pytest.raises(BadFile, match="no job of the trace fits"):
        fitting(found.jobs[1:2], [40000])


def test_a_long_trace_is_read_line_by_line() -> None:
    taken = 0

    def lines() -> Iterator[str]:
        nonlocal taken
        yield f"{HEAD}\n"
        for taken in range(1, 2001):
            yield f"{taken},a,1,60,1000,0.5\n"

    jobs = read_trace(lines(), "t.csv").jobs
    assert len(jobs) == taken == 2000
    assert len({id(job.name) for job in jobs}) == 1  # texts that come again are kept once


NUMBERS = st.floats(0, 1e6, allow_nan=False)
ABOVE = st.floats(0.001, 1e6)
JOBS = st.builds(
    TraceJob,
    submit_s=NUMBERS,
    name=st.text(string.ascii_letters + ' ,"-é', min_size=1, max_size=20)
    .map(str.strip)
    .filter(bool),
    gpus=st.integers(1, 8),
    duration_s=ABOVE,
    memory_mib=ABOVE,
    smact=st.floats(0, 1),
    estimates=st.dictionaries(st.sampled_from(["horus", "gpumemnet"]), ABOVE),
    user=st.sampled_from(["ada", "alan"]),
    priority=st.integers(-1000, 1000),
    due_s=st.none() | ABOVE,
    weight=NUMBERS,
    batch_size=st.none() | st.integers(1, 512),
    family=st.none() | st.sampled_from(FAMILIES),
)


@given(st.lists(JOBS, min_size=1, max_size=8))
def test_what_is_written_is_read_again(jobs: list[TraceJob]) -> None:
    first = read_trace(trace_lines(jobs), "t.csv").jobs
    again = read_trace(trace_lines(first), "t.csv").jobs
    assert len(first) == len(jobs) and min(job.submit_s for job in first) == 0
    without_line = [replace(each, line=0) for each in (*first, *again)]
    assert without_line[: len(jobs)] == without_line[len(jobs) :]
