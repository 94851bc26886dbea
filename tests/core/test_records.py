"""Records: a changed copy is what `dataclasses.replace` makes, and their `dataclass` what the
standard library's is."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, replace
from typing import Any

import pytest

from radrm.core.records import Exit, Instant, Refusal, Usage, changed, lazy


@pytest.mark.parametrize(
    ("record", "changes"),
    [
        (Refusal("memory", "too little", None, 2.0), {"device": "a", "needed": None}),
        (Usage("a", peak_mib=3, shared=True), {"peak_mib": 5}),
        (Instant(1.0, 2.0), {}),
    ],
)
def test_it_is_a_record_and_leaves_the_first_alone(record: Any, changes: dict[str, Any]) -> None:
    before = replace(record)
    found = changed(record, **changes)
    assert type(found) is type(record)
    assert found == replace(record, **changes) and hash(found) == hash(replace(record, **changes))
    assert record == before


def test_it_is_frozen_and_knows_its_fields() -> None:
    found = changed(Instant(1.0, 2.0), wall_s=3.0)
    with pytest.raises(FrozenInstanceError):
        found.wall_s = 4.0  # type: ignore[misc]
    with pytest.raises(KeyError):
        changed(found, seconds=1.0)
    assert found == Instant(1.0, 3.0)


Decorator = Callable[..., Any]


def classes(decorated: Decorator) -> tuple[Any, Any, Any]:
    @decorated(frozen=True, slots=True)
    class Point:
        """A point."""

        x: int
        y: int = 2
        hidden: Any = field(default=None, repr=False, compare=False)

    @decorated(slots=True)
    class Box:
        """A box."""

        items: list[int] = field(default_factory=list)

    @decorated(frozen=True, slots=True, kw_only=True)
    class Named:
        """With a method of its own."""

        name: str
        size: int = 0

        def __repr__(self) -> str:
            return f"<{self.name}>"

    return Point, Box, Named


def outcome(does: Callable[[], Any]) -> object:
    try:
        return does()
    except Exception as error:
        return type(error), str(error)


USES: list[Callable[[Any, Any, Any], Any]] = [
    lambda point, box, named: repr(point(1)).partition(".")[2],
    lambda point, box, named: (repr(named(name="a")), repr(box())[-14:]),
    lambda point, box, named: [point(1) == other for other in (point(1, 2, 3), point(2), 1, box())],
    lambda point, box, named: [hash(point(1)) == hash(point(x=1, hidden=9)), len({point(1)})],
    lambda point, box, named: point(),
    lambda point, box, named: point(1, z=3),
    lambda point, box, named: named("a"),
    lambda point, box, named: hash(box()),
    lambda point, box, named: box() == box() and box([1]) != box(),
    lambda point, box, named: setattr(point(1), "x", 2),
    lambda point, box, named: delattr(point(1), "x"),
    lambda point, box, named: setattr(box(), "items", 1),
    lambda point, box, named: setattr(box(), "absent", 1),
    lambda point, box, named: dataclasses.astuple(dataclasses.replace(point(1), y=5)),
    lambda point, box, named: (point.__match_args__, point.__slots__, point.__doc__),
    lambda point, box, named: dataclasses.astuple(copy.deepcopy(point(1, [2]))),
    lambda point, box, named: dataclasses.asdict(copy.copy(named(name="a"))),
]


@pytest.mark.parametrize("use", USES)
def test_as_the_standard_library(use: Callable[[Any, Any, Any], Any]) -> None:
    found, wanted = (
        outcome(lambda: use(*classes(decorated)))  # noqa: B023
        for decorated in (lazy.dataclass, dataclasses.dataclass)
    )
    assert str(found) == str(wanted)


def test_a_record_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(Exit(code=3))) == Exit(code=3)


def test_a_method_is_compiled_once() -> None:
    point, _, _ = classes(lazy.dataclass)
    before = point.__init__
    point(1)
    compiled = point.__init__
    point(2)
    assert before is not compiled is point.__init__
    assert Instant.__init__ is not before
