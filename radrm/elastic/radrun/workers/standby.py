"""Runs one worker in the user's Python (3.8 or newer): stand by, then run the program.

    python -u standby.py FD SCRIPT|MODULE [ARGUMENT]...

`radrun` starts it by its path. FD is a socket to `radrun`; JSON lines go both ways:

    {"module": BOOL, "place": PATH, "imports": [NAME...]}   from radrun
    {"ready": true}                                         to radrun
    {"go": {NAME: VALUE}}                                   from radrun

`module`: the program is a module. `place`: a folder that has `radrm.elastic`, for a Python without
it. `imports`: what to import before "ready". After "go" this process sets the variables and runs
the program. The end of the socket before that ends this process.

A standby must not touch a GPU, because the workers before it still have theirs. So it imports
libraries only, and never the program's own modules. If a library makes a context on a GPU, this
process starts itself anew and imports nothing.
"""

# ruff: noqa: E402
import sys

# This file's folder comes first in the path; the modules in it are radrun's, not the program's.
del sys.path[0]

import atexit
import importlib.util
import json
import os
import runpy
import signal
import threading

_COLD = "RADRM_STANDBY_COLD"
_MOST_LINE = 1 << 20


def main():
    fd = int(sys.argv[1])
    os.set_inheritable(fd, False)
    channel = os.fdopen(fd, "rb")
    first = _read(channel)
    _find_elastic(first["place"])
    as_module = first["module"]
    script, arguments = sys.argv[2], sys.argv[3:]
    # As `python SCRIPT` and `python -m MODULE` have it; imports while standing by see it, too.
    sys.path.insert(0, os.getcwd() if as_module else os.path.dirname(os.path.realpath(script)))
    if not os.environ.pop(_COLD, "") and _import_all(first["imports"]):
        _start_cold(fd)
    os.write(fd, b'{"ready": true}\n')
    environment = _read(channel)["go"]
    channel.close()
    os.environ.update(environment)
    sys.argv = [script, *arguments]
    try:
        if as_module:
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if _is_a_stop(end):
            _end_at_once()
        raise


def _is_a_stop(end):
    """Return whether `elastic` ends this worker because the next generation waits."""
    trace = end.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_globals.get("__name__") == "radrm.elastic"


def _end_at_once():
    """End with 0 after all threads and exit handlers, without Python's own clean-up.

    With torch that takes a second, in which the job does nothing: the new workers wait for the end.
    """
    try:
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0)


def _read(channel):
    """The next line from radrun. Ends this process if radrun has gone."""
    text = channel.readline(_MOST_LINE)
    if not text.endswith(b"\n"):
        os._exit(1)
    return json.loads(text)


def _find_elastic(place):
    """Have `from radrm import elastic` work, here and in the programs that this one starts."""
    try:
        found = importlib.util.find_spec("radrm.elastic") is not None
    except (ImportError, ValueError):
        found = False
    if not found:
        for name in [each for each in sys.modules if each.split(".")[0] == "radrm"]:
            del sys.modules[name]  # one without `elastic`: the folder's extends it
        paths = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
        if place not in paths:
            os.environ["PYTHONPATH"] = os.pathsep.join([*paths, place])
        if place not in sys.path:
            sys.path.insert(0, place)


def _import_all(names):
    """Import libraries. Returns True if that has made a context on a GPU."""
    if not names:
        return False
    # Whatever a module prints, the workers before it have printed already.
    out, err = os.dup(1), os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    arguments, sys.argv = sys.argv, sys.argv[2:]
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        libraries = {}
        for name in names:
            top = name.partition(".")[0]
            try:
                if top not in libraries:
                    libraries[top] = _is_library(top)
                if libraries[top] and name not in sys.modules:
                    __import__(name)
            except BaseException:  # SystemExit, too
                continue
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        sys.argv = arguments
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(out, 1)
        os.dup2(err, 2)
        for each in (out, err, null):
            os.close(each)
    return _has_context()


def _is_library(name):
    """Return whether a module is installed, or of Python itself."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        return False
    if spec.origin in ("built-in", "frozen"):
        return True
    path = spec.origin or next(iter(spec.submodule_search_locations or ()), "")
    if {"site-packages", "dist-packages"} & set(path.split(os.sep)):
        return True
    return path.startswith(os.path.dirname(os.__file__) + os.sep)


def _has_context():
    """Return whether this process has a CUDA context. It asks the driver if that is loaded."""
    try:
        with open("/proc/self/maps", "rb") as maps:
            if b"libcuda.so" not in maps.read():
                return False
        import ctypes

        driver = ctypes.CDLL("libcuda.so.1")
        count, flags, active = ctypes.c_int(), ctypes.c_uint(), ctypes.c_int()
        if driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
            return False  # it is not initialised
        for device in range(count.value):
            state = driver.cuDevicePrimaryCtxGetState
            if state(device, ctypes.byref(flags), ctypes.byref(active)) == 0 and active.value:
                return True
    except (OSError, AttributeError):
        return False
    return False


def _start_cold(fd):
    """Start this program anew: no import has been made then. radrun sends its line again."""
    os.environ[_COLD] = "1"
    os.set_inheritable(fd, True)
    os.write(fd, b'{"cold": true}\n')
    os.execv(sys.executable, [sys.executable, "-u", *sys.argv])


if __name__ == "__main__":
    main()
