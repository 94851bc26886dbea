"""Which code an alarm may interrupt: a rule's own, and nothing of the core."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from radrm.core.planning.interrupt import interrupt
from radrm.core.state.isolation import RuleFailed, TooSlow, call_rule


def code_of(name: str) -> Callable[..., Any]:
    """A function of a module with this name, which calls what it is given."""
    module: dict[str, Any] = {"__name__": name}
    exec("def run(call, *args):\n    return call(*args)\n", module)
    found: Callable[..., Any] = module["run"]
    return found


RULE = code_of("their_rule")
CORE = code_of("radrm.core.view")
OURS = code_of("radrm.planners.order_policy")
LIBRARY = code_of("dataclasses")


def rings(*parts: Callable[..., Any]) -> bool:
    """Whether an alarm interrupts the last part of a chain, each called by the one before."""

    def descend(rest: tuple[Callable[..., Any], ...]) -> Any:
        if len(rest) == 1:
            return rest[0](interrupt_caller)
        return rest[0](descend_into, rest[1:])

    def interrupt_caller() -> None:
        interrupt(sys._getframe(1), 2.0)

    def descend_into(rest: tuple[Callable[..., Any], ...]) -> Any:
        return descend(rest)

    try:
        descend(parts)
    except (RuleFailed, TooSlow):
        return True
    return False


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((call_rule, RULE), True),
        ((call_rule, OURS), True),
        ((call_rule, RULE, LIBRARY), True),
        ((call_rule, OURS, CORE, call_rule, RULE), True),
        ((RULE,), False),
        ((CORE,), False),
        ((LIBRARY,), False),
        ((call_rule, CORE), False),
        ((call_rule, RULE, CORE), False),
        ((call_rule, RULE, CORE, LIBRARY), False),
        ((call_rule, OURS, CORE, RULE), False),
    ],
)
def test_only_a_rules_own_code_is_interrupted(
    parts: tuple[Callable[..., Any], ...], expected: bool
) -> None:
    assert rings(*parts) is expected


def test_the_innermost_rule_fails_and_the_line_is_named() -> None:
    def spins() -> None:
        interrupt(sys._getframe(), 2.0)

    with pytest.raises(RuleFailed, match=r"^it took longer than 2 s \(test_interrupt.py:\d+\)$"):
        call_rule(spins)


def test_a_rule_that_the_core_calls_by_a_function_of_its_own_is_interrupted() -> None:
    """As in `call_rule(lambda: policy.floor_mib)`; the function itself is the core's."""

    def spins() -> None:
        interrupt(sys._getframe(), 2.0)

    with pytest.raises(RuleFailed):
        call_rule(CORE, spins)
    call_rule(CORE, lambda: interrupt(sys._getframe(1), 2.0))


def test_without_a_frame_nothing_happens() -> None:
    interrupt(None, 2.0)
