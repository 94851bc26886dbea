"""cuDNN's workspaces: the memory that one convolution borrows while it runs.

With `torch.backends.cudnn.benchmark` off, PyTorch takes the first plan of cuDNN's heuristics
and allocates that plan's workspace. With `benchmark` on, any plan can win, and a run can take
several times more.

Which layers use Winograd kernels, and the two factors below, are fitted on measurements
(docs/tracing.md). The size of Winograd's transforms follows from the algorithm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from radrm.estimators.memory.overheads import Overheads

WINOGRAD_TILE = 4
"""F(4x4, 3x3): a tile of 4 x 4 outputs needs 6 x 6 transformed values (Lavin and Gray,
"Fast Algorithms for Convolutional Neural Networks", CVPR 2016, section 4)."""
GROUPED = 2.5
OTHER = 1.0
"""Multiples of input and output, for grouped convolutions and for kernels larger than 1 x 1."""


class Pass(str, Enum):
    """A convolution computes its output, or the gradient of its input or weights."""

    FORWARD = "forward"
    DATA = "data"
    WEIGHT = "weight"


@dataclass(frozen=True, slots=True)
class Convolution:
    """One convolution. Spatial sizes have one to three dimensions."""

    batch: int
    in_channels: int
    out_channels: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...] = (1, 1)
    groups: int = 1
    element_bytes: int = 4
    channels_last: bool = False

    @property
    def input_bytes(self) -> int:
        return self.batch * self.in_channels * math.prod(self.inputs) * self.element_bytes

    @property
    def output_bytes(self) -> int:
        return self.batch * self.out_channels * math.prod(self.outputs) * self.element_bytes

    @property
    def weight_bytes(self) -> int:
        per_output = self.in_channels // self.groups * math.prod(self.kernel)
        return self.out_channels * per_output * self.element_bytes

    @property
    def depthwise(self) -> bool:
        return self.groups > 1 and self.groups == self.in_channels


def workspace_bytes(layer: Convolution, which: Pass, on: Overheads) -> int:
    """Return the bytes that the likely kernel borrows; 0: none.

    As far as known, none are needed with the channels last, for a depthwise convolution
    (PyTorch has its own kernel), or for a 1 x 1 kernel.
    """
    if layer.channels_last or layer.depthwise or not on.tensor_cores:
        return 0
    both = layer.input_bytes + layer.output_bytes
    if layer.groups > 1:
        return int(GROUPED * both)
    if layer.kernel == (3, 3) and layer.stride == (1, 1):
        return _winograd_bytes(layer, which)
    return int(OTHER * both) if math.prod(layer.kernel) > 1 else 0


def _winograd_bytes(layer: Convolution, which: Pass) -> int:
    """Return the size of the unfused kernel's transformed input and output."""
    written = layer.inputs if which is Pass.DATA else layer.outputs
    tiles = math.prod(-(-size // WINOGRAD_TILE) for size in written)
    values = (WINOGRAD_TILE + layer.kernel[0] - 1) ** 2
    channels = layer.in_channels + layer.out_channels
    return values * layer.batch * tiles * channels * layer.element_bytes
