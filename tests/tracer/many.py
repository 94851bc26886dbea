"""Trace many small cases in one process: TRACER OUTPUT, cases as JSON on standard input."""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import sys
from collections.abc import Callable
from typing import Any


def main() -> None:
    tracer, output = sys.argv[1:]
    cases = json.load(sys.stdin)
    sys.path[0] = tracer
    program = runpy.run_path(os.path.join(tracer, "__main__.py"), run_name="tracer")
    with contextlib.suppress(ImportError):
        import step  # noqa: F401
    # A trace hides the tracer's files from the user's code; here another follows.
    ours = {
        name: module
        for name, module in sys.modules.items()
        if os.path.dirname(getattr(module, "__file__", None) or "") == tracer
    }
    documents = {}
    for name, words in cases.items():
        sys.modules.update(ours)
        if name == "leaving":  # that ends a process: not this one
            documents[name] = left(program["main"], [*words, "--output", output], output)
            continue
        program["main"]([*words, "--output", output])
        with open(output, encoding="utf-8") as file:
            documents[name] = json.load(file)
    with open(output, "w", encoding="utf-8") as file:
        json.dump(documents, file)


def left(trace: Callable[[list[str]], int], words: list[str], output: str) -> dict[str, Any]:
    """How a process ends that traces, and the document that it leaves."""
    os.remove(output)
    pid = os.fork()
    if pid == 0:
        try:
            trace(words)
        finally:
            os._exit(99)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return {"error": f"exit code {code}", "written": os.path.exists(output)}


main()
