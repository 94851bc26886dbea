"""`--gpu-memory=SIZE:LIMIT`: what it means from each source, and what is wrong with it."""

from __future__ import annotations

import pytest

from radrm.errors import UsageError
from radrm.jobfile.confirmation import understood
from radrm.jobfile.options import BY_NAME
from radrm.jobfile.parsing import typed
from radrm.jobfile.sizes import roles_of

BAD = "is not SIZE:LIMIT, as in 8G:16G, nor a size or auto"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("40G:20G", "reserves more than its limit; write 20G:40G"),
        ("auto:20G", BAD),
        ("20G:auto", BAD),
        ("20G:", BAD),
        (":20G", BAD),
        ("8G:16G:20G", "'16G:20G' is not a size"),
        ("8G-16G", "'8G-16G' is not a size"),
        ("8G:0", "'0'"),
    ],
)
def test_a_wrong_limit_is_one_clear_line(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        BY_NAME["gpu-memory"].value(text, "job.rad, line 2")
    said = str(caught.value)
    assert said.startswith("job.rad, line 2: --gpu-memory: ") and says in said
    assert "\n" not in said


def test_the_first_size_is_the_need_and_the_second_the_limit_of_each_role_with_gpus() -> None:
    options = typed({"gpu-memory": "20G:40G"})
    (role,) = roles_of(options)
    needs = role.needs
    assert (needs.gpu_memory_mib, needs.gpu_memory_max_mib) == (20_480, 40_960)
    assert understood(options, {}) == ", GPU memory 20.0G, limit 40.0G"
    options = typed({"gpu-memory": "8G:9G", "gpus": "0", "role": ["ps:1", "worker:2,gpus=1"]})
    limits = [role.needs.gpu_memory_max_mib for role in roles_of(options)]
    assert limits == [None, 9216]


def test_a_later_size_without_a_limit_replaces_both() -> None:
    first, later = typed({"gpu-memory": "20G:40G"}), typed({"gpu-memory": "20G"})
    assert (first.gpu_memory_max_mib, later.gpu_memory_max_mib) == (40_960, None)
    assert typed({"gpu-memory": "auto"}).gpu_memory_max_mib is None
