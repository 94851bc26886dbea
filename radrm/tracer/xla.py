"""Trace an unmodified training script of JAX: the memory of the functions that it compiles.

Theory of operation: XLA plans the memory of a compiled function before it runs, on a CPU as on a
GPU. So `jax.jit` is replaced. A function is lowered and compiled at its first call with arguments
of new shapes, and its plan read: arguments, results, temporary buffers. A small function then runs.
A large one is not run: it returns zeros of the right shapes, in memory that the system gives only
when it is read. A function that calls `jax.grad` or its like trains. After three calls of it the
most that was needed is written: all arrays alive before a call, its results, its temporary
buffers.

A training loop that compiles nothing has no plan, so it gets no answer. XLA on a GPU chooses other
algorithms, with workspaces of their own, which a plan for a CPU does not have.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import documents
import jax
import lines
import numpy
from problem import in_one_line
from program import is_over, spent_s

ENOUGH = 3
"""Calls of the training function."""
SMALL_FLOPS, SMALL_BYTES = 2e9, 1 << 28
"""A function with fewer operations, and smaller results, runs."""
_ALIGNMENT = 64
"""Bytes: XLA takes a buffer of NumPy as it is if its address is a multiple of this."""
_GRADIENTS = ("grad", "value_and_grad", "vjp", "linearize", "jacrev", "hessian")


def begin(imports: Any, program: Any) -> None:
    """Trace this process from now on. JAX has just been imported."""
    if not program.launcher:
        Script(program.name, program.limit_s).begin()


class Script:
    """The trace of this process. `gradients` counts the gradients that functions ask for."""

    def __init__(self, name: str, limit_s: float) -> None:
        self.name = name
        self._gpus = int(os.environ.get("RADRM_TRACE_GPUS") or 1)
        self._folder = os.environ["RADRM_TRACE_FOLDER"]
        self._limit_s = limit_s
        self._started = time.monotonic()
        self._pid = os.getpid()
        self.gradients = 0
        self.calls: dict[int, int] = {}
        """Calls of each training function."""
        self.peak = 0
        self.skipped: list[str] = []

    def begin(self) -> None:
        # A program that asks for the CPU uses no GPU, and says so at its end.
        wanted = os.environ.get("JAX_PLATFORMS") or os.environ.get("JAX_PLATFORM_NAME") or ""
        if wanted.split(",")[0] == "cpu":
            return
        _on_cpu(self._gpus)
        for name in _GRADIENTS:
            setattr(jax, name, self._counted(getattr(jax, name), name in ("vjp", "linearize")))
        for name in ("jit", "pmap"):
            setattr(jax, name, self._compiling(getattr(jax, name)))
        self._refuse()
        threading.Thread(target=self._clock, name="radrm-clock", daemon=True).start()
        atexit.register(self._ended)

    # ------------------------------------------------------------------ hooks

    def _compiling(self, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def compiling(*args: Any, **options: Any) -> Any:
            if not args:  # as in @jax.jit(donate_argnums=0)
                return lambda function: compiling(function, **options)
            if isinstance(args[0], Function):
                return args[0]
            return Function(self, real(*args, **options))

        return compiling

    def _counted(self, real: Callable[..., Any], at_once: bool) -> Callable[..., Any]:
        """Count the calls of a gradient's function, or of `real` itself."""

        def count(function: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(function)
            def run(*args: Any, **kwargs: Any) -> Any:
                self.gradients += 1
                return function(*args, **kwargs)

            return run

        if at_once:
            return count(real)

        @functools.wraps(real)
        def make(*args: Any, **kwargs: Any) -> Any:
            return count(real(*args, **kwargs))

        return make

    def _refuse(self) -> None:
        def initialize(*_: Any, **__: Any) -> None:
            self.fail("uses jax.distributed, which cannot be traced,", lines.here())

        distributed: Any = jax.distributed
        distributed.initialize = initialize

    # ------------------------------------------------------------------ what was seen

    def saw(self, plan: Plan, need: int) -> None:
        """Note a call that needs so many bytes with all that is alive."""
        self.peak = max(self.peak, need)
        if not plan.trains:
            return
        calls = self.calls[id(plan)] = self.calls.get(id(plan), 0) + 1
        if calls >= ENOUGH:
            self._finish("steps")

    def skip(self, noun: str) -> None:
        if noun not in self.skipped:
            self.skipped.append(noun)

    # ------------------------------------------------------------------ ends

    def _ended(self) -> None:
        if os.getpid() != self._pid:
            return
        error = getattr(sys, "last_value", None)
        most = max(self.calls.values(), default=0)
        if isinstance(error, BaseException) and most < 2:
            self.fail(f"failed with {in_one_line(error)}", lines.of_error(error))
        if self.calls:
            self._finish("steps")
        if self._is_used():
            self.fail("ended without a training function that JAX compiles (jax.jit)")

    def _is_used(self) -> bool:
        """Return whether the program needs an answer from here: another library can train."""
        return bool(self.peak or self.gradients) or "torch" not in sys.modules

    def _clock(self) -> None:
        while spent_s() < self._limit_s and not is_over(self._folder):
            time.sleep(0.2)
        if max(self.calls.values(), default=0) >= 2:
            self._finish("time")
        if self._is_used():
            self.fail(f"did not call its training function twice within {self._limit_s:.0f} s")

    def _finish(self, reason: str) -> None:
        part = _preallocated()
        if part is not None:
            mib = int(os.environ.get("RADRM_TRACE_GPU_MIB") or 0)
            if not mib:
                self.fail(f"lets JAX take {part:g} of the GPU, whose memory is not known here,")
            self.peak = max(int(part * mib) << 20, 1)
        documents.end(self._folder, self._document(reason))

    def fail(self, cause: str, line: str | None = None) -> None:
        documents.end(self._folder, documents.error(self.name, cause, line))

    def _document(self, reason: str) -> dict[str, Any]:
        counts = list(self.calls.values())
        return {
            "version": documents.VERSION,
            # The plan has no single buffers: the peak is one.
            "events": [self.peak],
            "calls": [],
            "marks": [],
            "convolutions": [],
            "parameter_bytes": 0,
            "gradient_bytes": 0,
            "optimizer_bytes": 0,
            "faketensor_bytes": 0,
            "batch_size": 0,
            "input_shape": [],
            "optimizer": "none",
            "precision": "fp32",
            "gpus": self._gpus,
            "parallel": "none",
            "torch": f"none (JAX {jax.__version__})",
            "cuda": "unknown",
            "summary": "",
            "guesses": [
                "memory: the part that JAX takes at its start"
                if _preallocated() is not None
                else "memory: as XLA plans it for a CPU"
            ],
            "seconds": round(time.monotonic() - self._started, 3),
            "benchmark": False,
            "script": {
                "program": self.name,
                "steps": counts,
                "backward": sum(counts),
                "reason": reason,
                "skipped": self.skipped,
            },
        }


# ------------------------------------------------------------------ functions


class Plan:
    """XLA's plan of a function's memory, in bytes, and how to call it for these shapes."""

    def __init__(self, script: Script, compiled: Any, args: Any, kwargs: Any) -> None:
        gradients = script.gradients
        lowered = compiled.lower(*args, **kwargs)
        self.trains = script.gradients > gradients
        self._executable = lowered.compile()
        plan = self._executable.memory_analysis()
        self.results = lowered.out_info
        self.result_bytes = int(plan.output_size_in_bytes)
        self.temporary_bytes = int(plan.temp_size_in_bytes)
        donated = [leaf for leaf in jax.tree_util.tree_leaves(lowered.args_info) if leaf.donated]
        self.reused_bytes = max(int(plan.alias_size_in_bytes), _matched(donated, self.results))
        costs = self._executable.cost_analysis() or {}
        costs = costs[0] if isinstance(costs, list) and costs else costs
        operations = float(costs.get("flops", 0)) if isinstance(costs, dict) else 0.0
        self.small = operations < SMALL_FLOPS and self.result_bytes < SMALL_BYTES

    @property
    def new_bytes(self) -> int:
        """Return what a call needs beside its arguments."""
        return self.result_bytes - self.reused_bytes + self.temporary_bytes

    def zeros(self) -> Any:
        """Return results of zeros."""
        places = self._executable.output_shardings
        return jax.tree_util.tree_map(_zeros, self.results, places)


class Function:
    """A function that `jax.jit` has made. All but calls is the function's own."""

    def __init__(self, script: Script, compiled: Any) -> None:
        self._script, self._compiled = script, compiled
        self._plans: dict[Any, Plan] = {}
        functools.update_wrapper(self, compiled)

    def __getattr__(self, name: str) -> Any:
        if name in ("_compiled", "_script", "_plans"):
            raise AttributeError(name)
        return getattr(self._compiled, name)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, structure = jax.tree_util.tree_flatten((args, kwargs))
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return self._compiled(*args, **kwargs)
        key = (structure, tuple(map(_signature, leaves)))
        try:
            plan = self._plans.get(key)
        except TypeError:  # an argument without a hash is not JAX's
            return self._compiled(*args, **kwargs)
        if plan is None:
            plan = self._plans[key] = Plan(self._script, self._compiled, args, kwargs)
        self._script.saw(plan, _alive(leaves) + plan.new_bytes)
        if plan.small:
            return self._compiled(*args, **kwargs)
        return plan.zeros()


def _signature(leaf: Any) -> Any:
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if shape is not None and dtype is not None:
        return (tuple(shape), str(dtype))
    return type(leaf) if isinstance(leaf, (int, float, complex)) else leaf


def _alive(leaves: list[Any]) -> int:
    """Return the bytes of all arrays on the first device, and of arguments that come from NumPy."""
    first = jax.local_devices()[0]
    size = sum(leaf.nbytes for leaf in leaves if isinstance(leaf, numpy.ndarray))
    for array in jax.live_arrays():
        for shard in array.addressable_shards:
            if shard.device == first:
                size += int(shard.data.nbytes)
    return int(size)


def _matched(donated: list[Any], results: Any) -> int:
    """Return the bytes of arguments that a GPU uses again for results of the same shape."""
    free: dict[Any, int] = {}
    for leaf in jax.tree_util.tree_leaves(results):
        key = (tuple(leaf.shape), str(leaf.dtype))
        free[key] = free.get(key, 0) + 1
    size = 0
    for leaf in donated:
        key = (tuple(leaf.shape), str(leaf.dtype))
        if free.get(key, 0):
            free[key] -= 1
            size += _bytes(leaf)
    return size


def _bytes(leaf: Any) -> int:
    return int(numpy.prod(leaf.shape, dtype=numpy.int64)) * int(leaf.dtype.itemsize)


def _zeros(result: Any, place: Any) -> Any:
    shape, dtype = tuple(result.shape), result.dtype
    if jax.dtypes.issubdtype(dtype, jax.dtypes.extended):  # keys of random numbers
        return jax.numpy.broadcast_to(jax.random.key(0), shape)
    size = _bytes(result)
    raw = numpy.zeros(size + _ALIGNMENT, numpy.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return jax.device_put(raw[start : start + size].view(dtype).reshape(shape), place)


# ------------------------------------------------------------------ devices


def _on_cpu(gpus: int) -> None:
    """Let the CPU stand for `gpus` GPUs."""
    if gpus > 1:
        flags = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={gpus}"
    jax.config.update("jax_platforms", "cpu")
    for name in ("devices", "local_devices", "device_count", "local_device_count"):
        setattr(jax, name, _without_backend(getattr(jax, name)))
    jax.default_backend = lambda: "gpu"


def _without_backend(real: Callable[..., Any]) -> Callable[..., Any]:
    def answer(*args: Any, **kwargs: Any) -> Any:
        return real()

    return answer


_NO = ("", "false", "False", "0")
"""Values of XLA_PYTHON_CLIENT_PREALLOCATE without which JAX takes its memory at its start. radrm
sets it to `false` for a job that does not set it and can share its GPU."""


def _preallocated() -> float | None:
    """Return the part of a GPU that JAX takes at its start, if the job insists on that and says
    how much. If it does not say, radrm lets JAX take what is reserved."""
    environment = os.environ
    if environment.get("XLA_PYTHON_CLIENT_PREALLOCATE", "") in _NO:
        return None
    if environment.get("XLA_PYTHON_CLIENT_ALLOCATOR", "").lower() in ("platform", "cuda_async"):
        return None
    names = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")
    part = next(filter(None, map(environment.get, names)), None)
    try:
        return None if part is None else float(part)
    except ValueError:  # JAX will say so
        return None
