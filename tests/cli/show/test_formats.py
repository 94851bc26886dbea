"""`radrm status --format`: squeue's letters, fields by name, widths, and mistakes."""

from __future__ import annotations

from typing import Any

import pytest

import radrm.cli.commands.report
import radrm.cli.commands.status
from radrm.cli.commands.report import history
from radrm.cli.commands.status import status
from radrm.cli.show.formats import heading, read_format, row, span
from radrm.core.words import JobState
from radrm.errors import UsageError
from tests.cli.fakes import NOW, Script, job, page

INDEX = {"GPU-a": 0, "GPU-b": 1}


def laid(text: str, **changed: Any) -> str:
    it = job(5, changed.pop("state", "RUNNING"), **changed)
    return row(read_format(text), it, INDEX, NOW)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("%i %j %u %t %T", "5 resnet50 ada R RUNNING"),
        ("%.6i|%6i|%.3j|%3j|", "     5|5     |res|res|"),
        ("%M %l %L", "1:00 UNLIMITED UNLIMITED"),
        ("%R %N %b %D %P", "0 0 gpu:1 1 gpu"),
        ("{id:.4} {name:6} {reserved_mib} {held} {devices}", '   5 resnet - false ["GPU-a"]'),
        ("100%% {{%i}}", "100% {5}"),
        ("%K %k %e", "- - N/A"),
        ("plain  text  ", "plain  text"),
    ],
)
def test_a_row(text: str, said: str) -> None:
    assert laid(text) == said


def test_a_waiting_job_has_its_reason_in_place_of_gpus() -> None:
    assert laid("%t %M %R", state="PENDING", reason="behind job 3") == "PD 0:00 (behind job 3)"
    after = [{"job": "3", "condition": "ok"}, {"job": "4", "condition": "any"}]
    assert laid("%E", after=after) == "afterok:3,afterany:4" and laid("%E") == "(null)"


def test_limits_and_what_is_left_of_them() -> None:
    assert laid("%l %L", time_limit_s=7200, time_limit_at=NOW + 60) == "2:00:00 1:00"
    assert laid("%l %L", state="PENDING", time_limit_s=7200) == "2:00:00 2:00:00"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(None, "-"), (5, "0:05"), (3599.9, "59:59"), (3723, "1:02:03"), (93784, "1-02:03:04")],
)
def test_times_are_squeue_s(seconds: float | None, said: str) -> None:
    assert span(seconds) == said


def test_each_state_has_its_two_letters() -> None:
    found = {state.value: laid("%t", state=state.value) for state in JobState}
    assert "-" not in found.values() and found["TIMEOUT"] == "TO"


def test_headings() -> None:
    parts = read_format("%.7i %j {gpus} %R")
    assert heading(parts) == "  JOBID NAME GPUS NODELIST(REASON)"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("%i %z", r"there is no %z; the letters are i A F K j u"),
        ("{id", r"'\{id' is neither"),
        ("50%", "write %% for a %"),
        ("%2000i", "2000 columns are too many; at most 1000"),
        ("x" * 1001, "1001 characters are too many; at most 1000"),
    ],
)
def test_a_format_that_cannot_be_read(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_format(text)


def test_an_unknown_field_is_named() -> None:
    with pytest.raises(UsageError, match="no field colour; radrm status --json"):
        read_format("{colour}")  # also without a row
    with pytest.raises(UsageError, match=r"no field reserved; did you mean reserved_mib\?"):
        read_format("%i {reserved}")


# ------------------------------------------------------------------ the command


def run(client: Script, monkeypatch: pytest.MonkeyPatch, **changed: Any) -> None:
    monkeypatch.setattr(radrm.cli.commands.status, "ReadingClient", lambda: client)
    words = {"jobs": [], "every": False, "user": "", "state": "", "page": None, "limit": None}
    more = {"follow": False, "layout": "", "no_header": False}
    more |= {"as_json": False, "cluster": False}
    status(**{**words, **more, **changed})


def test_all_rows_are_printed_by_as_many_requests_as_the_daemon_wants(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(words: dict[str, Any]) -> Any:
        some = range(words["offset"], min(2500, words["offset"] + min(700, words["limit"])))
        return page([job(i) for i in some], 2500)

    client = Script(page=[answer])
    run(client, monkeypatch, layout="%i")
    assert capsys.readouterr().out.split() == ["JOBID", *map(str, range(2500))]
    assert [words["offset"] for _, words in client.asked] == [0, 700, 1400, 2100]
    run(client, monkeypatch, layout="%i", no_header=True, limit=3, page=2)
    assert capsys.readouterr().out.split() == ["3", "4", "5"]


def test_it_goes_with_no_other_form(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Script(page=[page([])])
    for changed in ({"as_json": True}, {"follow": True}):
        with pytest.raises(UsageError, match="--format does not go with"):
            run(client, monkeypatch, layout="%i", **changed)
    with pytest.raises(UsageError, match="--no-header goes with --format"):
        run(client, monkeypatch, no_header=True)


def test_past_jobs_are_laid_out_in_the_same_way(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = {"jobs": [job(5, "FAILED", devices=["GPU-b"])], "devices": INDEX, "total": 1}
    client = Script(ping=[{"now": NOW}], history=[answer])
    monkeypatch.setattr(radrm.cli.commands.report, "ReadingClient", lambda: client)
    words = dict.fromkeys(("user", "state", "since", "until", "name", "gpu"), "")
    more = {"limit": None, "page": None, "as_json": False}
    history(**words, **more, layout="%i %t %N", no_header=False)
    assert capsys.readouterr().out == "JOBID ST NODELIST\n5 F 1\n"
    with pytest.raises(UsageError, match="--format"):
        history(**words, **more, layout="", no_header=True)
