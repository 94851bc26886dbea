"""Help, version and mistakes: what they say, and that nobody waits for imports."""

from __future__ import annotations

import sys

import pytest

from radrm import __version__
from radrm.cli import main as entry
from radrm.cli.guide import topics
from radrm.cli.help import help_of
from radrm.cli.listing import ALIASES, FIRST, of_group, overview
from radrm.cli.listing import commands as listed
from tests.cli.heavy import HEAVY
from tests.imports import imported_by
from tests.paths import REPOSITORY


def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[object, str, str]:
    monkeypatch.setattr(sys, "argv", ["radrm", *words])
    with pytest.raises(SystemExit) as ended:
        entry.main()
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err


def test_the_listing_fits_a_terminal() -> None:
    assert max(map(len, overview(whole=True).splitlines())) <= 80
    assert len(overview().splitlines()) <= 24, "a terminal"
    assert set(FIRST) <= set(listed()) and len(FIRST) <= 15


@pytest.mark.parametrize("words", [("--help",), ("help",), ("help", "--help")])
def test_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert run(monkeypatch, capsys, *words) == (0, overview() + "\n", "")


def test_help_for_all_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, capsys, "help", "--all") == (0, overview(whole=True) + "\n", "")


def test_no_word_at_all_is_a_mistake_that_shows_the_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, capsys) == (2, overview() + "\n", "")


def test_help_for_one_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(monkeypatch, capsys, "help", "status")
    assert code == 0
    assert out.startswith("Usage: radrm status")


@pytest.mark.parametrize("topic", ["dgx", "sbatch"])
def test_help_for_a_topic_is_its_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], topic: str
) -> None:
    page = REPOSITORY / "docs" / f"{topic}.md"
    assert run(monkeypatch, capsys, "help", topic) == (0, page.read_text(), "")


def test_no_page_has_the_name_of_a_command() -> None:
    assert not topics().keys() & {*listed(), *ALIASES}


@pytest.mark.parametrize("whole", [False, True])
def test_the_help_fits_a_terminal(whole: bool) -> None:
    for text in (help_of("submit", whole), help_of("run", whole), overview(whole)):
        assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("topic", "hint"),
    [
        ("dgxx", "did you mean dgx?"),
        ("submti", "did you mean submit?"),
        ("../README", "see radrm help --all"),
        ("lab/shipped", "see radrm help --all"),
    ],
)
def test_no_topic(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], topic: str, hint: str
) -> None:
    said = f"radrm: no command or topic is called {topic}; {hint}\n"
    assert run(monkeypatch, capsys, "help", topic) == (2, "", said)


def test_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, capsys, "--version") == (0, f"radrm {__version__}\n", "")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("stauts", "radrm: unknown command stauts; did you mean status?\n"),
        (
            "sh",
            "radrm: unknown command sh; to submit a program write: "
            "radrm submit -- python train.py\n",
        ),
        ("qqq", "radrm: unknown command qqq; see radrm --help\n"),
        ("--verson", "radrm: unknown option --verson; did you mean --version?\n"),
        ("-x", "radrm: unknown option -x; see radrm --help\n"),
        ("a\x1b[31m", "radrm: unknown command a\ufffd[31m; see radrm --help\n"),
    ],
)
def test_a_mistake(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], word: str, said: str
) -> None:
    assert run(monkeypatch, capsys, word) == (2, "", said)


# What `radrm.elastic` imports for jobs: its wing stands beside that.
_OF_ELASTIC = {"pickle", "shutil", "socket", "selectors", "typing"}


@pytest.mark.parametrize(
    ("word", "allowed"),
    [("--help", _OF_ELASTIC), ("--version", set[str]()), ("qqq", {*_OF_ELASTIC, "difflib"})],
)
def test_they_import_little(word: str, allowed: set[str]) -> None:
    found = imported_by("from radrm.cli import main; main.main()", word)
    assert found.isdisjoint(HEAVY - allowed)


@pytest.mark.parametrize("name", sorted({*listed()} - {"submit", "run", "edit"}))
def test_the_help_of_each_command(name: str) -> None:
    """It says what the listing says, and fits a terminal."""
    for each in (name, *of_group(name)):
        lines = help_of(each).splitlines()
        assert lines[0].startswith(f"Usage: radrm {each} ")
        described = lines[lines.index("Commands:" if of_group(each) else "Options:") :]
        assert max(map(len, described)) <= 80
    assert listed()[name].rstrip(".") in " ".join(help_of(name).split())
