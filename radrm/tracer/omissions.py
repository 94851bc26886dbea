"""What a trace leaves out: compilation, checkpoints on disk, loggers.

None of them changes what a training step keeps on the GPU, except compilation, which mostly
needs less. The noun for each is shown to the user.
"""

from __future__ import annotations

import os
from typing import Any

import torch
import values
from devices import CUDA
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_map

_torch: Any = torch
"""PyTorch, whose parts are replaced here."""

_WRITERS = {
    "torch.utils.tensorboard": "SummaryWriter",
    "torch.utils.tensorboard.writer": "SummaryWriter",
    "tensorboardX": "SummaryWriter",
}


def begin(script: Any) -> None:
    _compilation(script)
    _Checkpoints(script).begin()
    _profiling()
    script.imports.after("safetensors.torch", lambda found: _unwritten(script, found))
    script.imports.after("torchvision.ops.boxes", lambda found: _boxes(script, found))
    script.imports.after("torchvision.models.detection._utils", _samples)
    script.imports.after("torchvision.models.detection.roi_heads", _objects)
    # A check of values that are made up would refuse them.
    script.imports.after(
        "torch.distributions.distribution",
        lambda found: found.Distribution.set_default_validate_args(False),
    )
    for module, name in _WRITERS.items():
        script.imports.after(module, lambda found, name=name: _quiet(script, found, name))


def _boxes(script: Any, module: Any) -> None:
    """Let a choice of boxes keep all of them, the most that it can."""
    real = module.nms

    def nms(boxes: Any, scores: Any, iou_threshold: float) -> Any:
        if not isinstance(boxes, FakeTensor):
            return real(boxes, scores, iou_threshold)
        script.watch.guesses.add("how many boxes are kept")
        return torch.empty_like(scores, dtype=torch.long)

    module.nms = nms


def _samples(module: Any) -> None:
    """Let a detector's sampler find as many boxes as it wants, not all."""
    sampler = module.BalancedPositiveNegativeSampler
    real = sampler.__call__

    def call(this: Any, matched: Any) -> Any:
        found = real(this, matched)
        objects = _wanted(this)
        positives, negatives = found
        for positive in positives:
            values.suppose(positive, objects, 1)
        for negative in negatives:
            values.suppose(negative, this.batch_size_per_image - objects, 1, objects)
        return found

    sampler.__call__ = call


def _objects(module: Any) -> None:
    """Let as many of the sampled boxes have objects."""
    heads = module.RoIHeads
    real = heads.select_training_samples

    def select(this: Any, *args: Any, **kwargs: Any) -> Any:
        found = real(this, *args, **kwargs)
        for labels in found[2]:
            values.suppose(labels, _wanted(this.fg_bg_sampler), 1)
        return found

    heads.select_training_samples = select


def _wanted(sampler: Any) -> int:
    return int(sampler.batch_size_per_image * sampler.positive_fraction)


def _compilation(script: Any) -> None:
    def compiled(model: Any = None, *_: Any, **__: Any) -> Any:
        script.skip("torch.compile")
        return (lambda function: function) if model is None else model

    _torch.compile = compiled
    _torch.nn.Module.compile = lambda self, *_, **__: script.skip("_torch.compile")


# ------------------------------------------------------------------ torch.save, torch.load


class _Shape:
    """A tensor in a checkpoint: its sizes and place, without values."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.shape, self.stride = tuple(tensor.shape), tuple(tensor.stride())
        self.dtype, self.device = tensor.dtype, tensor.device
        self.weight = isinstance(tensor, torch.nn.Parameter)

    def tensor(self, place: Any) -> torch.Tensor:
        device = self.device if place is None else place
        made = torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=device)
        return torch.nn.Parameter(made) if self.weight else made


class _Checkpoints:
    """Keeps what is saved in memory, without values, for a program that loads it again."""

    def __init__(self, script: Any) -> None:
        self._script = script
        self._saved: dict[Any, Any] = {}

    def begin(self) -> None:
        torch.save, self._load = self._save, torch.load
        torch.load = self._loaded

    def _save(self, obj: Any, f: Any, *_: Any, **__: Any) -> None:
        self._script.skip("checkpoints")
        plain = tree_map(lambda v: _Shape(v) if isinstance(v, torch.Tensor) else v, obj)
        self._saved[_name(f)] = plain
        if isinstance(f, (str, os.PathLike)):
            try:
                open(f, "ab").close()
            except OSError:
                pass

    def _loaded(self, f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        saved = self._saved.get(_name(f))
        place = None if map_location is None or callable(map_location) else map_location
        if isinstance(place, dict):
            place = next(iter(place.values()), None)
        if saved is not None:
            return tree_map(lambda v: v.tensor(place) if isinstance(v, _Shape) else v, saved)
        found = self._load(f, "cpu", *args, **kwargs)
        if place is None or torch.device(place).type != "cuda":
            return found
        return tree_map(lambda v: v.to(CUDA) if isinstance(v, torch.Tensor) else v, found)


def _name(file: Any) -> Any:
    if isinstance(file, (str, os.PathLike)):
        return os.path.realpath(os.fspath(file))
    return id(file)


# ------------------------------------------------------------------ loggers and tools


def _quiet(script: Any, module: Any, name: str) -> None:
    writer = getattr(module, name, None)
    for method in dir(writer):
        if method.startswith("add_"):
            setattr(writer, method, lambda *_, **__: script.skip("TensorBoard"))


def _unwritten(script: Any, module: Any) -> None:
    for name in ("save_file", "save_model"):
        setattr(module, name, lambda *_, **__: script.skip("checkpoints"))


def _profiling() -> None:
    nvtx: Any = torch.cuda.nvtx
    for name in ("range_push", "range_pop", "range_start", "range_end", "mark"):
        if hasattr(nvtx, name):
            setattr(nvtx, name, lambda *_, **__: 0)
    profiler: Any = torch.cuda.profiler
    for name in ("start", "stop", "init"):
        if hasattr(profiler, name):
            setattr(profiler, name, lambda *_, **__: None)
