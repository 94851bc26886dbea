"""How PyTorch uses a GPU's memory, in figures and without PyTorch."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from enum import Enum

from msgspec import Struct, field

# ------------------------------------------------------------------
# PyTorch's CUDA caching allocator: what a sequence of requests reserves.
#
# The rules are those of `c10/cuda/CUDACachingAllocator.cpp` with its default settings:
#
# - A request is rounded up to 512 bytes.
# - Up to 1 MiB it comes from a segment of 2 MiB, below 10 MiB from one of 20 MiB. A larger one
#   has its own segment, rounded up to 2 MiB. Small and large blocks never share a segment.
# - The smallest sufficient free block is taken; among equals, the one with the lowest address.
#   The rest becomes a free block if it has 512 bytes (small) or more than 1 MiB (large).
# - A freed block merges with its free neighbours in the segment. Segments are kept.
#
# There is one stream, and nothing here knows of tensors.


MIN_BLOCK = 512
SMALL_REQUEST = 1 << 20
SMALL_SEGMENT = 2 << 20
LARGE_SEGMENT = 20 << 20
MIN_OWN_SEGMENT = 10 << 20
OWN_SEGMENT_ROUND = 2 << 20


class OutOfDeviceMemory(MemoryError):
    """There is no room for a request, even after all unused segments were released."""


class _Block(Struct, eq=False):
    address: int
    size: int
    small: bool
    free: bool = False
    before: _Block | None = None
    after: _Block | None = None

    @property
    def whole_segment(self) -> bool:
        return self.before is None and self.after is None


class CachingAllocator(Struct):
    """`allocated` are the bytes of blocks in use, `reserved` those of segments; both have peaks.

    `capacity` is the most that segments may take, None for no limit.
    """

    capacity: int | None = None
    allocated: int = 0
    reserved: int = 0
    peak_allocated: int = 0
    peak_reserved: int = 0
    _next_address: int = 0
    _in_use: dict[int, _Block] = field(default_factory=dict)
    _free: dict[bool, list[tuple[int, int, _Block]]] = field(
        default_factory=lambda: {True: [], False: []}
    )
    """Per pool (small or not): (size, address, block), sorted."""

    def allocate(self, size: int) -> int:
        """Return the address of a block of `size` bytes.

        Raises `OutOfDeviceMemory`; then only unused segments were released.
        """
        size = rounded(size)
        small = size <= SMALL_REQUEST
        block = self._take(size, small) or self._new_segment(size, small)
        self._split(block, size)
        self._in_use[block.address] = block
        self.allocated += block.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        return block.address

    def free(self, address: int) -> None:
        """Return a block to the cache. Raises KeyError for an address that is not in use."""
        block = self._in_use.pop(address)
        self.allocated -= block.size
        block = self._joined(block)
        block.free = True
        insort(self._free[block.small], (block.size, block.address, block))

    def empty_cache(self) -> None:
        """Release every unused segment to the device (`torch.cuda.empty_cache`)."""
        for small, blocks in self._free.items():
            for _, _, block in blocks:
                if block.whole_segment:
                    self.reserved -= block.size
            self._free[small] = [each for each in blocks if not each[2].whole_segment]

    def reset_allocated_peak(self) -> None:
        """Reset the peak of allocated bytes only."""
        self.peak_allocated = self.allocated

    def _take(self, size: int, small: bool) -> _Block | None:
        blocks = self._free[small]
        at = bisect_left(blocks, (size,))
        if at == len(blocks):
            return None
        block = blocks.pop(at)[2]
        block.free = False
        return block

    def _new_segment(self, size: int, small: bool) -> _Block:
        segment = segment_size(size)
        if self.capacity is not None and self.reserved + segment > self.capacity:
            self.empty_cache()
            if self.reserved + segment > self.capacity:
                raise OutOfDeviceMemory(f"no room for {size} bytes")
        address = self._next_address
        self._next_address += segment
        self.reserved += segment
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        return _Block(address, segment, small)

    def _split(self, block: _Block, size: int) -> None:
        rest = block.size - size
        if rest < MIN_BLOCK if block.small else rest <= SMALL_REQUEST:
            return
        remaining = _Block(block.address + size, rest, block.small, True, block, block.after)
        if block.after is not None:
            block.after.before = remaining
        block.after = remaining
        block.size = size
        insort(self._free[block.small], (rest, remaining.address, remaining))

    def _joined(self, block: _Block) -> _Block:
        """Merge a block with its free neighbours and return the result."""
        if block.after is not None and block.after.free:
            self._forget(block.after)
            self._absorb(block, block.after)
        if block.before is not None and block.before.free:
            before = block.before
            self._forget(before)
            self._absorb(before, block)
            return before
        return block

    def _forget(self, block: _Block) -> None:
        blocks = self._free[block.small]
        blocks.pop(bisect_left(blocks, (block.size, block.address)))
        block.free = False

    @staticmethod
    def _absorb(block: _Block, after: _Block) -> None:
        block.size += after.size
        block.after = after.after
        if after.after is not None:
            after.after.before = block


def rounded(size: int) -> int:
    """Return the bytes that a request takes: at least one block."""
    return max(-(-size // MIN_BLOCK) * MIN_BLOCK, MIN_BLOCK)


def segment_size(size: int) -> int:
    """Return the size of a new segment for a rounded request."""
    if size <= SMALL_REQUEST:
        return SMALL_SEGMENT
    if size < MIN_OWN_SEGMENT:
        return LARGE_SEGMENT
    return -(-size // OWN_SEGMENT_ROUND) * OWN_SEGMENT_ROUND


# ------------------------------------------------------------------
# The memory of a training process on a GPU without its tensors: context and workspaces.
#
# The figures are by kind of GPU. A kind is the driver's name for it, such as
# `NVIDIA A100-SXM4-40GB`. None or an unknown name counts as an A100, for which the figures
# were fitted (docs/tracing.md names the measurements). The context also depends on the driver
# and on PyTorch's build, so a measurement on the machine is better.


CONTEXT_MIB = 1716.0
"""All kernels loaded at once: A100, driver of CUDA 12.2, PyTorch 2.4. Fitted on published jobs that
need almost nothing else."""

CUDNN_MIB = 277.0
"""The memory that cuDNN's kernels add once a convolution has loaded them, on the same GPUs."""

