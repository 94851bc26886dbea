"""Weights without data: large parameters are fake from their birth.

A model of 124 million weights then needs no more memory here than a small one. Small parameters
stay real until they are moved to the GPU. Assignments to `weight.data` work for both kinds.
"""

from __future__ import annotations

from typing import Any

import torch
from mixed import ONE_AT_A_TIME, SMALL
from torch._subclasses.fake_tensor import FakeTensor

_torch: Any = torch
"""PyTorch, whose parts are replaced here."""

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def begin(fake: Any) -> None:
    """Let parameters above `SMALL` elements be fake tensors of this mode."""
    parameter: Any = torch.nn.Parameter
    make = parameter.__new__

    def new(cls: Any, data: Any = None, requires_grad: bool = True, *rest: Any) -> Any:
        if type(data) in _PLAIN and data.device.type == "cpu" and data.numel() > SMALL:
            with ONE_AT_A_TIME, fake:
                data = torch.empty_strided(
                    tuple(data.shape), tuple(data.stride()), dtype=data.dtype, device="cpu"
                )
        return make(cls, data, requires_grad, *rest)

    parameter.__new__ = staticmethod(new)
    _data()


def _data() -> None:
    """Let `tensor.data = other` take a tensor of another kind or device."""
    plain: Any = _torch._C.TensorBase.data

    def assign(self: Any, value: Any) -> None:
        if isinstance(self, FakeTensor) and isinstance(value, FakeTensor):
            plain.__set__(self, value)
            self.fake_device = value.fake_device
            self.__dict__.pop("known", None)
            return
        if isinstance(self, FakeTensor) or not isinstance(value, FakeTensor):
            # A fake tensor stays one: the values do not matter.
            if not isinstance(self, FakeTensor):
                plain.__set__(self, value)
            return
        with torch.no_grad():
            new = value.detach()
            new = torch.nn.Parameter(new, self.requires_grad) if _is_weight(self) else new
        torch.utils.swap_tensors(self, new)

    _torch.Tensor.data = property(plain.__get__, assign)


def _is_weight(tensor: Any) -> bool:
    return isinstance(tensor, torch.nn.Parameter)
