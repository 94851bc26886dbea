"""Trace many small cases in one process: TRACER OUTPUT, cases as JSON on standard input."""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import sys


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
        program["main"]([*words, "--output", output])
        with open(output, encoding="utf-8") as file:
            documents[name] = json.load(file)
    with open(output, "w", encoding="utf-8") as file:
        json.dump(documents, file)


main()
