"""Training and evaluation steps on a GPU that does not exist."""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
from typing import Any, Callable, Iterator  # noqa: UP035

import batches
import factory
import kernels
import parallel
import pretend
import torch
from guesses import Guesses
from mixed import Mixed
from pretend import CUDA
from problem import Problem, in_one_line
from table import Table
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import checkpoint
from watch import Watch

_OURS = (
    "problem", "lines", "devices", "pretend", "values", "kernels", "watch", "mixed", "factory",
    "batches", "command", "guesses", "parallel", "table", "step",
)  # fmt: skip


def traced(asked: argparse.Namespace) -> dict[str, Any]:
    """Trace the step. Return the document without version and seconds. Raises `Problem`."""
    gc.freeze()  # PyTorch's own objects are no garbage: looking for it would take most of the time
    pretend.begin(asked.gpus)
    # The user's modules may have the names of these files: forget ours before their import.
    for name in _OURS:
        sys.modules.pop(name, None)
    function = factory.found(asked.factory)
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    watch = Watch()
    folder = os.getcwd()
    guesses = Guesses(asked, function)
    try:
        with Mixed(fake, watch, large_is_fake=True):
            made = factory.read(function(**guesses.offered), asked.factory)
    except Problem:
        raise
    except Exception as error:
        raise Problem(f"{asked.factory} failed: {in_one_line(error)}") from None
    guesses.after(made, folder)
    # An operator that fake tensors do not support is an error; it never runs on a GPU.
    fake.allow_fallback_kernels = False
    trace = _Trace(asked, fake, watch, made)
    try:
        with fake, watch:
            trace.run()
    except Problem:
        raise
    except Exception as error:
        raise Problem(
            f"the training step of {asked.factory} failed at batch size "
            f"{asked.batch_size}: {in_one_line(error)}"
        ) from error
    lines = _lines_for_user(guesses, watch)
    return {**trace.document(), "benchmark": guesses.benchmark, "guesses": lines}


def _lines_for_user(guesses: Guesses, watch: Watch) -> list[str]:
    lines = [f"{subject}: {line}" for subject, line in guesses.lines.items()]
    return lines + [f"values: {subject} was guessed" for subject in sorted(watch.guesses)]


