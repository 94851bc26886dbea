"""Options that `simulate`, `compare` and `replay` share."""

from __future__ import annotations

import pytest

from radrm.config import Config
from radrm.lab.experiments.simulations.variants import Choices, make_variant, your_daemon
from radrm.lab.show.simulations import others_line, setting_line
from radrm.lab.simulator.scenario import Known


@pytest.mark.parametrize("name", Known.__struct_fields__)
def test_the_first_line_names_all_that_is_known(name: str) -> None:
    base = Config()
    yours = your_daemon(base, "auto", Choices())
    known = make_variant(base, base.policy, "auto", Choices(known=[f"{name}=0.2"]))
    line = setting_line(known, yours)
    assert line.startswith("Not as configured here") and "within 20%" in line
    assert setting_line(yours, yours).endswith("nothing declared")


def test_a_comparison_says_that_its_other_rows_share_in_another_way() -> None:
    base, chosen = Config(), Choices(collocation="mps")
    yours = your_daemon(base, "auto", chosen)
    under_mps = make_variant(base, "magm", "auto", chosen)
    assert others_line([yours, under_mps]) == "The other rows: MPS"
    assert others_line([yours, make_variant(base, "magm", "auto", Choices())]) is None
