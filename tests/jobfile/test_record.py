"""Light records: what a frozen dataclass does, they do."""

from __future__ import annotations

import copy
import pickle
from dataclasses import MISSING, asdict, fields, is_dataclass, replace

import pytest

from radrm.jobfile.record import Record


class Point(Record):
    x: int
    y: int = 0
    names: tuple[str, ...] = ()

    @property
    def sum(self) -> int:
        return self.x + self.y


def test_values_by_place_by_name_and_by_default() -> None:
    point = Point(1, names=("a",))
    assert (point.x, point.y, point.names, point.sum) == (1, 0, ("a",), 1)
    assert point.as_dict() == {"x": 1, "y": 0, "names": ("a",)}
    assert repr(point) == "Point(x=1, y=0, names=('a',))"


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ((), {}),
        ((), {"y": 1}),
        ((1,), {"x": 1}),
        ((1,), {"z": 1}),
        ((1, 2, (), 4), {}),
    ],
)
def test_other_values_than_its_fields_are_refused(
    values: tuple[int, ...], named: dict[str, int]
) -> None:
    with pytest.raises(TypeError, match="a Point has these fields: x, y, names"):
        Point(*values, **named)


def test_equal_when_class_and_values_are() -> None:
    class Other(Record):
        x: int
        y: int = 0
        names: tuple[str, ...] = ()

    assert Point(1) == Point(1, 0, ()) != Point(2)
    assert Point(1) != Other(1)
    assert {Point(1), Point(1, 0), Point(2)} == {Point(1), Point(2)}


def test_it_does_not_change() -> None:
    point = Point(1)
    with pytest.raises(AttributeError):
        point.x = 2
    with pytest.raises(AttributeError):
        del point.x
    with pytest.raises(AttributeError):
        point.other = 2
    assert point == Point(1)


def test_dataclasses_know_it() -> None:
    point = Point(1, 2)
    assert is_dataclass(Point) and is_dataclass(point)
    assert replace(point, y=3) == Point(1, 3)
    assert asdict(point) == {"x": 1, "y": 2, "names": ()}
    described = {field.name: field.default for field in fields(Point)}
    assert described == {"x": MISSING, "y": 0, "names": ()}


def test_it_can_be_copied_and_sent() -> None:
    assert copy.deepcopy(Point(1, 2)) == Point(1, 2) == pickle.loads(pickle.dumps(Point(1, 2)))
