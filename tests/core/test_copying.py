"""A changed copy of a record is what `dataclasses.replace` makes."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from radrm.core.records import Instant, Refusal, Usage, changed


@pytest.mark.parametrize(
    ("record", "changes"),
    [
        (Refusal("memory", "too little", None, 2.0), {"device": "a", "needed": None}),
        (Usage("a", peak_mib=3, shared=True), {"peak_mib": 5}),
        (Instant(1.0, 2.0), {}),
    ],
)
def test_it_is_a_record_and_leaves_the_first_alone(record: Any, changes: dict[str, Any]) -> None:
    before = replace(record)
    found = changed(record, **changes)
    assert type(found) is type(record)
    assert found == replace(record, **changes) and hash(found) == hash(replace(record, **changes))
    assert record == before


def test_it_is_frozen_and_knows_its_fields() -> None:
    found = changed(Instant(1.0, 2.0), wall_s=3.0)
    with pytest.raises(FrozenInstanceError):
        found.wall_s = 4.0  # type: ignore[misc]
    with pytest.raises(KeyError):
        changed(found, seconds=1.0)
    assert found == Instant(1.0, 3.0)
