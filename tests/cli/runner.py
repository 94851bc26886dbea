"""Run a command in this process, and look at what it printed."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest import mock

from radrm.cli.main import answer
from radrm.errors import RadrmError


@dataclass(frozen=True)
class Ran:
    """What a command has done. `exception`: the error that ended it, also as a line of `stderr`."""

    exit_code: int
    stdout_bytes: bytes
    stderr: str
    exception: RadrmError | None = None

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode("utf-8", "replace")


def invoke(*words: str, stdin: str = "") -> Ran:
    """Run `radrm` with these words. All errors but those for users are raised."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    code, raised = 0, None
    given = io.TextIOWrapper(io.BytesIO(stdin.encode()))
    with mock.patch("sys.stdin", given), redirect_stdout(out), redirect_stderr(err):
        try:
            code = answer(list(words))
        except RadrmError as error:
            code, raised = error.exit_code, error
            err.writelines(f"radrm: {line}\n" for line in error.lines)
    return Ran(code, _bytes(out), _bytes(err).decode("utf-8", "replace"), raised)


def _bytes(stream: io.TextIOWrapper) -> bytes:
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue()
