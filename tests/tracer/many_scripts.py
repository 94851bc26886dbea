"""Trace many scripts: TRACER FOLDER, and as JSON on standard input for each name [GPUs, seconds].

PyTorch is imported once, with `torch._dynamo`, whose import takes ten times what a trace takes.
Each script runs in a fork of its own, as `site/sitecustomize.py` would have it from the import on.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import sys
import traceback

import torch._dynamo
import torch._subclasses.fake_tensor
import torch.testing._internal.distributed.fake_pg  # noqa: F401

HERE = os.path.dirname(os.path.abspath(__file__))


def trace(tracer: str, name: str, gpus: int, limit_s: float) -> None:
    os.environ["RADRM_TRACE_GPUS"] = str(gpus)
    sys.path.insert(0, tracer)
    import imports
    import program

    sys.path.remove(tracer)
    found = imports.Imports()
    found.begin()
    with imports.own_files(*[f[:-3] for f in os.listdir(tracer) if f.endswith(".py")]):
        import script

        running = program.Program("script", "scripts.py")
        running.limit_s = limit_s
        script.begin(found, running)
    sys.argv = ["scripts.py", name]
    sys.path[0] = HERE
    try:
        runpy.run_path(os.path.join(HERE, "scripts.py"), run_name="__main__")
    except SystemExit:
        pass
    except BaseException as error:
        traceback.print_exception(error)
        sys.last_value = error


def main() -> None:
    tracer, folder = sys.argv[1:3]
    wanted = json.load(sys.stdin)
    running: dict[int, str] = {}
    for name, (gpus, limit_s) in wanted.items():
        place = os.path.join(folder, name)
        os.mkdir(place)
        pid = os.fork()
        if pid == 0:
            os.environ["RADRM_TRACE_FOLDER"] = place
            os.chdir(place)
            output = os.open("output", os.O_WRONLY | os.O_CREAT)
            os.dup2(output, 1)
            os.dup2(output, 2)
            trace(tracer, name, gpus, limit_s)
            atexit._run_exitfuncs()
            os._exit(0)
        running[pid] = name
        if len(running) >= 2:
            running.pop(os.wait()[0], None)
    while running:
        running.pop(os.wait()[0], None)


main()
