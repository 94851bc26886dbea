"""Libraries that train, but cannot be traced: such a program gets no answer, and the reason.

Importing one is no use of it: programs of JAX load their data with TensorFlow. So the refusal
comes with the first step.
"""

from __future__ import annotations

import os
from typing import Any

import documents
import lines

_TENSORFLOW, _PADDLE, _MXNET = "TensorFlow", "PaddlePaddle", "MXNet"
TRAINING = {
    "tensorflow.python.eager.backprop": {"GradientTape.__enter__": _TENSORFLOW},
    "tensorflow.python.client.session": {"BaseSession.run": _TENSORFLOW},
    "keras.src.backend.tensorflow.trainer": {"TensorFlowTrainer.fit": _TENSORFLOW},
    "keras.src.engine.training": {"Model.fit": _TENSORFLOW},
    "keras.engine.training": {"Model.fit": _TENSORFLOW},
    "paddle.optimizer.optimizer": {"Optimizer.step": _PADDLE},
    "mxnet.autograd": {"record": _MXNET},
}
"""The functions that train, by the module that has them, with the library's name."""


def begin(imports: Any, program: Any) -> None:
    if program.launcher:
        return
    for module, functions in TRAINING.items():
        imports.after(
            module, lambda found, functions=functions: _replace(found, functions, program)
        )


def _replace(module: Any, functions: dict[str, str], program: Any) -> None:
    for path, library in functions.items():
        holder, _, last = path.rpartition(".")
        owner = getattr(module, holder, None) if holder else module
        if hasattr(owner, last):
            setattr(owner, last, _refusal(program.name, library))


def _refusal(program: str, library: str) -> Any:
    def refuse(*_: Any, **__: Any) -> None:
        cause = f"trains with {library}, which cannot be traced,"
        documents.end(
            os.environ["RADRM_TRACE_FOLDER"], documents.error(program, cause, lines.here())
        )

    return refuse
