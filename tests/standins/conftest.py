"""Fixtures for tests of the stand-ins."""

from __future__ import annotations

import pynvml
import pytest

from tests.standins.nvml_library import H100, Nvml


@pytest.fixture
def gpu(nvml: Nvml) -> str:
    """One H100, and `pynvml` ready to be asked."""
    uuid = nvml.gpu(model=H100)
    pynvml.nvmlInit()
    return uuid
