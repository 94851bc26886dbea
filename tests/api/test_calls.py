"""What a call raised reaches its caller, whatever its exception is."""

from __future__ import annotations

import io
import pickle
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cloudpickle", reason="pip install 'radrm[executor]'")

from radrm.api.executor import Answer, Calls
from radrm.api.run_call import answer_to, open_folder, pickled, write_private
from radrm.errors import StoreError


class TwoArguments(Exception):
    def __init__(self, key: str, value: int) -> None:
        super().__init__(f"bad {key}: {value}")
        self.key = key


class OtherText(Exception):
    """Its constructor takes what it keeps, and would say something else."""

    def __init__(self, key: str, value: int = 0) -> None:
        super().__init__(f"bad {key}: {value}")


class NoReduce(Exception):
    def __reduce__(self) -> str:
        raise ValueError("no")


class OtherThing(Exception):
    def __reduce__(self) -> Any:
        return int, (5,)


class NoText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


class Frozen(Exception):
    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("frozen")


class Leaves(Exception):
    """Whoever unpickles it ends."""

    def __reduce__(self) -> Any:
        return sys.exit, (5,)


raised: list[BaseException] = []


def fail() -> None:
    raise raised[-1]


def answer_of(error: BaseException, folder: Path) -> Answer:
    """The answer to a call that raises, as its caller reads it."""
    raised.append(error)
    returned, data = pickled(
        answer_to(io.BytesIO(pickle.dumps(sys.path) + pickle.dumps((fail, (), {}))))
    )
    assert not returned
    calls = Calls(str(folder))
    write_private("0.answer", data, open_folder(calls.path))
    answer = calls.answer(0)
    assert not answer.returned and "in fail" in answer.trace
    return answer


@pytest.mark.parametrize(
    "error",
    [
        *(ValueError("x"), KeyError(1), OSError(2, "none", "file"), TwoArguments("lr", -1)),
        *(OtherText("lr", -1), NoReduce("x"), OtherThing("x"), NoText(1), Frozen("x")),
        *(Leaves("x"), UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"), Exception()),
    ],
)
def test_an_exception_arrives_whatever_its_constructor_takes(
    error: Exception, tmp_path: Path
) -> None:
    answer = answer_of(error, tmp_path)
    assert type(answer.value) is type(error)
    assert answer.value.args == error.args and vars(answer.value) == vars(error)
    assert answer.text.startswith(type(error).__name__)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError(threading.Lock()), "ValueError: <unlocked _thread.lock"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (TwoArguments("lr" * 20_000_000, 1), "TwoArguments: bad lrlr"),
    ],
)
def test_what_cannot_be_raised_again_arrives_in_words(
    error: BaseException, text: str, tmp_path: Path
) -> None:
    answer = answer_of(error, tmp_path)
    assert answer.value is None and answer.text.startswith(text) and len(answer.text) < 11_000
    assert len(answer.trace) < 210_000


def test_the_causes_of_an_exception_are_in_the_traceback(tmp_path: Path) -> None:
    error = TwoArguments("lr", -1)
    error.__cause__ = KeyError("what it comes from")
    assert "what it comes from" in answer_of(error, tmp_path).trace


def test_a_value_that_cannot_be_read_here_is_an_error_of_this_program(tmp_path: Path) -> None:
    calls = Calls(str(tmp_path))
    data = pickle.dumps((True, "", "")) + pickle.dumps(TwoArguments("lr", 1))
    write_private("0.answer", data, open_folder(calls.path))
    with pytest.raises(StoreError, match="required positional argument"):
        calls.answer(0)
