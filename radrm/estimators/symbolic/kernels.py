"""The inputs that fit a convolution's parameters and shapes, and its workspace."""

from __future__ import annotations

import math
from functools import lru_cache

from msgspec import Struct

from radrm.estimators.memory import Overheads

Shape = tuple[int, ...]

# The memory that cuDNN borrows while a convolution runs, as a multiple of the bytes that it reads
# and writes. A 1 x 1 kernel needs copies with the channels last; larger kernels also transform
# them (Winograd). Fitted on the published jobs (docs/summaries.md).
POINTWISE_WORKSPACE = 1.0
SPATIAL_WORKSPACE = 3.0


class Fit(Struct, frozen=True):
    """How well an input fits: from 4 (well) to 1 (only with rare groups), 0 for not at all."""

    score: int
    area: int = 1
    """Elements of the kernel per pair of channels."""
    groups: int = 1


NO_FIT = Fit(0)


@lru_cache(maxsize=4096)
def convolution_fit(
    channels: int, outputs: int, parameters: int, dimensions: int, with_bias: bool
) -> Fit:
    """Return how well a convolution from `channels` to `outputs` fits this number of parameters."""
    weights = parameters - outputs if with_bias else parameters
    if channels <= 0 or outputs <= 0 or weights <= 0 or weights % outputs:
        return NO_FIT
    per_output = weights // outputs
    if per_output % channels == 0:
        area = per_output // channels
        if _regular(area, dimensions):
            return Fit(4 if area % 2 else 3, area)
        if area in (2, 3, 5, 7, 11, 13, 15, 21, 35) and dimensions == 2:
            return Fit(2, area)
    if outputs % channels == 0 and per_output > 1 and _odd(per_output, dimensions):
        return Fit(4, per_output, channels)
    # Groups: 32 of them (ResNeXt), or a fixed number of channels in each (RegNet).
    for area in (9, 25, 49, 1):
        if dimensions == 2 and per_output % area == 0:
            width = per_output // area
            if width < channels and channels % width == 0 and outputs % (channels // width) == 0:
                return Fit(2 if area == 9 else 1, area, channels // width)
    return NO_FIT


def _regular(area: int, dimensions: int) -> bool:
    """Return whether this number of elements makes a square kernel of a usual size."""
    if dimensions <= 1:
        return 1 <= area <= 4096
    if dimensions == 3:
        return area in (1, 8, 27, 125, 343)
    side = math.isqrt(area)
    return side * side == area and (side % 2 == 1 or side in (2, 4, 8, 14, 16, 32)) and side <= 64


def _odd(area: int, dimensions: int) -> bool:
    """Return whether the kernel has a middle, as the kernels of depthwise convolutions have."""
    return area % 2 == 1 and _regular(area, dimensions)


def borrowed_bytes(read: int, made: int, area: int, on: Overheads) -> int:
    """Return the workspace of one pass of a convolution that is not depthwise."""
    if not on.tensor_cores:
        return 0
    times = POINTWISE_WORKSPACE if area == 1 else SPATIAL_WORKSPACE
    return int(times * (read + made))
