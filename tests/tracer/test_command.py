"""What the tracer reads off a job's command. Needs no PyTorch."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

import radrm

_FILE = Path(radrm.__file__).parent / "tracer" / "command.py"
_SPEC = importlib.util.spec_from_file_location("radrm_tracer_command", _FILE)
assert _SPEC is not None and _SPEC.loader is not None
command = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(command)

PLAIN = "import torch\nmodel = make()\n"
MASTER = "model = torch.nn.DataParallel(model)\n"
EACH = "model = torch.nn.parallel.DistributedDataParallel(model)\n"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("python train.py --batch-size 64", 64),
        ("python train.py --batch_size=48 --lr 1", 48),
        ("python train.py \\\n  --per_device_train_batch_size 8 \\\n  --seed 1", 8),
        ("python a.py --bs=16\npython b.py --bs 128", 128),
        ("python train.py --bs '12'", 12),
        ("python train.py --eval-batch-size 64", None),
        ("python train.py --batch-size 64M", None),
        ("python train.py --batch-size 0.5", None),
        ("python train.py --batch-size=$B", None),
        ("#RAD --batch-size=9\n# python old.py --batch-size 512\npython a.py", None),
        ("python train.py --x--batch-size 64", None),
        ("", None),
    ],
)
def test_the_batch_size_of_a_command(text: str, size: int | None) -> None:
    found = command.batch_size(text)
    assert (found and found[0]) == size


LAUNCHED = {
    "torchrun --nproc_per_node=2 train.py": "torchrun",
    "python -m torch.distributed.run --nproc_per_node 2 train.py": "torch.distributed.run",
    "/opt/bin/accelerate  launch train.py": "accelerate launch",
    "deepspeed train.py": "deepspeed",
    "exec mpirun -np 2 python train.py": "mpirun",
    "srun python train.py": "srun",
}


@pytest.mark.parametrize("text", LAUNCHED)
@pytest.mark.parametrize("deep", [0, 1, 2])
def test_a_launcher_is_seen_however_deep_in_scripts(tmp_path: Path, text: str, deep: int) -> None:
    (tmp_path / "train.py").write_text(MASTER)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "inner.sh").write_text(f"#!/bin/bash\nset -e\n{text}\n")
    (tmp_path / "train.sh").write_text("cd sub && bash inner.sh\n")
    asked = [text, "bash sub/inner.sh", "./train.sh"][deep]
    how, why = command.how_parallel(asked, str(tmp_path))
    assert (how, why.endswith(f"starts {LAUNCHED[text]}")) == ("ddp", True)


@pytest.mark.parametrize(
    ("files", "asked", "how"),
    [
        ({"train.py": MASTER}, "python train.py", "dp"),
        ({"train.py": MASTER}, "python -m train", "dp"),
        ({"src/train.py": MASTER}, "cd src\npython train.py", "dp"),
        ({"train.py": EACH}, "python train.py", "ddp"),
        ({"train.py": MASTER + EACH}, "python train.py", "ddp"),
        ({"train.py": PLAIN}, "python train.py", "ddp"),
        ({"train.py": "# DataParallel\n"}, "python train.py", "ddp"),
        ({}, "python train.py", "ddp"),
        ({"train.py": MASTER}, "bash absent.sh; python train.py", "ddp"),
        ({"train.py": MASTER}, "# torchrun is too slow here\npython train.py", "dp"),
        ({"train.py": MASTER}, "python train.py --no-accelerate --comment=muddp", "dp"),
        ({}, "", "ddp"),
    ],
)
def test_what_cannot_be_told_is_taken_the_way_that_needs_more(
    tmp_path: Path, files: dict[str, str], asked: str, how: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert command.how_parallel(asked, str(tmp_path))[0] == how


@pytest.mark.parametrize(
    ("line", "there"),
    [
        ("torch.backends.cudnn.benchmark = True", True), ("    cudnn.benchmark=True", True),
        ("# cudnn.benchmark = True", False), ("cudnn.benchmark = False", False),
        ("cudnn.benchmark_limit = True", False),
    ],
)  # fmt: skip
def test_a_program_that_lets_cudnn_measure_its_algorithms(
    tmp_path: Path, line: str, there: bool
) -> None:
    (tmp_path / "train.py").write_text(f"import torch\n{line}\n")
    (tmp_path / "job.sh").write_text("python train.py\n")
    found = command.uses_benchmark("bash job.sh", str(tmp_path))
    assert found == ("train.py" if there else None)
    assert command.uses_benchmark("python missing.py", str(tmp_path)) is None


def test_scripts_that_start_one_another_fifos_and_masses_of_them_end(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text("bash b.sh\n")
    (tmp_path / "b.sh").write_text("bash a.sh\nbash pipe.sh\n")
    os.mkfifo(tmp_path / "pipe.sh")
    many = " ".join(f"s{n}.sh" for n in range(1000))
    for text in ("bash a.sh", many, "x" * 3_000_000):
        assert command.how_parallel(text, str(tmp_path))[0] == "ddp"
