"""`radrm.rules`: all that a rule needs, and the examples of docs/rules.md, installed and run."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from radrm import rules
from radrm.config import parse_config
from radrm.core import actions, events
from radrm.core.records import OutOfMemory
from radrm.errors import BadConfig
from radrm.jobfile.radfile import read_job_file
from radrm.lab.experiments.evaluation import estimators_known
from radrm.wiring import (
    KINDS,
    describe,
    find_rule,
    make_estimating,
    make_rules,
    make_settings,
    offered,
    registry,
    settings_of,
)
from tests.docs.commands.pages import blocks
from tests.packages import install
from tests.paths import REPOSITORY
from tests.world import GIB, World, gpus

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PUBLIC = {
    name: value
    for name, value in vars(rules).items()
    if getattr(value, "__module__", "").startswith("radrm.") and not name.startswith("_")
}
PROTOCOLS = (rules.Order, rules.Policy, rules.Planner, rules.Estimator, rules.Recovery)
# What makes a view, and what radrm's own planner needs to ask other rules.
INTERNAL = {"State", "ByDue", "Isolation"}

BLOCKS = list(blocks(REPOSITORY / "docs" / "rules.md"))
PROGRAMS = {block.file: block.text for block in BLOCKS if block.kind == "python"}
PROJECT, CONFIGURATION = (block.text for block in BLOCKS if block.kind == "toml")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's package, as an installer would leave it."""
    modules = {file.removesuffix(".py"): text for file, text in PROGRAMS.items()}
    for module in modules:
        monkeypatch.delitem(sys.modules, module, raising=False)
    points = tomllib.loads(PROJECT)["project"]["entry-points"]
    monkeypatch.syspath_prepend(install(tmp_path, points, **modules))


def test_the_examples_import_nothing_of_radrm_but_the_interface() -> None:
    assert len(PROGRAMS) == 5
    for text in PROGRAMS.values():
        nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
        found = {node.module for node in nodes if (node.module or "").startswith("radrm")}
        assert found == {"radrm.rules"}


@pytest.mark.usefixtures("installed")
def test_the_examples_are_found_by_their_entry_points_and_decide() -> None:
    config = parse_config(CONFIGURATION, "radrm.toml")
    found = make_rules(config)
    assert found.planners[0].policy.most_jobs == 2
    assert set(settings_of(find_rule("policies", "fewest-jobs"))) == {"most_jobs", "floor_mib"}
    assert set(settings_of(find_rule("planners", "any-that-fits"))) == {"most_looked"}
    assert set(settings_of(find_rule("recovery", "retry-larger"))) == {"most_tries"}
    assert not any(set(offered(kind)) & set(registry(kind)) for kind in KINDS), "names of its own"
    assert not make_settings(config).overcommit
    chosen: dict[str, Any] = {
        "planners": found.planners,
        "order": found.order,
        "recovery": found.recovery,
    }
    world = World(gpus(2), **chosen)
    jobs = [world.submit(1024, source="declared") for _ in range(5)]
    placed = [world.where(job) for job in jobs]
    assert placed == [("GPU-0",), ("GPU-1",), ("GPU-0",), ("GPU-1",), ()]
    assert world.why(jobs[4])[:2] == ["jobs", "jobs"], "one refusal of its own for each GPU"

    world = World(gpus(2), **chosen)
    wide = world.submit(30 * GIB, source="declared", gpus=2)
    later = world.submit(30 * GIB, source="declared", gpus=2)
    soon = world.submit(30 * GIB, source="declared", gpus=2, due_s=world.now.wall_s + 3600)
    small = world.submit(1024, source="declared")
    assert world.where(wide) and world.where(small), "the planner starts what fits"
    world.end(wide)
    world.read()
    assert world.where(soon) and not world.where(later), "the order puts due jobs first"
    had_mib = world.live(small).placement.shares[0].reserved_mib
    world.end(small, 1, oom=OutOfMemory("CUDA out of memory"))
    assert world.jobs[small.id].ask_mib == 2 * had_mib, "the recovery asks for twice as much"


