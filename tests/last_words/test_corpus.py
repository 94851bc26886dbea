"""How many ends of programs are told apart: true ones of at least 40 programs, and others.

On a first try, with rules made from `OUT_OF_MEMORY` and `OTHER` alone, 54 of the 58 texts of
`HELD_OUT` were found, and 3 of the 70 of `HELD_OUT_OTHER` were false alarms.
"""

from __future__ import annotations

import pytest

from radrm.core.records import Exit
from radrm.oom import classify
from tests.last_words import corpus
from tests.last_words.logs import FAILED

TRUE = {**corpus.OUT_OF_MEMORY, **corpus.HELD_OUT}
OTHER = {**corpus.OTHER, **corpus.HELD_OUT_OTHER}
BEFORE = "epoch 1 loss 0.3\n" * 30


def test_the_corpus_is_large_enough() -> None:
    assert len(TRUE) >= 150 and len(OTHER) >= 280


@pytest.mark.parametrize("exit", [FAILED, Exit(signal=6)], ids=str)
def test_true_texts_are_found(exit: Exit) -> None:
    missed = [name for name, text in TRUE.items() if classify(exit, BEFORE + text) is None]
    assert missed == []


def test_other_failures_are_not() -> None:
    false = {name: classify(FAILED, BEFORE + text) for name, text in OTHER.items()}
    assert {name: found for name, found in false.items() if found is not None} == {}
