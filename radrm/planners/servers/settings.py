"""The ranges of settings."""

from __future__ import annotations


def check_range(rule: object, setting: str, least: float, most: float) -> None:
    """Raise ValueError unless a setting of a rule is from `least` to `most`."""
    value = getattr(rule, setting)
    if not least <= value <= most:
        raise ValueError(f"{setting} = {value:g} is not from {least:g} to {most:g}")