class _Trace:
    def __init__(
        self, asked: argparse.Namespace, fake: Any, watch: Watch, made: factory.Made
    ) -> None:
        self.asked, self.fake, self.watch, self.made = asked, fake, watch, made
        self.optimizer_name = asked.optimizer or "adam"
        self.batch_bytes = 0
        self.gradients: list[int] = []
        self.table = Table()
        self.sizes = {"parameter_bytes": 0, "gradient_bytes": 0, "optimizer_bytes": 0}

    def run(self) -> None:
        gc.collect()
        gc.disable()
        if self.made.step is not None:
            self._whole_steps(self.made.step)
            return
        model = self.made.model
        assert model is not None
        model._apply(_on_gpu)
        half = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(self.asked.precision)
        if half is not None:
            model.to(half)
        if self.asked.gradient_checkpointing:
            _checkpoint_blocks(model)
        optimizer = self._optimizer(model)
        self.watch.mark("model")
        inputs, targets = self._batch(model, self.asked.batch_size, half)
        with _parallel(model, self.asked) as (forward, buckets):
            model.train()
            self._train(forward, buckets, optimizer, inputs, targets)
            self._measure(model, optimizer)
            self._evaluate(model, inputs, targets, half)

    # -------------------------------------------------------------- steps

    def _train(self, forward: Any, buckets: Any, optimizer: Any, inputs: Any, targets: Any) -> None:
        """Run two steps with the variables of a usual loop: they keep the last batch and output
        alive until the next step."""
        watch, amp = self.watch, self.asked.precision in ("amp", "amp-bf16")
        dtype = torch.bfloat16 if self.asked.precision == "amp-bf16" else torch.float16
        scaler = torch.cuda.amp.GradScaler() if self.asked.precision == "amp" else None
        for step in (1, 2):
            batch, labels = batches.copied(inputs), batches.copied(targets)
            self.batch_bytes = sum(batches.size_of(t) for t in batches.tensors((batch, labels)))
            if buckets is not None:
                buckets.before_step()
            if optimizer is not None:
                optimizer.zero_grad()
            watch.mark(f"step {step}")
            autocast = torch.autocast("cuda", dtype=dtype, enabled=amp)
            with autocast, self._shown(step):
                output = batches.call(forward, batch)
                loss = self._loss(output, labels, batch)
            watch.mark(f"forward {step}")
            if scaler is not None:
                scaler.scale(loss).backward()
            else:
                loss.backward()
            watch.mark(f"backward {step}")
            if step == 1:
                self._note_matrices(forward)
            if scaler is not None:
                scaler.step(optimizer)
                scaler.update()
            elif optimizer is not None:
                optimizer.step()
            watch.mark(f"optimizer {step}")
            gc.collect()

    def _note_matrices(self, model: Any) -> None:
        """Record the allocations of matrices' gradients, without a reference to any."""
        self.gradients = [
            self.watch.number_of(weight.grad)
            for weight in model.parameters()
            if weight.dim() == 2 and weight.grad is not None
        ]

    def _shown(self, step: int) -> Any:
        """Fill the table of layers in the first forward pass, if the caller asked for it."""
        if step == 1 and self.asked.summary and self.made.model is not None:
            return self.table.watching(self.made.model)
        return contextlib.nullcontext()

    def _evaluate(self, model: Any, inputs: Any, targets: Any, half: Any) -> None:
        asked = self.asked.evaluation_batch
        size = self.asked.batch_size if asked is None else asked
        if size <= 0:
            return
        if size != self.asked.batch_size:
            if self.made.inputs is not None:
                inputs, targets = batches.resized((inputs, targets), self.asked.batch_size, size)
            else:
                inputs, targets = self._batch(model, size, half)
        model.eval()
        amp = self.asked.precision in ("amp", "amp-bf16")
        with torch.no_grad(), torch.autocast("cuda", enabled=amp):
            batch, labels = batches.copied(inputs), batches.copied(targets)
            output = batches.call(model, batch)
            with contextlib.suppress(Exception):
                self._loss(output, labels, batch)
        self.watch.mark("evaluation")

    def _whole_steps(self, step: Callable[[], Any]) -> None:
        self.watch.mark("model")
        for number in (1, 2):
            result = step()
            self.watch.mark(f"step {number}")
            del result
            gc.collect()

    # -------------------------------------------------------------- parts

    def _optimizer(self, model: Any) -> Any:
        made, weights = self.made.optimizer, [w for w in model.parameters() if w.requires_grad]
        if not weights:
            raise Problem(f"the model of {self.asked.factory} has no weights to train")
        if self.asked.optimizer is not None or made is None:
            optimizer = _new_optimizer(self.optimizer_name, weights)
        elif isinstance(made, torch.optim.Optimizer):
            optimizer = made
            for group in optimizer.param_groups:
                group["params"] = [pretend.latest(w) for w in group["params"]]
        elif callable(made):
            optimizer = made(weights)
        else:
            raise Problem(
                f"the optimizer of {self.asked.factory} is of type {type(made).__name__}; "
                "return a torch optimizer"
            )
        if optimizer is None:
            self.optimizer_name = "none"
            return None
        if self.asked.optimizer is None and made is not None:
            self.optimizer_name = type(optimizer).__name__.lower()
        for group in optimizer.param_groups:
            # PyTorch chooses `foreach` for weights on a GPU, but not for fake ones.
            if "foreach" in group and group["foreach"] is None and not group.get("fused"):
                group["foreach"] = True
        return optimizer

    def _batch(self, model: Any, size: int, half: Any) -> tuple[Any, Any]:
        """Return inputs and targets, on the CPU."""
        if self.made.inputs is not None:
            inputs, targets = tree_map(self._faked, (self.made.inputs, self.made.targets))
        else:
            inputs, targets = self._random(model, size), None
        if half is not None:
            inputs = tree_map(lambda t: t.to(half) if batches.is_float(t) else t, inputs)
        return inputs, targets

    def _faked(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        shape, stride = tuple(value.shape), tuple(value.stride())
        return torch.empty_strided(shape, stride, dtype=value.dtype, device="cpu")

    def _random(self, model: Any, size: int) -> Any:
        shape = self.asked.input_shape
        first = next(m for m in model.modules() if next(m.parameters(False), None) is not None)
        tokens = isinstance(first, torch.nn.Embedding)
        if shape is None and self.asked.sequence_length is not None:
            shape, tokens = (self.asked.sequence_length,), True
        if shape is None:
            raise Problem(
                f"{self.asked.factory} returned a model without inputs; give the shape of one "
                "sample (--input-shape 3,224,224), or return (model, inputs)"
            )
        dtype = torch.long if tokens else torch.float32
        return torch.empty((size, *shape), dtype=dtype, device="cpu")

    def _loss(self, output: Any, targets: Any, inputs: Any) -> Any:
        loss = self.made.loss
        if loss is not None:
            result = loss(output, targets) if targets is not None else loss(output)
        else:
            result = batches.usual_loss(output, targets, inputs)
        if not isinstance(result, torch.Tensor) or not result.requires_grad:
            if torch.is_grad_enabled():
                raise Problem(f"the loss of {self.asked.factory} does not depend on its weights")
            return result
        return result.mean() if result.dim() else result

    # -------------------------------------------------------------- the document

    def _measure(self, model: Any, optimizer: Any) -> None:
        weights = {id(w): w for w in model.parameters()}.values()
        buffers = {id(b): b for b in model.buffers()}.values()
        self.sizes["parameter_bytes"] = sum(batches.size_of(t) for t in (*weights, *buffers))
        self.sizes["gradient_bytes"] = sum(
            batches.size_of(w.grad) for w in weights if w.grad is not None
        )
        states = optimizer.state.values() if optimizer is not None else ()
        self.sizes["optimizer_bytes"] = sum(
            batches.size_of(value)
            for state in states
            for value in state.values()
            if isinstance(value, torch.Tensor) and value.device.type == "cuda"
        )

    def _faketensor_bytes(self) -> int:
        """Return the figure of FakeTensor as RAD-RM used it (thesis, section 5.3.2).

        The rules follow from the published figures. It is the peak of activations and gradients
        in the first forward and backward pass, without weights and optimizer. The batch on the
        CPU is added. A matrix's gradient counts twice at its end: a transposed view is copied.
        """
        marks = {name: at for at, name in self.watch.marks}
        if "backward 1" not in marks:
            return 0
        events, gradients = self.watch.events, set(self.gradients)
        live = peak = number = start = 0
        for at in range(marks["backward 1"]):
            event = events[at]
            if at == marks["model"]:
                start = peak = live
            if event < 0:
                live -= self.watch.sizes[-event - 1]
                continue
            number += 1
            live += event
            peak = max(peak, live + (event if number in gradients else 0))
        peak -= start
        return peak + self.batch_bytes

    def document(self) -> dict[str, Any]:
        asked, watch = self.asked, self.watch
        return {
            "events": watch.events,
            "calls": watch.calls,
            "marks": watch.marks,
            "convolutions": watch.convolutions,
            "parts": kernels.parts_of(watch.operators),
            **self.sizes,
            "faketensor_bytes": self._faketensor_bytes(),
            "batch_size": asked.batch_size,
            "input_shape": list(asked.input_shape or ()),
            "optimizer": self.optimizer_name,
            "precision": asked.precision,
            "gpus": asked.gpus,
            "gpu_mib": pretend.gpu_mib(),
            "parallel": asked.parallel if asked.gpus > 1 else "none",
            "torch": str(torch.__version__),
            "cuda": str(torch.version.cuda or "none"),
            "summary": self.table.text() if asked.summary else "",
        }


# ------------------------------------------------------------------ model


def _on_gpu(tensor: Any) -> Any:
    """Return a fake tensor on the GPU with the same shape and layout."""
    if isinstance(tensor, FakeTensor) and tensor.fake_device.type == "cuda":
        return tensor
    shape, stride = tuple(tensor.shape), tuple(tensor.stride())
    return torch.empty_strided(shape, stride, dtype=tensor.dtype, device=CUDA)


def _checkpoint_blocks(model: torch.nn.Module) -> None:
    """Switch on checkpointing by the model's own method, else for its longest list of blocks."""
    for name, arguments in (("gradient_checkpointing_enable", ()), ("set_grad_checkpointing", ())):
        switch = getattr(model, name, None)
        if callable(switch):
            switch(*arguments)
            return
    lists = [
        list(m.children())
        for m in model.modules()
        if isinstance(m, (torch.nn.ModuleList, torch.nn.Sequential))
    ]
    blocks = max(
        lists,
        key=lambda found: sum(1 for b in found if next(b.parameters(), None) is not None),
        default=[],
    )
    if len(blocks) < 2:
        raise Problem("the model has no list of blocks to checkpoint; drop the option")
    for block in blocks:
        block.forward = _checkpointed(block.forward)  # type: ignore[method-assign]


def _checkpointed(forward: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)

    return run


@contextlib.contextmanager
def _parallel(model: Any, asked: argparse.Namespace) -> Iterator[tuple[Any, Any]]:
    if asked.gpus > 1 and asked.parallel == "dp":
        yield parallel.DataParallel(model, asked.gpus), None
    elif asked.gpus > 1 and asked.parallel == "ddp":
        yield model, parallel.Buckets(model)
    else:
        yield model, None


def _new_optimizer(name: str, weights: list[Any]) -> Any:
    optim = torch.optim
    makers: dict[str, Callable[[], Any]] = {
        "sgd": lambda: optim.SGD(weights, lr=0.1),
        "momentum": lambda: optim.SGD(weights, lr=0.1, momentum=0.9),
        "nesterov": lambda: optim.SGD(weights, lr=0.1, momentum=0.9, nesterov=True),
        "adam": lambda: optim.Adam(weights),
        "adamw": lambda: optim.AdamW(weights),
        "nadam": lambda: optim.NAdam(weights),
        "radam": lambda: optim.RAdam(weights),
        "adamax": lambda: optim.Adamax(weights),
        "rmsprop": lambda: optim.RMSprop(weights),
        "adagrad": lambda: optim.Adagrad(weights),
        "adadelta": lambda: optim.Adadelta(weights),
        "asgd": lambda: optim.ASGD(weights),
        "rprop": lambda: optim.Rprop(weights),
        "none": lambda: None,
    }
    short = "".join(letter for letter in name.lower() if letter.isalnum())
    short = {"sgdmomentum": "momentum", "sgdnesterov": "nesterov"}.get(short, short)
    if short not in makers:
        raise Problem(f"the optimizer {name!r} is not one of {', '.join(makers)}")
    return makers[short]()
