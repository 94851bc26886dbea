"""Long questions one at a time: none waits for ever, none stops another."""

from __future__ import annotations

import pytest

from radrm.daemon.serving.turns import InLine, Work, finish
from radrm.errors import Refused


class Works:
    def __init__(self) -> None:
        self.line = InLine()
        self.steps: list[str] = []

    def work(self, name: str, pieces: int) -> Work[str]:
        try:
            for _ in range(pieces):
                self.steps.append(name)
                yield
            if name == "bad":
                raise Refused("no")
        finally:
            self.steps.append(f"{name} over")
        return name

    def begin(self, name: str, pieces: int = 2, uid: int = 1000) -> Work[str]:
        return self.line.do(self.work(name, pieces), uid)


def test_one_after_the_other_whoever_has_the_turn() -> None:
    works = Works()
    first, second = works.begin("a"), works.begin("b")
    next(first)
    assert finish(second) == "b"
    assert works.steps == ["a", "a", "a over", "b", "b", "b over"]
    assert finish(first) == "a"


def test_a_client_that_leaves_stops_nothing() -> None:
    works = Works()
    first, second = works.begin("a"), works.begin("b")
    next(first)
    next(second)
    first.close()
    assert finish(second) == "b"
    assert works.steps == ["a", "a", "a over", "b", "b", "b over"]
    assert finish(works.begin("c", 0)) == "c"


def test_an_error_is_that_of_its_own_request() -> None:
    works = Works()
    bad, good = works.begin("bad"), works.begin("good")
    next(bad)
    assert finish(good) == "good"
    with pytest.raises(Refused, match="no"):
        finish(bad)


def test_users_take_turns() -> None:
    works = Works()
    many = [works.begin(name, 9, uid=1) for name in ("a", "b", "c")]
    for each in many:
        next(each)
    left, other = works.begin("left", uid=2), works.begin("other", uid=2)
    next(left)
    next(other)
    left.close()
    assert finish(other) == "other"
    assert [finish(each) for each in many] == ["a", "b", "c"]
    over = [step for step in works.steps if step.endswith("over")]
    assert over == ["a over", "other over", "b over", "c over"]
