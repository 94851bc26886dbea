"""Write the document of a traced program, and end the program. It needs no PyTorch."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any, NoReturn

from problem import in_one_line

VERSION = 1
NEXT = "specify --gpu-memory, or a --model-factory"


def error(program: str, cause: str, line: str | None = None) -> dict[str, Any]:
    """Return the document `PROGRAM CAUSE`; `line` is the line of the user's code."""
    at = f" at {line}" if line else ""
    document: dict[str, Any] = {
        "version": VERSION,
        "error": in_one_line(f"{program} {cause}{at}; {NEXT}"),
    }
    if line:
        document["line"] = line
    return document


_first = threading.Lock()
"""Held by the thread that writes this process's document."""


def end(folder: str, document: dict[str, Any]) -> NoReturn:
    """Write this process's document, and end the process at once: the user's code could catch an
    exception, or take long to end.

    The document is written atomically: a reader never sees a part of it.
    """
    if not _first.acquire(blocking=False):
        time.sleep(5)  # another thread is writing, and ends the process
    else:
        path = os.path.join(folder, f"{os.getpid()}.json")
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump(document, file, separators=(",", ":"))
        os.replace(path + ".part", path)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass
    os._exit(0)


def forked() -> None:
    """A child of a fork writes a document of its own."""
    global _first
    _first = threading.Lock()
