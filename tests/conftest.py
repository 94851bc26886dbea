"""Fixtures for every folder of tests."""

from __future__ import annotations

from tests.standins.nvml_library import (
    nvml,
    nvml_driver,
    nvml_library,
    old_nvml,
    old_nvml_library,
)

__all__ = ["nvml", "nvml_driver", "nvml_library", "old_nvml", "old_nvml_library"]
