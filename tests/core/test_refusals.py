"""Both numbers of a refusal have a unit, whichever rule refuses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import radrm
from radrm.client.words.reasons import amount
from radrm.core.records import USUAL_UNITS, Refusal
from radrm.core.words import Unit

ROOT = Path(radrm.__file__).parent
OWN = ("core", "policies", "planners", "orders", "recovery")


def with_numbers() -> Iterator[tuple[str, ast.Call]]:
    """Each place of radrm's own rules that makes a refusal with numbers, and its module."""
    for path in sorted(path for each in OWN for path in (ROOT / each).rglob("*.py")):
        module = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) in ("Refusal", "no"):
                named = {each.arg for each in node.keywords}
                least = 4 if getattr(node.func, "id", None) == "Refusal" else 3
                if len(node.args) >= least or named & {"needed", "available"}:
                    yield module, node


def rule_of(module: str, call: ast.Call) -> str | None:
    """The rule of a refusal; None for one that only its function knows."""
    if not call.args:
        return None
    word = call.args[0]
    if isinstance(word, ast.Constant):
        return str(word.value)
    return getattr(import_module(module), word.id, None) if isinstance(word, ast.Name) else None


def test_each_rule_with_numbers_has_a_unit() -> None:
    found = list(with_numbers())
    assert len(found) > 30
    for module, call in found:
        rule = rule_of(module, call)
        says = rule is None or any(each.arg == "unit" for each in call.keywords)
        assert says or rule in USUAL_UNITS, f"{module}, line {call.lineno}: {rule} has no unit"


@pytest.mark.parametrize("value", [0.0, 0.4, 1.0, 7200.0, 14_160.0, 1e6])
def test_each_unit_is_shown_for_people(value: float) -> None:
    for unit in Unit:
        shown = amount(value, unit.value)
        assert "e+" not in shown
        assert unit is Unit.SM_ACTIVITY or not shown[-1].isdecimal()


def test_a_reservations_seconds_are_a_duration() -> None:
    found = Refusal("reserved", "reserved for ada in 3h56m", "GPU-a", 7200.0, 14_160.0)
    assert found.measured_in is Unit.SECONDS
    assert [amount(each, found.measured_in) for each in (7200.0, 14_160.0)] == ["2h00m", "3h56m"]


def test_a_third_partys_rule_has_plain_numbers() -> None:
    assert Refusal("theirs", "no", None, 1e6, 2.5).measured_in is None
    assert [amount(each, None) for each in (1e6, 2.5, None)] == ["1,000,000", "2.5", "-"]
    assert Refusal("memory", "no").measured_in is None, (
        "without numbers there is nothing to measure"
    )
