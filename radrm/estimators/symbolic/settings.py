"""The optimizer and the precision of a job, in bytes."""

from __future__ import annotations

from msgspec import Struct


class Optimizer(Struct, frozen=True):
    """The state and the temporary tensors of a step, as multiples of the parameters.

    From `torch/optim/*.py` (2.x), which on a GPU handles all parameters at once (`foreach`):
    Adam keeps two averages and makes one square root.
    """

    states: int
    temporaries: int


_OPTIMIZERS = {
    "adam": Optimizer(2, 1),
    "adamw": Optimizer(2, 1),
    "nadam": Optimizer(2, 2),
    "radam": Optimizer(2, 2),
    "adamax": Optimizer(2, 1),
    "adafactor": Optimizer(0, 1),
    "lion": Optimizer(1, 1),
    "lamb": Optimizer(2, 2),
    "rmsprop": Optimizer(1, 1),
    "adagrad": Optimizer(1, 2),
    "adadelta": Optimizer(2, 2),
    "momentum": Optimizer(1, 0),
    "sgd": Optimizer(1, 0),
    "asgd": Optimizer(1, 1),
    "rprop": Optimizer(2, 1),
}
DEFAULT_OPTIMIZER = "adam"


def optimizer(name: str | None) -> Optimizer | None:
    """Return an optimizer by its name, in any case; without a name Adam. None: unknown.

    `sgd` counts with momentum, which needs more.
    """
    plain = (name or DEFAULT_OPTIMIZER).casefold().replace("-", "").replace("_", "")
    return _OPTIMIZERS.get(plain.removeprefix("fused"))


class Precision(Struct, frozen=True):
    """The bytes of a parameter and of an activation. `autocast` keeps copies of weights.

    `wide` are the bytes of what stays in 32 bits under autocast (norms of rows, softmax, loss).
    """

    parameter: int = 4
    activation: int = 4
    wide: int = 4
    autocast: bool = False


_PRECISIONS = {
    "fp32": Precision(),
    "float32": Precision(),
    "tf32": Precision(),
    "32": Precision(),
    "amp": Precision(4, 2, 4, True),
    "mixed": Precision(4, 2, 4, True),
    "fp16": Precision(2, 2, 2),
    "bf16": Precision(2, 2, 2),
    "float16": Precision(2, 2, 2),
    "bfloat16": Precision(2, 2, 2),
    "half": Precision(2, 2, 2),
}


def precision(name: str | None) -> Precision | None:
    """Return a precision by its name, in any case; without a name 32 bits. None: unknown."""
    return _PRECISIONS.get((name or "fp32").casefold().replace("-", "").replace("_", ""))
