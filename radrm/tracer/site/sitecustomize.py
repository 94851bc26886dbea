"""Trace the Python programs of a job: this folder comes first in the job's PYTHONPATH.

Every interpreter imports this file at its start. It imports nothing but the tracer's two small
files `imports` and `program`, and waits for the program to import PyTorch. A program that never
does runs as itself. So do programs that such a program starts: each is judged by its own imports,
and the one that trains writes the document. The user's own `sitecustomize` is loaded, too.

The variables (see docs/tracing.md):

- RADRM_TRACE_FOLDER: where each traced program writes its document, `<pid>.json`. Without it
  nothing is traced.
- RADRM_TRACE_LIMIT_S: seconds of processor time until a document must be there.
- RADRM_TRACE_GPUS: the job's number of GPUs. RADRM_TRACE_GPU_MIB: the memory of each, if known.
"""

import os
import sys
from collections.abc import Callable
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_QUIET = {
    "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false",
    "WANDB_MODE": "disabled", "COMET_MODE": "DISABLED", "NEPTUNE_MODE": "debug",
    "CLEARML_OFFLINE_MODE": "1", "MPLBACKEND": "Agg",
}  # fmt: skip
"""There is no network: libraries and loggers must not wait for it."""
_SITE = os.path.dirname(os.path.abspath(__file__))
_LIBRARIES = {
    "torch": "script",
    "jax": "xla",
    "tensorflow": "untraced",
    "paddle": "untraced",
    "mxnet": "untraced",
}
"""The tracer's file for each library that trains."""


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
    # PyTorch reads these when it is imported: a trace compiles nothing.
    os.environ.setdefault("PYTORCH_JIT", "0")
    os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)

    folder = os.environ["RADRM_TRACE_FOLDER"]
    running.limit_s = float(os.environ.get("RADRM_TRACE_LIMIT_S") or 60)
    os.environ[program.PARENT] = running.name

    def before() -> None:
        if not running.launcher and not program.is_rank_0():
            program.wait_for_rank_0(folder)

    def begin(file: str) -> Callable[[object], None]:
        def run(module: object) -> None:
            with imports.own_files(*_files(tracer)):
                import_module(file).begin(found, running)

        return run

    found.before("torch", before)
    found.after("torch._compile", _without_compiler)
    for library, file in _LIBRARIES.items():
        found.after(library, begin(file))


def _without_compiler(module: "Any") -> None:
    """Let PyTorch not import its compiler, which takes as long as all else, only to keep its own
    functions from it."""
    module._disable_dynamo = lambda fn=None, recursive=True: fn or (lambda real: real)


def _files(tracer: str) -> "list[str]":
    names = [name[:-3] for name in os.listdir(tracer) if name.endswith(".py")]
    return [name for name in names if name != "__main__"]


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
