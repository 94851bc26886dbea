"""Whatever the text, one summary or one clear line."""

from __future__ import annotations

from pathlib import Path

import pytest

from radrm.errors import RadrmError
from radrm.estimators.summaries.read import read_summary
from radrm.estimators.summaries.text import MAX_CHARS, BadSummary
from tests.paths import SHARED_DATA

MODELS = sorted((SHARED_DATA / "jobs").glob("*.model"))


@pytest.mark.parametrize("text", ["", "\n" * 1000, "Total params: 5", "{}", "Layer", "Net()"])
def test_without_a_summary_it_says_what_to_give(text: str) -> None:
    with pytest.raises(BadSummary, match="there is no model summary in the text; save the output"):
        read_summary(text)
    assert issubclass(BadSummary, RadrmError)


@pytest.mark.parametrize("text", ["x" * (50 << 20), "x\n" * (MAX_CHARS // 2 + 1)])
def test_a_text_that_is_too_long_is_refused_unread(text: str) -> None:
    with pytest.raises(BadSummary, match="is too long"):
        read_summary(text)


@pytest.mark.skipif(not MODELS, reason="the published summaries are not here")
@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.name)
def test_every_published_summary_is_read_whole(path: Path) -> None:
    text = path.read_text()
    found = read_summary(text)
    assert found.complete
    assert all("the printed total is" in problem for problem in found.problems)
    assert read_summary(text.upper()).parameters == found.parameters
    assert read_summary(text.lower()).parameters == found.parameters
    assert len(read_summary(text, 5).layers) == len(found.layers)
