"""Python values as options: what the one table knows, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from radrm.api.options import raw_options
from radrm.errors import UsageError
from tools.option_types import PLACE, text


@pytest.mark.parametrize(
    ("given", "raw"),
    [
        ({"gpus": 2, "gpu_memory": "8G"}, {"gpus": "2", "gpu-memory": "8G"}),
        ({"gpu_memory": 8192}, {"gpu-memory": "8192"}),
        ({"smact": 1e-05}, {"smact": "0.00001"}),
        ({"time": timedelta(hours=2), "duration": 1.5}, {"time": "7200.0", "duration": "1.5"}),
        ({"hold": True, "requeue": False, "comment": None}, {"hold": True}),
        ({"snapshot": True}, {"snapshot": "."}),
        ({"snapshot": Path("src")}, {"snapshot": "src"}),
        ({"env": {"A": 1, "B": "x y"}}, {"env": ["A=1", "B=x y"]}),
        ({"param": {"lr": [0.1, 1e-5], "seed": "0:9"}}, {"param": ["lr=0.1,0.00001", "seed=0:9"]}),
        ({"after": 12}, {"after": ["12"]}),
        ({"after": [12, "13:any"]}, {"after": ["12", "13:any"]}),
        ({"name": "--help"}, {"name": "--help"}),
    ],
)
def test_values(given: dict[str, object], raw: dict[str, object]) -> None:
    assert raw_options(given, "submit") == raw


def test_moments_keep_their_zone() -> None:
    moment = datetime(2030, 1, 31, 18, tzinfo=timezone(timedelta(hours=1)))
    assert raw_options({"due": moment}, "submit")["due"] == moment.astimezone().isoformat()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"gpu_memry": "8G"}, "unknown option '--gpu-memry'; did you mean --gpu-memory?"),
        ({"gpu_memory": "much"}, "--gpu-memory: 'much' is not a size"),
        ({"gpu_memory": True}, "gpu-memory needs a value, not True"),
        ({"gpu_memory": ["1G", "2G"]}, "gpu-memory takes one value"),
        ({"gpu_memory": {"a": 1}}, "gpu-memory is no mapping"),
        ({"gpus": object}, "gpus cannot be a type"),
        ({"hold": "yes"}, "hold is True or False, not 'yes'"),
        ({"name": "a\nb"}, "--name: 'a\\nb'"),
        ({"env": {"A\nB": 1}}, "--env"),
        ({"time": float("nan")}, "--time: 'nan' is not a duration"),
        ({"comment": "x" * 100_000}, "is too long"),
    ],
)
def test_errors_are_one_line(given: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        raw_options(given, "submit")
    line = str(caught.value)
    assert said in line and line.startswith("submit: ") and "\n" not in line


def test_type_checkers_know_the_same_options() -> None:
    assert PLACE.read_text("utf-8") == text(), "run: make generated"


def test_import_radrm_imports_no_api() -> None:
    code = (
        "import sys, radrm; assert 'Client' in dir(radrm); before = set(sys.modules);"
        "assert not [name for name in before if name.startswith('radrm.')], before;"
        "radrm.Client; assert 'radrm.api.client' in sys.modules;"
        "assert not {'rich', 'submitit', 'hydra', 'cloudpickle'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
