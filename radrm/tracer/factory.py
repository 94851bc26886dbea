"""Find the user's function, and read what it returns."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from problem import Problem, in_one_line

_NAMES = ("model", "inputs", "targets", "loss", "optimizer")


@dataclass
class Made:
    """The result of a factory. If `step` is set, it is a whole training step and all else None."""

    model: torch.nn.Module | None = None
    inputs: Any = None
    targets: Any = None
    loss: Callable[..., Any] | None = None
    optimizer: Any = None
    step: Callable[[], Any] | None = None


def found(name: str) -> Callable[..., Any]:
    """Return the function that `MODULE:FUNCTION` names. Raises `Problem`."""
    module_name, colon, function_name = name.partition(":")
    if not colon or not module_name or not function_name:
        raise Problem(f"{name!r} is not MODULE:FUNCTION; write it as in train:make_model")
    sys.path[0] = os.getcwd()
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name == module_name.partition(".")[0]:
            raise Problem(
                f"there is no module {module_name!r} in {os.getcwd()} or this Python; "
                "start from the module's directory"
            ) from None
        raise Problem(f"importing {module_name} failed: {in_one_line(error)}") from None
    except Exception as error:
        raise Problem(f"importing {module_name} failed: {in_one_line(error)}") from None
    function: Any = module
    for part in function_name.split("."):
        function = getattr(function, part, None)
        if function is None:
            raise Problem(f"the module {module_name} has no {function_name!r}; correct the name")
    if not callable(function):
        raise Problem(f"{name} cannot be called; it is of type {type(function).__name__}")
    return function  # type: ignore[no-any-return]


def read(made: Any, name: str) -> Made:
    """Read what the function `name` has returned. Raises `Problem`."""
    if isinstance(made, Made):
        return made
    if isinstance(made, torch.nn.Module):
        return Made(model=made)
    if isinstance(made, tuple):
        return _of_tuple(made, name)
    if isinstance(made, dict):
        parts = {key: made[key] for key in _NAMES if key in made}
    elif made is not None and isinstance(getattr(made, "model", None), torch.nn.Module):
        parts = {key: getattr(made, key) for key in _NAMES if hasattr(made, key)}
    elif callable(made):
        return Made(step=made)
    else:
        raise Problem(
            f"{name} returned {type(made).__name__}; it must return a model, "
            "(model, inputs), (model, inputs, targets) or a training step"
        )
    if not isinstance(parts.get("model"), torch.nn.Module):
        raise Problem(f"{name} returned no torch.nn.Module under the name 'model'")
    return Made(**parts)


def _of_tuple(made: tuple[Any, ...], name: str) -> Made:
    if not 2 <= len(made) <= 4 or not isinstance(made[0], torch.nn.Module):
        raise Problem(
            f"{name} returned a tuple of {len(made)}; it must be (model, inputs), "
            "(model, inputs, targets) or (model, inputs, targets, loss)"
        )
    result = Made(model=made[0], inputs=made[1])
    for each in made[2:]:
        if callable(each) and not isinstance(each, torch.Tensor):
            result.loss = each
        else:
            result.targets = each
    return result
