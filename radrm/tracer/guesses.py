"""Choose the values of a training step that the job does not specify, each with a line for the
user.

Values come from, in this order: the job's option, the job's command, the factory (its
default, or the inputs that it returns). Other values are guessed; of two choices the one
that needs more memory is taken.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import batches
import command
import torch

BATCH_SIZE = 32
PRECISION = "fp32"
_OFFERED = ("batch_size", "sequence_length", "input_shape")


class Guesses:
    """Fills in the open values of `asked`, in part before and in part after the factory's call.

    `lines` has a line for the user by subject. `benchmark` says whether cuDNN measures its
    algorithms.
    """

    def __init__(self, asked: argparse.Namespace, factory: Callable[..., Any]) -> None:
        self.lines: dict[str, str] = {}
        self.benchmark = False
        self._asked = asked
        found: Mapping[str, inspect.Parameter] = {}
        try:
            found = inspect.signature(factory).parameters
        except (TypeError, ValueError):
            pass  # a callable without a signature
        self._open_ended = any(p.kind is p.VAR_KEYWORD for p in found.values())
        self._defaults = {name: p.default for name, p in found.items() if name in _OFFERED}
        self._before()

    @property
    def offered(self) -> dict[str, Any]:
        """Return the keywords for the factory: those that it takes and that have a value.

        A value that the job does not specify stays the factory's own default.
        """
        asked = self._asked
        found = {name: getattr(asked, name) for name in _OFFERED}
        if found["batch_size"] is None and self._default("batch_size") is inspect.Parameter.empty:
            found["batch_size"] = BATCH_SIZE
        return {name: value for name, value in found.items() if value and self._takes(name)}

    def _takes(self, name: str) -> bool:
        return self._open_ended or name in self._defaults

    def _default(self, name: str) -> Any:
        return self._defaults.get(name)

    def _before(self) -> None:
        asked = self._asked
        if asked.batch_size is None:
            named = command.batch_size(asked.command)
            if named is not None:
                asked.batch_size = named[0]
                self.lines["batch size"] = f"{named[0]}, by {named[1]}"

    def after(self, made: Any, folder: str) -> None:
        """Choose the other values, once the factory has returned."""
        asked = self._asked
        offered = self.offered.get("batch_size")
        if made.step is not None:
            self.lines = {"training step": "the factory's own, traced as it is on one GPU"}
            asked.batch_size = offered or _size(self._default("batch_size"))
            asked.precision = asked.precision or PRECISION
            asked.parallel = "none"
            self._settle_benchmark(folder)
            return
        self._settle_shapes(made)
        self._settle_batch(made, offered)
        self._settle_benchmark(folder)
        if made.optimizer is None and asked.optimizer is None:
            self.lines["optimizer"] = "adam, as neither the job nor its factory names one"
        if asked.precision is None:
            asked.precision = PRECISION
            self.lines["precision"] = f"{PRECISION}, as the job names none"
        if asked.gpus > 1 and asked.parallel == "auto":
            asked.parallel, why = command.how_parallel(asked.command, folder)
            ways = {"dp": "DataParallel", "ddp": "one process for each (DDP)"}
            self.lines["GPUs"] = f"{asked.gpus}, {ways[asked.parallel]}: {why}"

    def _settle_benchmark(self, folder: str) -> None:
        """The factory's module may set it; if not, the rest of the job's program."""
        program = command.uses_benchmark(self._asked.command, folder)
        if program is not None and not self.benchmark:
            self.lines["cudnn.benchmark"] = f"on, as {program} sets it"
        self.benchmark |= torch.backends.cudnn.benchmark or program is not None

    def _settle_shapes(self, made: Any) -> None:
        asked = self._asked
        if made.inputs is not None:
            return
        for name, label in (("input_shape", "input shape"), ("sequence_length", "sequence length")):
            default = self._default(name)
            if getattr(asked, name) is None and _sound(name, default):
                setattr(asked, name, default)
                shown = "x".join(map(str, default)) if isinstance(default, tuple) else default
                self.lines[label] = f"{shown}, the factory's own default"

    def _settle_batch(self, made: Any, offered: int | None) -> None:
        asked, default = self._asked, _size(self._default("batch_size"))
        size = offered or default or asked.batch_size
        known = asked.batch_size is not None
        if made.inputs is not None:
            sizes = [tuple(t.shape) for t in batches.tensors(made.inputs) if t.dim()]
            if sizes and not any(size in shape for shape in sizes):
                size, known = sizes[0][0], False
                self.lines["batch size"] = f"{size}, that of the factory's inputs"
            self._show_shape(made, size)
        if size is None:
            size = BATCH_SIZE
        if not known and "batch size" not in self.lines:
            source = "the factory's own default"
            if size != default:
                source = "as neither the job nor its factory names one"
            self.lines["batch size"] = f"{size}, {source}"
        asked.batch_size = size

    def _show_shape(self, made: Any, size: int | None) -> None:
        """Add a line on the shape of the factory's inputs, if the job does not specify one."""
        first = next((t for t in batches.tensors(made.inputs) if t.dim()), None)
        if first is None or self._asked.input_shape or self._asked.sequence_length:
            return
        shape = list(first.shape[1:]) if first.shape[0] == size else list(first.shape)
        if not torch.is_floating_point(first) and len(shape) == 1:
            self.lines["sequence length"] = f"{shape[0]}, that of the factory's inputs"
        elif shape:
            shown = "x".join(map(str, shape))
            self.lines["input shape"] = f"{shown}, that of the factory's inputs"


def _size(value: Any) -> int | None:
    sound = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 1 << 24
    return value if sound else None


def _sound(name: str, value: Any) -> bool:
    if name == "sequence_length":
        return _size(value) is not None
    shape = isinstance(value, tuple) and 1 <= len(value) <= 8
    return shape and all(_size(each) is not None for each in value)
