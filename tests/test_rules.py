"""`radrm.rules`: all that a third party needs to write a rule, and its own example."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from radrm import rules
from radrm.config import parse_config
from radrm.core import events
from radrm.wiring import find_rule, make_rules, make_settings, settings_of
from tests.world import World, gpus

EXPORTED = {name: getattr(rules, name) for name in rules.__all__}
PROTOCOLS = (rules.Order, rules.Policy, rules.Planner, rules.Estimator, rules.Recovery)
# What makes a view, and what radrm's own planner needs to ask other rules.
INTERNAL = {
    "State",
    "ByDue",
    "Isolation",
    "RankedQueue",
    "WaitingQueue",
    "StateData",
}


def example() -> tuple[str, str, str]:
    """The policy, the packaging and the configuration of the module's docstring."""
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", rules.__doc__ or "", re.MULTILINE)
    policy, packaging, configuration = (textwrap.dedent(block).strip() for block in blocks)
    return policy, packaging, configuration


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example's package, as an installer would leave it."""
    policy, packaging, _ = example()
    about = tmp_path / "fewest_jobs-1.0.dist-info"
    about.mkdir()
    (tmp_path / "fewest_jobs.py").write_text(policy)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: fewest-jobs\nVersion: 1.0\n")
    (name, target) = re.findall(r'^(fewest-jobs) = "(.*)"$', packaging, re.MULTILINE)[0]
    (group,) = re.findall(r'entry-points\."(.*)"\]', packaging)
    (about / "entry_points.txt").write_text(f"[{group}]\n{name} = {target}\n")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_the_example_imports_nothing_of_radrm_but_the_interface() -> None:
    policy, _, _ = example()
    imported = {
        node.module for node in ast.walk(ast.parse(policy)) if isinstance(node, ast.ImportFrom)
    }
    assert {name for name in imported if (name or "").startswith("radrm")} == {"radrm.rules"}


@pytest.mark.usefixtures("installed")
def test_the_example_is_found_by_its_entry_point_and_decides() -> None:
    config = parse_config(example()[2], "radrm.toml")
    found = make_rules(config)
    assert found.planners[0].policy.most_jobs == 2  # type: ignore[attr-defined]
    assert set(settings_of(find_rule("policies", "fewest-jobs"))) == {"most_jobs", "floor_mib"}
    assert not make_settings(config).overcommit
    world = World(gpus(2), planners=found.planners, order=found.order)
    jobs = [world.submit(1024, source="declared") for _ in range(5)]
    placed = [world.live(job.id) for job in jobs]
    assert placed[4] is None, "four jobs are the most on two GPUs"
    devices = [attempt.placement.devices for attempt in placed[:4] if attempt is not None]
    assert devices == [("GPU-0",), ("GPU-1",), ("GPU-0",), ("GPU-1",)]
    assert world.why(jobs[4])[:2] == ["jobs", "jobs"], "one refusal of its own for each GPU"


def annotated(thing: Any) -> Iterator[type]:
    """All classes that a class's fields and methods name, or a plain type itself."""
    if not inspect.isclass(thing):
        return
    members = [m for _, m in inspect.getmembers(thing) if inspect.isfunction(m)]
    members += [m.fget for _, m in inspect.getmembers(thing, lambda m: isinstance(m, property))]
    for owner in (thing, *members):
        for hint in get_type_hints(owner).values():
            yield from classes_in(hint)


def classes_in(hint: Any) -> Iterator[type]:
    if inspect.isclass(hint) and not get_args(hint):
        yield hint
    for part in get_args(hint):
        if not isinstance(part, str):
            yield from classes_in(part) if not isinstance(part, list) else ()


def test_every_type_that_the_interface_names_is_in_the_interface() -> None:
    known = [*EXPORTED.values(), *vars(events).values()]
    named = {found for thing in EXPORTED.values() for found in annotated(thing)}
    ours = {found for found in named if found.__module__.startswith("radrm.")}
    assert {found.__qualname__ for found in ours if found not in known} == INTERNAL


def test_the_names_are_sorted_and_the_protocols_are_among_them() -> None:
    assert set(PROTOCOLS) <= {thing for thing in EXPORTED.values() if inspect.isclass(thing)}
    assert len(rules.__all__) == len(set(rules.__all__))
