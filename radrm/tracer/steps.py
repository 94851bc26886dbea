"""Count optimizer steps and backward passes, and decide when enough has been seen.

Theory of operation: PyTorch calls a hook after every optimizer's step. Memory is at its most from
the second step on, when gradients and the optimizer's state are there. So three steps are enough,
with two at least of each optimizer. A loop of its own without an optimizer of PyTorch is seen by
its backward passes. Where many passes come before a step (accumulation), the tracer makes
the step itself: the state is there, and further passes show the most. What a step allocates is
compared with the step before: see `Steps._compare`.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pretend
import torch
import values
from torch._subclasses.fake_tensor import FakeTensor
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

_torch: Any = torch
"""PyTorch, whose parts are replaced here."""

ENOUGH, EACH, OTHERS = 3, 2, 12
"""Steps of one optimizer; of each that steps; until one that never stepped is left out."""
PASSES, WITHOUT_OPTIMIZER, AFTER_STEP = 16, 4, 2
"""Backward passes until a step is made; if there is no optimizer; after the step."""
TRIED, MORE = 3, 1.02
"""The step in which made-up truths are the other ones, and how much more it then may need."""
KEPT = 0.001
"""A step that leaves so much more of the most alive than the one before it, leaks or collects."""
_MOST_MARKS = 200


class Steps:
    """What the hooks have counted. `enough(reason)` is called each time enough is there."""

    def __init__(
        self,
        watch: Any,
        enough: Callable[[str], None],
        slow: Callable[[], bool],
        finished: Callable[[], bool],
        steered: Callable[[str], None],
    ) -> None:
        self._watch, self._enough, self._slow, self._finished = watch, enough, slow, finished
        self._made: list[Any] = []
        self._seen: dict[int, _Optimizer] = {}
        self._steered = steered
        self._usual: tuple[int, int] | None = None
        """What the step before `TRIED` needed, and the bytes that it copied to the GPU."""
        self._doubted = False
        self._most = self._kept = 0
        """The most bytes that a step needed, and those alive after the latest step."""
        self.grows = self.larger = self._staged = False
        """Whether the latest step needed, or kept, still more; whether the next has to; whether
        a stage differed from those before."""
        self._stage: dict[int, int] = {}
        """By optimizer, the gradients' bytes when enough was seen, or in the latest step since."""
        self.least = ENOUGH
        """Steps of one optimizer at least."""
        self.backward = self._since_step = 0
        self.shortened = False
        self._autocast: str | None = None
        self._stepping = self._passing = False
        self.cpu_steps = 0

    # ------------------------------------------------------------------ results

    @property
    def counts(self) -> list[int]:
        return [each.steps for each in self._seen.values()]

    @property
    def name(self) -> str:
        """Return the name of the optimizer with the most weights, in lower case."""
        largest = max(self._seen.values(), key=lambda each: each.weights, default=None)
        return "none" if largest is None else largest.name

    @property
    def trained(self) -> set[int]:
        """Return the ids of the weights that had a gradient in a step."""
        return {each for optimizer in self._seen.values() for each in optimizer.trained}

    def precision(self) -> str:
        """Return the precision in the words of the job's option `--precision`."""
        if self._autocast is not None:
            return self._autocast
        largest = max(self._seen.values(), key=lambda each: each.weights, default=None)
        return "fp32" if largest is None else largest.precision

    def sizes(self) -> dict[str, int]:
        seen = self._seen.values()
        return {
            "parameter_bytes": sum(each.weights for each in seen),
            "gradient_bytes": sum(each.gradients for each in seen),
            "optimizer_bytes": sum(each.state for each in seen),
        }

    # ------------------------------------------------------------------ hooks

    def begin(self) -> None:
        optimizer: Any = torch.optim.Optimizer
        register_optimizer_step_pre_hook(self._before)
        register_optimizer_step_post_hook(self._after)
        make, zero = optimizer.__init__, optimizer.zero_grad

        def made(this: Any, *args: Any, **kwargs: Any) -> None:
            make(this, *args, **kwargs)
            self._made.append(weakref.ref(this))

        def zeroed(this: Any, *args: Any, **kwargs: Any) -> Any:
            follow(this)
            return zero(this, *args, **kwargs)

        optimizer.__init__ = made
        optimizer.zero_grad = zeroed
        backward = torch.autograd.backward

        def passed(*args: Any, **kwargs: Any) -> Any:
            inner, self._passing = self._passing, True
            try:
                result = backward(*args, **kwargs)
            finally:
                self._passing = inner
            if not inner:  # checkpoints make passes of their own inside of one
                self._passed()
            return result

        torch.autograd.backward = passed
        self._scaler()
        enter = torch.autocast.__enter__

        def entered(this: Any) -> Any:
            if this.device == "cuda" and this._enabled:
                self._autocast = "amp-bf16" if this.fast_dtype == torch.bfloat16 else "amp"
            return enter(this)

        _torch.autocast.__enter__ = entered

    def _scaler(self) -> None:
        """Let a gradient scaler never skip a step: it would read a made-up value."""
        from torch.amp.grad_scaler import GradScaler

        def step(this: Any, optimizer: Any, state: Any, *args: Any, **kwargs: Any) -> Any:
            return optimizer.step(*args, **kwargs)

        def with_latest(method: Callable[..., Any]) -> Callable[..., Any]:
            def run(this: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
                follow(getattr(optimizer, "optimizer", optimizer))
                return method(this, optimizer, *args, **kwargs)

            return run

        scaler: Any = GradScaler
        scaler._maybe_opt_step = step
        scaler.unscale_, scaler.step = with_latest(scaler.unscale_), with_latest(scaler.step)

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        follow(optimizer)
        self._stepping = True

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._stepping = False
        if not any(_on_gpu(w) for group in optimizer.param_groups for w in group["params"]):
            self.cpu_steps += 1
            return
        seen = self._seen.get(id(optimizer))
        if seen is None:
            seen = self._seen[id(optimizer)] = _Optimizer(optimizer)
            self._watch.allocate(_later(optimizer))
        seen.stepped(optimizer)
        self._since_step = 0
        self.mark(f"optimizer {seen.steps}")
        gc.collect()
        self._compare()
        if self._finished():
            self._stage_goes_on(seen)
        elif not self.shortened and self._all_seen():
            self._enough("steps")

    def _compare(self) -> None:
        """After the second step try the other answer to truths that are made up.

        A step that then needs more, with no more data, can have a branch on such a value. It has
        one if the next step, with the usual answers, needs no more, and the one after it, with the
        others, does again: then what the job really needs is unknown.
        """
        truths, number = values.truths, sum(self.counts)
        found, line = self._watch.next_step(), truths.line
        self._note_growth(found[0], number)
        truths.left, truths.line = 0, None
        if len(self._seen) > 1 or number < TRIED - 1:
            self._doubted = False
            return
        if number == TRIED - 1:
            self._usual = found
        elif self._usual is not None:
            other, before = (number - TRIED) % 2 == 0, self._usual
            more = found[0] > MORE * before[0] and found[1] <= before[1]
            if more and line is not None and self._doubted:
                self._steered(line)
            self._doubted = more and line is not None if other else self._doubted and not more
        if number == TRIED - 1 or (self._doubted and (number - TRIED) % 2):
            truths.try_other()

    def stage_ends(self) -> None:
        """Note that enough was seen: the program goes on, with an evaluation or a further stage."""
        self._stage = {key: each.gradients for key, each in self._seen.items()}

    def _stage_goes_on(self, seen: _Optimizer) -> None:
        """Say that it is enough once a step is like those before: a further stage can have another
        optimizer, train more weights, or have larger batches. Then the one after it is seen, too.
        """
        key = id(seen.optimizer)
        more, self._stage[key] = seen.gradients > self._stage.get(key, 0), seen.gradients
        if more or self.grows or self._waits():
            self._staged = True
        elif self._staged:
            self._staged = False
        else:
            self._enough("steps")

    @property
    def rising(self) -> bool:
        """Return whether what a step needs has not been the same so far."""
        return self.grows or self._staged

    def _note_growth(self, highest: int, number: int) -> None:
        more = highest > MORE * self._most or self._watch.live > self._kept + KEPT * self._most
        self.grows = more and number >= TRIED and not self.larger
        self.larger, self._kept = False, self._watch.live
        self._most = max(self._most, highest)

    def _all_seen(self) -> bool:
        counts = self.counts
        if self._doubted or self.grows or max(counts) < self.least:
            return False
        if min(counts) < EACH and sum(counts) < OTHERS:
            return False
        return not self._waits() or sum(counts) >= OTHERS

    def _waits(self) -> bool:
        """Return whether an optimizer has not made a step."""
        made = [o for o in (each() for each in self._made) if o is not None]
        return any(id(o) not in self._seen and _has_gpu_weights(o) for o in made)

    def _passed(self) -> None:
        self.backward += 1
        self._since_step += 1
        self.mark(f"backward {self.backward}")
        if self._stepping:
            return  # a closure, as L-BFGS calls it
        waiting = [o for o in (made() for made in self._made) if o is not None]
        waiting = [o for o in waiting if _trains_on_gpu(o)]
        if self.shortened:
            if self._since_step >= AFTER_STEP:
                self._enough("backward passes")
        elif not waiting:
            if self._finished():
                self._enough("steps")
            if not self._seen and self._since_step >= WITHOUT_OPTIMIZER and self._watch.live:
                self._enough("backward passes")
        elif self._since_step >= PASSES or (self._since_step >= WITHOUT_OPTIMIZER and self._slow()):
            self._step_all(waiting)

    def _step_all(self, optimizers: list[Any]) -> None:
        """Make the step that the script would make after many more passes."""
        self.shortened = True
        for optimizer in optimizers:
            with torch.no_grad():
                optimizer.step()
        self._since_step = 0

    def mark(self, name: str) -> None:
        if len(self._watch.marks) < _MOST_MARKS:
            self._watch.mark(name)


class _Optimizer:
    def __init__(self, optimizer: Any) -> None:
        # It stays alive, so that no other gets its id.
        self.optimizer, self.steps = optimizer, 0
        self.name = type(optimizer).__name__.lower()
        self.weights = self.gradients = self.state = 0
        self.precision = "fp32"
        self.trained: set[int] = set()

    def stepped(self, optimizer: Any) -> None:
        self.steps += 1
        weights = [w for group in optimizer.param_groups for w in group["params"]]
        self.weights = sum(_size(w) for w in weights)
        self.trained.update(id(w) for w in weights if w.grad is not None)
        largest = max(weights, key=lambda w: w.numel())
        self.precision = {torch.float16: "fp16", torch.bfloat16: "bf16"}.get(largest.dtype, "fp32")
        self.gradients = sum(_size(w.grad) for w in weights if w.grad is not None)
        self.state = sum(
            _size(value)
            for state in optimizer.state.values()
            if isinstance(state, dict)
            for value in state.values()
            if _on_gpu(value)
        )


def _later(optimizer: Any) -> int:
    """Return the bytes of a state that grows after the traced steps: L-BFGS keeps two vectors of
    each but the last."""
    if not isinstance(optimizer, torch.optim.LBFGS):
        return 0
    kept: int = 2 * max(optimizer.param_groups[0]["history_size"] - ENOUGH + 1, 0)
    return kept * sum(_size(w) for group in optimizer.param_groups for w in group["params"])


def follow(optimizer: Any) -> None:
    """Give an optimizer the weights that have replaced its own after a move to the GPU."""
    for group in optimizer.param_groups:
        group["params"][:] = [pretend.latest(weight) for weight in group["params"]]
        # PyTorch chooses `foreach` for weights on a GPU, but not for fake ones.
        unset = "foreach" in group and group["foreach"] is None and not group.get("fused")
        if unset and any(_on_gpu(weight) for weight in group["params"]):
            group["foreach"] = True


def _on_gpu(value: Any) -> bool:
    return isinstance(value, FakeTensor) and value.fake_device.type == "cuda"


def _trains_on_gpu(optimizer: Any) -> bool:
    weights = (pretend.latest(w) for group in optimizer.param_groups for w in group["params"])
    return any(_on_gpu(w) and w.grad is not None for w in weights)


def _has_gpu_weights(optimizer: Any) -> bool:
    weights = (pretend.latest(w) for group in optimizer.param_groups for w in group["params"])
    return any(_on_gpu(w) for w in weights)


def _size(tensor: Any) -> int:
    return int(tensor.numel()) * int(tensor.element_size())
