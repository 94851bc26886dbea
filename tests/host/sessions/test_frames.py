"""Frames: what is cut anywhere comes out whole, and what is no frame is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.host.sessions import SIZE, Frames, frame, size_frame, size_of

FRAMES = st.lists(st.tuples(st.sampled_from([1, 2, 3]), st.binary(max_size=300)), max_size=8)


@given(FRAMES, st.data())
def test_frames_survive_any_cuts(frames: list[tuple[int, bytes]], data: st.DataObject) -> None:
    stream = b"".join(frame(kind, content) for kind, content in frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    reader = Frames()
    assert [found for piece in pieces for found in reader.feed(piece)] == frames


@pytest.mark.parametrize("data", [b"\x00\x00\x00", b"\x04\x00\x00", b"\x01\xff\xff"])
def test_what_is_no_frame_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        Frames().feed(data)


def test_a_size_comes_back_and_another_length_is_none() -> None:
    ((kind, content),) = Frames().feed(size_frame(24, 80))
    assert (kind, size_of(content)) == (SIZE, (24, 80))
    assert size_of(Frames().feed(size_frame(10**6, 1))[0][1]) == (65535, 1)
    with pytest.raises(ValueError):
        size_of(b"123")
