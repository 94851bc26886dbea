"""`radrm report`, `usage` and `history`: what they ask for and what they write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import radrm.cli.commands.report
from tests.cli.fakes import NOW, Script, job
from tests.cli.runner import invoke
from tests.cli.show.test_past import DAY, past, report, sums
from tests.pages.test_overview import lively


def run(
    monkeypatch: pytest.MonkeyPatch, command: str, *words: str, **answers: Any
) -> tuple[Any, Script]:
    client = Script(ping=[{"now": NOW}], **{op: [answer] for op, answer in answers.items()})
    for name in ("Client", "ReadingClient"):
        monkeypatch.setattr(radrm.cli.commands.report, name, lambda: client)
    return invoke(command, *words), client


USERS = report("user", *({"user": name, **sums()} for name in ("bob", "ada", "<b>eve")))


def test_a_report_by_user_has_ones_own_row_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(radrm.cli.commands.report, "my_name", lambda: "ada")
    done, client = run(monkeypatch, "report", report=USERS | {})
    assert [line.split()[0] for line in done.stdout.splitlines()[1:4]] == ["ada", "bob", "<b>eve"]
    assert client.asked[1] == ("report", {"by": "user", "since": NOW - 7 * DAY, "until": NOW})


def test_a_report_as_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file, looked = tmp_path / "report.html", lively().overview()
    answers = {"report": USERS, "overview": looked}
    done, client = run(monkeypatch, "report", "--html", str(file), **answers)
    assert done.stdout == f"Wrote {file}\n"
    assert [words["by"] for op, words in client.asked if op == "report"] == ["user", "gpu", "day"]
    page = file.read_text()
    assert "&lt;b&gt;eve" in page and "<b>eve" not in page and page.count("<svg xmlns") == 8
    _, client = run(monkeypatch, "report", "--html", str(file), "--by", "user", **answers)
    assert client.ops() == ["ping", "report", "overview"]
    done, _ = run(monkeypatch, "report", "--html", "-", **answers)
    assert done.stdout.endswith("</html>\n")
    done, _ = run(monkeypatch, "report", "--html", str(tmp_path), **answers)
    assert "cannot write" in str(done.exception) and "\n" not in str(done.exception)


def test_an_overview_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = lively().overview()
    done, client = run(monkeypatch, "report", "--overview", overview=looked)
    assert client.asked[1] == ("overview", {"since": NOW - 7 * DAY, "until": NOW})
    assert "4 jobs of 1 user ended on this server" in done.stdout
    done, _ = run(monkeypatch, "report", "--overview", "--json", overview=looked)
    assert json.loads(done.stdout) == looked


def test_the_history_asks_for_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--user", "ada", "--state", "failed, timeout", "--name", "sweep *", "--gpu", "0"]
    answer = past(*(job(n, "FAILED") for n in (1, 2)), total=9)
    done, client = run(
        monkeypatch, "history", *words, "--limit", "2", "--page", "2", history=answer
    )
    filters = {"user": "ada", "state": "failed,timeout", "name": "sweep *", "gpu": "0"}
    times = {"since": NOW - 7 * DAY, "until": NOW}
    assert client.asked[1] == ("history", {**filters, **times, "offset": 2, "limit": 2})
    next_page = (
        "earlier jobs: radrm history --user ada --state failed,timeout --name 'sweep *' --gpu 0 "
        "--limit 2 --page 3"
    )
    assert next_page in done.stdout
    done, _ = run(
        monkeypatch, "history", "--page", "3", "--limit", "2", history=past(total=3, sums=sums())
    )
    assert "there is no page 3; there are 2" in str(done.exception)
