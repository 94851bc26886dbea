"""What a trace cannot follow: such a program gets no answer, and the reason by name.

Importing a library is no use of it: many programs look whether one is there. So the refusal
comes with the first call.
"""

from __future__ import annotations

import re
import sys
from typing import Any

import lines

FSDP, DEEPSPEED = "FSDP", "DeepSpeed"
_FLASH, _QUANTISED, _APEX = "flash_attn's CUDA kernels", "quantised weights", "apex's CUDA kernels"

_GRAPHS = dict.fromkeys(("CUDAGraph", "graph", "make_graphed_callables"), "CUDA graphs")
"""Their memory is a pool of its own, beside that of the steps before."""

REFUSED = {
    "torch.cuda": _GRAPHS,
    "torch.cuda.graphs": _GRAPHS,
    "torch.distributed.fsdp": {
        "FullyShardedDataParallel.__init__": FSDP, "fully_shard": FSDP,
    },
    "torch.distributed._composable.fsdp": {"fully_shard": FSDP},
    "torch.distributed.tensor.parallel": {"parallelize_module": "tensor parallelism"},
    "torch.distributed.tensor": {
        "distribute_tensor": "tensor parallelism", "distribute_module": "tensor parallelism",
    },
    "torch.distributed.pipelining": {
        "pipeline": "pipeline parallelism", "PipelineStage.__init__": "pipeline parallelism",
    },
    "torch.distributed.optim": {"ZeroRedundancyOptimizer.__init__": "ZeroRedundancyOptimizer"},
    "torch.utils.cpp_extension": {
        "load": "a CUDA extension of its own", "load_inline": "a CUDA extension of its own",
    },
    "torch.nn.attention.flex_attention": {"flex_attention": "flex_attention"},
    "triton.runtime.jit": {"JITFunction.run": "a Triton kernel"},
    "deepspeed": {"initialize": DEEPSPEED, "init_inference": DEEPSPEED},
    "fairscale.nn.data_parallel": {"FullyShardedDataParallel.__init__": FSDP},
    "colossalai": {"launch": "ColossalAI", "launch_from_torch": "ColossalAI"},
    "megatron.core.parallel_state": {"initialize_model_parallel": "Megatron"},
    "horovod.torch": {"init": "Horovod"},
    "flash_attn": {
        "flash_attn_func": _FLASH, "flash_attn_varlen_func": _FLASH,
        "flash_attn_qkvpacked_func": _FLASH, "flash_attn_kvpacked_func": _FLASH,
    },
    "flash_attn.flash_attn_interface": {
        "flash_attn_func": _FLASH, "flash_attn_varlen_func": _FLASH,
        "flash_attn_qkvpacked_func": _FLASH, "flash_attn_varlen_qkvpacked_func": _FLASH,
    },
    "xformers.ops": {"memory_efficient_attention": "xformers' CUDA kernels"},
    "bitsandbytes.nn": {
        "Linear8bitLt.__init__": _QUANTISED, "Linear4bit.__init__": _QUANTISED,
    },
    "bitsandbytes.optim.optimizer": {"Optimizer8bit.__init__": "bitsandbytes' optimizers"},
    "torchao.quantization": {"quantize_": _QUANTISED},
    "torchao.float8": {"convert_to_float8_training": "8-bit floats"},
    "transformer_engine.pytorch": {
        "Linear.__init__": "Transformer Engine", "fp8_autocast": "Transformer Engine",
    },
    "apex.amp": {"initialize": "apex.amp"},
    "apex.optimizers": {
        "FusedAdam.__init__": _APEX, "FusedLAMB.__init__": _APEX, "FusedSGD.__init__": _APEX,
    },
    "apex.normalization": {"FusedLayerNorm.__init__": _APEX, "FusedRMSNorm.__init__": _APEX},
    "amp_C": {},
    "cupy": {"array": "CuPy", "zeros": "CuPy", "asarray": "CuPy"},
    "numba.cuda": {"jit": "a CUDA kernel of Numba"},
}  # fmt: skip
"""The functions that are refused, by the module that has them, with their name for the user."""


_MAY_CAPTURE = re.compile(rb"CUDAGraph\(|cuda\.graph\(|make_graphed_callables\(")
_MOST_TEXT = 1 << 20
CAPTURED = 12
"""Steps until a program that may capture a graph would have begun with it."""


def _may_capture() -> bool:
    try:
        with open(sys.modules["__main__"].__file__ or "", "rb") as file:
            return _MAY_CAPTURE.search(file.read(_MOST_TEXT)) is not None
    except (OSError, KeyError, AttributeError, TypeError):
        return False


def begin(script: Any) -> None:
    if _may_capture():
        script.steps.least = CAPTURED
    for module, functions in REFUSED.items():
        script.imports.after(
            module, lambda found, functions=functions: _refuse(script, found, functions)
        )


def _refuse(script: Any, module: Any, functions: dict[str, str]) -> None:
    for path, name in functions.items():
        holder, _, last = path.rpartition(".")
        owner = getattr(module, holder, None) if holder else module
        there = getattr(owner, last, None)
        refused = _refused(script, name)
        if isinstance(there, type):  # it stays a class, for annotations
            setattr(owner, last, type(last, (), {"__init__": refused}))
        elif there is not None:
            setattr(owner, last, refused)


def _refused(script: Any, name: str) -> Any:
    def refuse(*_: Any, **__: Any) -> None:
        script.fail(f"uses {name}, which cannot be traced,", lines.here())

    return refuse
