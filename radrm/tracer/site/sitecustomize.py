"""Trace the Python programs of a job: this folder comes first in the job's PYTHONPATH.

Every interpreter imports this file at its start. It imports nothing but the tracer's two small
files `imports` and `program`, and waits for the program to import PyTorch. A program that never
does runs as itself. So do programs that such a program starts: each is judged by its own imports,
and the one that trains writes the document. The user's own `sitecustomize` is loaded, too.

The variables (see docs/tracing.md):

- RADRM_TRACE_FOLDER: where each traced program writes its document, `<pid>.json`. Without it
  nothing is traced.
- RADRM_TRACE_LIMIT_S: seconds until a document must be there.
- RADRM_TRACE_GPUS: the job's number of GPUs.
"""

import os
import sys

_SITE = os.path.dirname(os.path.abspath(__file__))


def _trace() -> None:
    tracer = os.path.dirname(_SITE)
    sys.path.insert(0, tracer)
    try:
        import imports
        import program
    finally:
        sys.path.remove(tracer)
        for name in ("imports", "program"):
            sys.modules.pop(name, None)
    found = imports.Imports()
    found.begin()
    running = program.this_program()

    def torch(module: object) -> None:
        with imports.own_files(*_files(tracer)):
            import script

            script.begin(found, running)

    # Another library that can train without PyTorch (JAX) gets its line here.
    found.after("torch", torch)


def _files(tracer: str) -> "list[str]":
    return [name[:-3] for name in os.listdir(tracer) if name.endswith(".py")]


def _users() -> None:
    """Load the `sitecustomize` that this file hides."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    others = [folder for folder in sys.path if os.path.abspath(folder or ".") != _SITE]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if os.environ.get("RADRM_TRACE_FOLDER"):
    _trace()
_users()
