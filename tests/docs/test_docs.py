"""Documents that cannot drift: what they show is what the code says."""

from __future__ import annotations

import re

import pytest
from typer.main import get_command

from radrm.cli.app import make_app
from radrm.core.transitions import TABLE
from radrm.core.words import JobState
from radrm.errors import RadrmError
from radrm.jobfile.option_help import meaning_of
from radrm.jobfile.options import OPTIONS
from radrm.wiring import REGISTRIES
from tests.paths import REPOSITORY

DOCS = REPOSITORY / "docs"


def test_the_diagram_is_the_table() -> None:
    lines = ["stateDiagram-v2", "    [*] --> PENDING: submit"]
    lines += [f"    {a.value} --> {b.value}: {t.value}" for (a, t), b in TABLE.items()]
    lines += [f"    {s.value} --> [*]" for s in JobState if s.final]
    assert "\n".join(lines) in (DOCS / "architecture.md").read_text()


def test_the_option_table_is_the_option_table() -> None:
    rows = [f"- `{option.usage}`: {meaning_of(option)}\n" for option in OPTIONS]
    assert "".join(rows) in (DOCS / "job-file.md").read_text()


@pytest.mark.parametrize("command", sorted(get_command(make_app()).commands))  # type: ignore[attr-defined]
def test_every_command_is_in_the_readme(command: str) -> None:
    assert f"`radrm {command}" in (REPOSITORY / "README.md").read_text()


@pytest.mark.parametrize("name", sorted(n for rules in REGISTRIES.values() for n in rules))
def test_every_rule_is_in_the_architecture(name: str) -> None:
    assert f"`{name}`" in (DOCS / "architecture.md").read_text()


def test_every_extra_is_in_the_installation() -> None:
    whole = (REPOSITORY / "pyproject.toml").read_text()
    extras = whole.partition("[project.optional-dependencies]\n")[2].partition("\n[")[0]
    names = set(re.findall(r"^([a-z]+) = \[", extras, re.MULTILINE))
    assert len(names) > 5
    rows = re.findall(r"^\| (`.*?`) \|", (DOCS / "install.md").read_text(), re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == names - {"dev"}


def test_every_option_is_explained() -> None:
    assert all(option.help for option in OPTIONS)


def test_the_error_tree_is_the_docstrings() -> None:
    """Every class of error stands in the picture at the top of its file."""
    import radrm.errors as errors

    classes = [c for c in vars(errors).values() if isinstance(c, type)]
    for error in (c for c in classes if issubclass(c, RadrmError)):
        line = next(x for x in (errors.__doc__ or "").splitlines() if f" {error.__name__} " in x)
        assert line.rstrip().endswith(str(error.exit_code))


def test_the_tests_that_prove_the_security_are_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", (DOCS / "security.md").read_text()))
    there = {
        found[1]
        for path in (REPOSITORY / "tests").rglob("test_*.py")
        for found in re.finditer(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert len(named) > 50 and named <= there, sorted(named - there)
