"""The table of `make mutants` fits the code: each defect can still be made, and is one.

Apart from the tests that notice mutants, for this would notice every one.
"""

from __future__ import annotations

import pytest

from tools.defects.mutant import Mutant
from tools.mutants import MUTANTS, ROOT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_old_text_stands_once_in_its_file(mutant: Mutant) -> None:
    text = (ROOT / "radrm" / "core" / mutant.file).read_text()
    assert text.count(mutant.old) == 1, "the rule has moved: move its row in tools/defects/"
    compile(text.replace(mutant.old, mutant.new), mutant.file, "exec")


def test_names_are_different() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
