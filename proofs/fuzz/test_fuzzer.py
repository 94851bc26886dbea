"""The fuzzer finds what it is for: each kind of defect, planted in a parser of a few lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from proofs.fuzz import __main__ as command
from proofs.fuzz import campaign, judging
from proofs.fuzz.judging import Target
from proofs.fuzz.targets import BY_NAME
from radrm.errors import UsageError


def parser(call: Callable[[str], object]) -> Target:
    return Target("planted", ("name=7", "size=12"), call)


def number(text: str) -> int:
    return int(text.partition("=")[2])


def refuses(message: str) -> Callable[[str], None]:
    def call(text: str) -> None:
        raise UsageError(message)

    return call


def kinds(target: Target, count: int = 200) -> list[str]:
    return sorted(campaign.run(target, count, "1").findings)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("a\nb", "it has several lines"),
        ("a\u2028b", "it has several lines"),
        ("a\x1b[31m", "it has characters that are not printable"),
        ("a" * 501, "it is too long"),
        (" ", "it is empty"),
    ],
)
def test_a_message_that_is_not_one_short_line(message: str, kind: str) -> None:
    assert kinds(parser(refuses(message))) == [f"message of UsageError: {kind}"]
    assert not kinds(parser(refuses("a" * 500)))


def test_an_error_that_is_not_the_parsers_own() -> None:
    (found,) = campaign.run(parser(number), 200, "1").findings.values()
    assert found.kind.startswith("ValueError in ")
    assert not kinds(Target("planted", ("name=7",), number, (ValueError,), most=100))


def test_a_parser_that_hangs_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(text: str) -> None:
        while True:
            try:
                continue
            except Exception:
                pass

    monkeypatch.setattr(judging, "HANG_S", 0.05)
    assert kinds(parser(hang), 2) == ["hang"]


def test_a_parser_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "MOST_CPU_S", -1.0)
    assert kinds(parser(str.upper), 2) == ["slow"]


def test_a_finding_is_saved_and_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails_at(text: str) -> None:
        assert "=" not in text

    target = parser(fails_at)
    (found,) = campaign.run(target, 200, "1").findings.values()
    path = campaign.save(found, tmp_path)
    assert b"=" in path.read_bytes()
    monkeypatch.setitem(BY_NAME, "planted", target)
    assert command.main(["--target", "planted", "--repeat", str(path)]) == 1
    assert "AssertionError" in capsys.readouterr().out
    assert str(path) in path.with_suffix(".txt").read_text()


def test_inputs_stay_near_the_grammar() -> None:
    """Of hostile inputs that are all refused, most would test the same few lines."""
    for name in ("option", "job-file", "envelope", "submit", "configuration", "trace-trace"):
        result = campaign.run(BY_NAME[name], 200, "1", most=8192)
        assert 10 < result.accepted < 190, name
