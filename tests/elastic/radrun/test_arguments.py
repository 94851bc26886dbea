"""The command line of radrun: torchrun's options that mean the same, and what is refused."""

from __future__ import annotations

import pytest

from radrm.elastic.radrun.arguments import Role, parse
from radrm.errors import UsageError


@pytest.mark.parametrize(
    "words",
    [
        "--standalone --nnodes=1 --nproc_per_node=2 train.py --lr 1",
        "--nnodes 1:1 --nproc-per-node 2 train.py --lr 1",
        "--rdzv-backend=c10d --rdzv_endpoint=localhost:0 --nproc-per-node=2 train.py --lr 1",
        "--master_port 29501 --master-addr=localhost --nproc-per-node=2 -- train.py --lr 1",
    ],
)
def test_scripts_of_torchrun_are_accepted(words: str) -> None:
    options = parse(words.split())
    assert (options.script, options.arguments) == ("train.py", ["--lr", "1"])
    assert options.workers == 2 and options.max_restarts == 3
    assert options.counts() == {"main": 2}


def test_options_after_the_script_are_the_scripts() -> None:
    options = parse(["-m", "package.train", "--nproc-per-node=9", "-m"])
    assert options.module and options.script == "package.train"
    assert options.arguments == ["--nproc-per-node=9", "-m"] and options.workers == 1


def test_roles() -> None:
    options = parse(["--role=ps:2=ps.py", "--role", "worker:3=worker.py", "--", "--epochs", "5"])
    assert options.roles == [Role("ps", "ps.py", 2), Role("worker", "worker.py", 3)]
    assert options.arguments == ["--epochs", "5"] and options.script == ""
    assert options.counts() == {"ps": 2, "worker": 3}
    assert options.script_of("ps") == "ps.py"
    with pytest.raises(UsageError, match="no script for role main; add --role=main=SCRIPT"):
        options.script_of("main")


def test_a_role_without_a_script_runs_the_commands() -> None:
    options = parse(["--role=ps", "--role=worker=w.py", "train.py", "x"])
    assert options.script_of("ps") == "train.py" and options.script_of("worker") == "w.py"


def test_gpu_and_cpu_are_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1,GPU-2,GPU-3")
    assert parse(["--nproc-per-node=gpu", "t.py"]).workers == 3
    assert parse(["--nproc-per-node=auto", "t.py"]).workers == 3
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert parse(["--nproc-per-node=cpu", "t.py"]).workers >= 1
    with pytest.raises(UsageError, match="no GPU is visible"):
        parse(["--nproc-per-node=gpu", "t.py"])


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("", "no SCRIPT is given"),
        ("--standalone", "no SCRIPT is given"),
        ("--nnodes=2 t.py", "--nnodes=2: radrun runs a job on one server"),
        ("--nnodes=1:4 t.py", "use --nnodes=1 or --nnodes=1:1"),
        ("--node-rank=1 t.py", "--node-rank=1"),
        ("--rdzv-backend=etcd t.py", "--rdzv-backend=etcd"),
        ("--nproc-per-node=0 t.py", "--nproc-per-node=0 is not a number from 1 to 256"),
        ("--nproc-per-node=x t.py", "is not a number from 1 to 256"),
        ("--nproc-per-node", "--nproc-per-node needs a value"),
        ("--max-restarts=-1 t.py", "--max-restarts=-1 is not a number from 0"),
        ("--standalone=1 t.py", "--standalone takes no value"),
        ("--log-dir=x t.py", "radrun has no --log-dir: output goes through unchanged"),
        ("--nope t.py", "--nope is not an option of radrun"),
        ("-x t.py", "-x is not an option of radrun"),
        ("--role==x t.py", "'' is not a name"),
        ("--role=ps= t.py", "no script follows the ="),
        ("--role=ps:0=x t.py", "--role=0 is not a number from 1 to 256"),
        ("--role=ps=a --role=ps=b t.py", "role ps is given twice"),
        ("-m --no-python t", "exclude each other"),
    ],
)
def test_what_is_refused_in_one_line(words: str, wrong: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(words.split())
    assert wrong in str(caught.value) and "\n" not in str(caught.value)
