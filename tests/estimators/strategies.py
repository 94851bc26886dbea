"""What several tests of rules need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch


@contextmanager
def errors_seen(**ratios: tuple[float, ...]) -> Iterator[None]:
    """While it lasts, estimators were off by these ratios where they were measured."""
    with patch("radrm.estimators.learning.learned.ERRORS_SEEN", ratios):
        yield