@pytest.mark.usefixtures("installed")
def test_an_estimator_is_added_to_auto_and_listed() -> None:
    config = parse_config(CONFIGURATION, "radrm.toml")
    rows = {row["estimator"]: row for row in estimators_known(config)}
    assert [name for name, row in rows.items() if row["asked"] in (1, 2, 3, 4)] == [
        *("declared", "history", "trace", "by-name"),
    ]
    assert rows["by-name"]["about"].startswith("Read the memory from a job's name")
    named = read_job_file(b"#!/bin/sh\n#RAD --name=net-12g\ntrue\n", "a", {})
    other = read_job_file(b"#!/bin/sh\n#RAD --name=net\ntrue\n", "a", {})
    estimating = make_estimating(config)
    (memory,) = estimating.estimate(describe(named))
    assert (memory.source, memory.raw) == ("by-name", 12 * 1024)
    assert estimating.estimate(describe(other)) == ()
    assert estimating.at_once(describe(named)) == (), "it may be slow"


@pytest.mark.usefixtures("installed")
def test_an_added_estimator_that_fails_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    rule, said = find_rule("estimators", "by-name"), []

    def fail(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(rule, "estimate", fail)
    config = parse_config(CONFIGURATION, "radrm.toml")
    estimating = make_estimating(config, complain=lambda name, error: said.append(name))
    job_file = read_job_file(b"#!/bin/sh\n#RAD --gpu-memory=3G\ntrue\n", "a", {})
    (memory,) = estimating.estimate(describe(job_file))
    assert (memory.value, said) == (3 * 1024, ["by-name"])


@pytest.mark.parametrize(
    ("also", "why"),
    [
        ('["horus"]', "horus is asked already"),
        ('["histry"]', "did you mean history"),
        ('"by-name"', "of the wrong kind"),
        ("[1]", "of the wrong kind"),
    ],
)
def test_what_cannot_be_added_is_refused(also: str, why: str) -> None:
    config = parse_config(f"[estimators.auto]\nalso = {also}\n", "radrm.toml")
    with pytest.raises(BadConfig, match=why):
        make_estimating(config)
    assert not offered("estimators")


# ------------------------------------------------------------------ the interface


def annotated(thing: Any) -> Iterator[type]:
    """All classes that a class's fields and methods name, or a function's parameters."""
    owners = [thing]
    if inspect.isclass(thing):
        owners += [m for _, m in inspect.getmembers(thing) if inspect.isfunction(m)]
        owners += [m.fget for _, m in inspect.getmembers(thing, lambda m: isinstance(m, property))]
    elif not inspect.isfunction(thing):
        return
    for owner in owners:
        module = vars(sys.modules.get(owner.__module__, rules))
        for hint in get_type_hints(owner, {**vars(events), **vars(rules), **module}).values():
            yield from classes_in(hint)


def classes_in(hint: Any) -> Iterator[type]:
    if inspect.isclass(hint) and not get_args(hint):
        yield hint
    for part in get_args(hint):
        if not isinstance(part, str):
            yield from classes_in(part) if not isinstance(part, list) else ()


def test_every_type_that_the_interface_names_is_in_the_interface() -> None:
    known = [*PUBLIC.values(), *vars(events).values(), *vars(actions).values()]
    named = {found for thing in PUBLIC.values() for found in annotated(thing)}
    ours = {found for found in named if found.__module__.startswith("radrm.")}
    assert {found.__qualname__ for found in ours if found not in known} == INTERNAL


def test_its_documentation_lists_all_of_it() -> None:
    assert set(PROTOCOLS) <= {getattr(rules, name) for name in rules.__all__}
    listed = {line.split()[0] for line in (rules.__doc__ or "").splitlines() if line.strip()}
    happened = {
        name
        for name, each in vars(events).items()
        if inspect.isclass(each) and each.__module__ == events.__name__
    }
    assert happened <= listed
    classes = {name for name, each in PUBLIC.items() if inspect.isclass(each)}
    assert classes <= listed | set(rules.__all__)
