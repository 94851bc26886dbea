"""PyTorch's CUDA caching allocator: what a sequence of requests reserves.

The rules are those of `c10/cuda/CUDACachingAllocator.cpp` with its default settings:

- A request is rounded up to 512 bytes.
- Up to 1 MiB it comes from a segment of 2 MiB, below 10 MiB from one of 20 MiB. A larger one
  has its own segment, rounded up to 2 MiB. Small and large blocks never share a segment.
- The smallest sufficient free block is taken; among equals, the one with the lowest address.
  The rest becomes a free block if it has 512 bytes (small) or more than 1 MiB (large).
- A freed block merges with its free neighbours in the segment. Segments are kept.

There is one stream, and nothing here knows of tensors.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field

MIN_BLOCK = 512
SMALL_REQUEST = 1 << 20
SMALL_SEGMENT = 2 << 20
LARGE_SEGMENT = 20 << 20
MIN_OWN_SEGMENT = 10 << 20
OWN_SEGMENT_ROUND = 2 << 20


class OutOfDeviceMemory(MemoryError):
    """There is no room for a request, even after all unused segments were released."""


@dataclass(slots=True, eq=False)
class _Block:
    address: int
    size: int
    small: bool
    free: bool = False
    before: _Block | None = None
    after: _Block | None = None

    @property
    def whole_segment(self) -> bool:
        return self.before is None and self.after is None


@dataclass(slots=True)
class CachingAllocator:
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
