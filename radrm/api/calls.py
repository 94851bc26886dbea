"""The files of calls and answers: a folder of this user's alone, open for as long as it is used.

Files are named through the open folder, so nobody can put another folder in its place. What does
not belong to this user, or what others can write, is never unpickled (`radrm.api.run_call`).
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any

from radrm.api.run_call import ANSWER, CALL, open_folder, open_private, remove, write_private
from radrm.errors import StoreError, UsageError, message_of, plain
from radrm.host.storage.tickets import new_ticket


class Answer:
    """What came of a call: a value, or an exception and the traceback where it was raised.

    `text`: the exception in words. Its `value` is None if this program cannot raise it.
    """

    def __init__(self, returned: bool, value: Any, text: str, trace: str) -> None:
        self.returned, self.value, self.text, self.trace = returned, value, text, trace


def _value_in(file: IO[bytes], returned: bool) -> Any:
    """Unpickle a value, or an exception; None for an exception that cannot be raised here."""
    try:
        value = pickle.load(file)
    except BaseException:  # whatever its own methods raise
        if returned:
            raise
        return None
    # The others would end this program, or mean something else to it.
    return value if returned or isinstance(value, Exception) else None


class Calls:
    """A new folder below `parent`, for calls and answers by number. Raises `StoreError`."""

    def __init__(self, parent: str) -> None:
        self.path = os.path.join(os.path.abspath(parent), new_ticket())
        try:
            os.makedirs(parent, 0o700, exist_ok=True)
            os.mkdir(self.path, 0o700)
            self._folder = open_folder(self.path)
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            raise StoreError(
                f"cannot make the folder {plain(self.path)}: "
                f"{getattr(error, 'strerror', None) or error}; name another one: "
                "Executor(folder=...)"
            ) from error

    def put(
        self, number: int, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Write a call. Raises `UsageError` if it cannot be pickled, `StoreError`."""
        try:
            import cloudpickle
        except ImportError:
            raise UsageError(
                "radrm.Executor needs cloudpickle: pip install 'radrm[executor]'"
            ) from None
        try:
            data = pickle.dumps(sys.path) + cloudpickle.dumps((function, tuple(args), kwargs))
        except Exception as error:  # whatever the objects' own methods raise
            raise UsageError(f"the call cannot be pickled: {message_of(error)}") from error
        try:
            write_private(f"{number}.{CALL}", data, self._folder)
        except OSError as error:
            raise StoreError(f"cannot write a call in {self.path}: {error.strerror}") from error

    def answered(self) -> set[int]:
        """The numbers of the calls that have an answer."""
        names = (name.partition(".") for name in os.listdir(self._folder))
        return {int(number) for number, _, kind in names if kind == ANSWER and number.isdigit()}

    def answer(self, number: int) -> Answer | None:
        """The answer to a call; None before it is written. Raises `StoreError` for one that cannot
        be read, or that another user could have written."""
        try:
            with open_private(f"{number}.{ANSWER}", self._folder) as file:
                returned, text, trace = pickle.load(file)
                return Answer(returned, _value_in(file, returned), text, trace)
        except FileNotFoundError:
            return None
        except BaseException as error:  # whatever the objects' own methods raise
            what = f"the answer of the job, {self.path}/{number}.{ANSWER}, cannot be read"
            raise StoreError(f"{what}: {message_of(error)}") from error

    def forget(self, number: int, logs: str = "") -> None:
        """Remove a call, its answer, and the logs that begin with these characters."""
        names = [f"{number}.{CALL}", f"{number}.{ANSWER}"]
        if logs:
            names += [name for name in os.listdir(self._folder) if name.startswith(logs)]
        for name in names:
            with contextlib.suppress(OSError):  # it is only tidying up
                remove(name, self._folder)

    def close(self) -> None:
        """Close the folder, and remove it if nothing is left in it."""
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1
            with contextlib.suppress(OSError):  # logs of calls that failed stay
                os.rmdir(self.path)