LAZY_CONTEXT_MIB = 430.0
"""A bare context where each kernel is loaded when it is needed. PyTorch's issues 107667 and 109888
name 300 to 400 MiB, newer reports 426 MiB (PyTorch 2.10, CUDA 13.0)."""

LAZY_KERNELS_MIB = 94.0
"""What the kernels of a training step then add: contexts of 524 MiB were measured with CUDA 12."""

GROWTH = 0.02
"""The growth of long runs after two steps, as a share of the allocated peak: kernels that are
loaded late, batches that are prepared ahead, fragments. Fitted."""


class Overheads(Struct, frozen=True):
    """The figures of one kind of GPU.

    `context_mib` is the CUDA context with PyTorch's kernels, cuBLAS and cuDNN, as `nvidia-smi`
    shows it. `cublas_bytes` is what PyTorch allocates for each cuBLAS handle; the threads of
    the forward and of the backward pass have one each. `cublaslt_bytes` is the workspace of a
    matrix product with a bias, while it runs. `tensor_cores` says whether convolutions in
    32-bit floats use TF32 kernels, whose workspaces are known.
    """

    context_mib: float = CONTEXT_MIB
    cublas_bytes: int = 2 * (4096 << 10) + 8 * (16 << 10)
    cublaslt_bytes: int = 1 << 20
    tensor_cores: bool = True


_HOPPER = Overheads(cublas_bytes=32 << 20, cublaslt_bytes=32 << 20)
_BEFORE_AMPERE = Overheads(tensor_cores=False)
_KINDS = (
    *((mark, _HOPPER) for mark in ("H100", "H200", "H800", "H20", "GH200")),
    *((mark, _BEFORE_AMPERE) for mark in ("V100", "P100", "TESLA T4", "RTX 20", "TITAN")),
)


def overheads(device_kind: str | None = None) -> Overheads:
    """Return the figures for a GPU of this name."""
    words = (device_kind or "").upper()[:200]
    return next((found for mark, found in _KINDS if mark in words), Overheads())


