"""The caching allocator by hand, and what holds for any sequence of requests."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.estimators.memory import (
    LARGE_SEGMENT,
    SMALL_SEGMENT,
    CachingAllocator,
    OutOfDeviceMemory,
    rounded,
    segment_size,
)

MIB = 1 << 20


def test_requests_are_rounded_to_blocks() -> None:
    assert [rounded(n) for n in (0, 1, 512, 513)] == [512, 512, 512, 1024]


@pytest.mark.parametrize(
    ("size", "segment"),
    [
        (512, SMALL_SEGMENT),
        (MIB, SMALL_SEGMENT),
        (MIB + 512, LARGE_SEGMENT),
        (10 * MIB - 512, LARGE_SEGMENT),
        (10 * MIB, 10 * MIB),
        (11 * MIB, 12 * MIB),
    ],
)
def test_segments(size: int, segment: int) -> None:
    memory = CachingAllocator()
    memory.allocate(size)
    assert segment_size(rounded(size)) == memory.reserved == segment


def test_a_freed_block_is_taken_again_and_its_rest_cut_off() -> None:
    memory = CachingAllocator()
    first = memory.allocate(40 * MIB)
    memory.free(first)
    assert memory.allocate(12 * MIB) == first
    memory.allocate(28 * MIB)
    assert memory.reserved == 40 * MIB == memory.allocated


def test_a_rest_of_a_mebibyte_is_not_cut_off() -> None:
    memory = CachingAllocator()
    memory.free(memory.allocate(12 * MIB))
    memory.allocate(11 * MIB)
    assert memory.allocated == 12 * MIB


def test_the_smallest_block_that_fits_is_taken() -> None:
    memory = CachingAllocator()
    addresses = [memory.allocate(size * MIB) for size in (30, 20, 40)]
    for address in addresses:
        memory.free(address)
    assert memory.allocate(19 * MIB) == addresses[1]


def test_neighbours_join() -> None:
    memory = CachingAllocator()
    whole = memory.allocate(60 * MIB)
    memory.free(whole)
    parts = [memory.allocate(20 * MIB) for _ in range(3)]
    for part in (parts[0], parts[2], parts[1]):
        memory.free(part)
    assert memory.allocate(60 * MIB) == whole
    assert memory.reserved == 60 * MIB


def test_small_and_large_never_mix() -> None:
    memory = CachingAllocator()
    memory.free(memory.allocate(30 * MIB))
    memory.allocate(512)
    assert memory.reserved == 32 * MIB


def test_a_full_device_gives_its_cache_back_first() -> None:
    memory = CachingAllocator(capacity=100 * MIB)
    memory.free(memory.allocate(60 * MIB))
    memory.allocate(90 * MIB)
    assert memory.reserved == 90 * MIB
    with pytest.raises(OutOfDeviceMemory):
        memory.allocate(20 * MIB)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 64 * MIB)), max_size=200))
def test_any_sequence(requests: list[tuple[bool, int]]) -> None:
    memory, live = CachingAllocator(), {}
    for give_back, size in requests:
        if give_back and live:
            memory.free(live.popitem()[0])
        else:
            address = memory.allocate(size)
            assert address not in live
            live[address] = size
        spans = sorted((a, a + n) for a, n in live.items())
        assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))
        assert sum(live.values()) <= memory.allocated <= memory.reserved
        assert memory.reserved == memory.peak_reserved
    for address in live:
        memory.free(address)
    assert memory.allocated == 0
    memory.empty_cache()
    assert memory.reserved == 0