def context_mib(device_kind: str | None = None) -> float:
    """Return the MiB that a process takes on such a GPU before its first tensor."""
    return overheads(device_kind).context_mib


# ------------------------------------------------------------------
# CuDNN's workspaces: the memory that one convolution borrows while it runs.
#
# With `torch.backends.cudnn.benchmark` off, PyTorch takes the first plan of cuDNN's heuristics
# and allocates that plan's workspace. With `benchmark` on, any plan can win, and a run can take
# several times more. Before a convolution's first call PyTorch then takes the largest workspace of
# all plans that the free memory allows, and tries some (`aten/src/ATen/native/cudnn/Conv_v8.cpp`,
# generate_and_filter_plans). The largest is that of the Fourier transforms, often many times what
# the step needs.
#
# Which layers use Winograd kernels, and the two factors below, are fitted on measurements
# (docs/tracing.md). The size of Winograd's transforms follows from the algorithm.


WINOGRAD_TILE = 4
"""F(4x4, 3x3): a tile of 4 x 4 outputs needs 6 x 6 transformed values (Lavin and Gray,
"Fast Algorithms for Convolutional Neural Networks", CVPR 2016, section 4)."""
_COMPLEX_BYTES = 8
GROUPED = 2.5
OTHER = 1.0
"""Multiples of input and output, for grouped convolutions and for kernels larger than 1 x 1."""


class Pass(str, Enum):
    """A convolution computes its output, or the gradient of its input or weights."""

    FORWARD = "forward"
    DATA = "data"
    WEIGHT = "weight"


class Convolution(Struct, frozen=True):
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


FFT_STRIDE, FFT_LARGEST = 2, 256
"""The largest stride seen, and the largest side of a map that cuDNN transforms at once (its guide,
CUDNN_CONVOLUTION_FWD_ALGO_FFT)."""
TRIED = 4.0
"""Trials of less than this multiple of an estimate are not reserved: they take milliseconds, cuDNN
tries no plan that the free memory does not allow, and of 2,362 runs of TIMM's models at least 2.5%
were measured in one. Larger ones leave nothing of a GPU to the jobs beside them."""
MEASURED_SPREAD, MEASURED_MAPS = 1.03, 2.9
"""With `cudnn.benchmark` the fastest plan can have a workspace of its own: 95% of jobs need at most
the first multiple of the estimate, and the second of the largest convolution's input and output.
Fitted on 79 jobs of TIMM's CNNs (as in `benchmarks.estimates.errors_seen`)."""


def trial_bytes(layer: Convolution) -> int:
    """Return the workspace of cuDNN's FFT plan, in bytes; 0 if the convolution has no such plan.

    Each map is a square whose side is a power of two, of which half is kept, as complex numbers.
    Transformed are the input, the output, and the weights, these twice. So it is in measurements of
    models whose other memory is small beside it (docs/tracing.md). None had half precision, and
    none shows such a plan for the convolution that cuts an image into patches.
    """
    if layer.element_bytes != 4 or layer.channels_last or layer.depthwise or len(layer.inputs) != 2:
        return 0
    if max(layer.stride) > FFT_STRIDE:
        return 0
    sides = zip(layer.outputs, layer.stride, layer.kernel, strict=True)
    padded = ((out - 1) * step + kernel for out, step, kernel in sides)
    side = 1 << (max(*padded, *layer.inputs) - 1).bit_length()
    if side > FFT_LARGEST:
        return 0
    channels = layer.in_channels + layer.out_channels
    weights = layer.in_channels // layer.groups * layer.out_channels
    return (2 * weights + layer.batch * channels) * side * (side // 2 + 1) * _COMPLEX_BYTES


def _winograd_bytes(layer: Convolution, which: Pass) -> int:
    """Return the size of the unfused kernel's transformed input and output."""
    written = layer.inputs if which is Pass.DATA else layer.outputs
    tiles = math.prod(-(-size // WINOGRAD_TILE) for size in written)
    values = (WINOGRAD_TILE + layer.kernel[0] - 1) ** 2
    channels = layer.in_channels + layer.out_channels
    return values * layer.batch * tiles * channels * layer.element_bytes
