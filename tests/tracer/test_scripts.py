"""The tracer of unmodified scripts: what it answers, and where it gives no answer.

All scripts are functions of `scripts.py` and run in forks of one process with PyTorch. A few
run through the folder `site`, as a job has it. Without PyTorch most of this is skipped.
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from radrm.estimators.memory import overheads
from radrm.estimators.traces import Traced, replayed

HERE = Path(__file__).parent
TRACER = HERE.parents[1] / "radrm" / "tracer"
SITE = TRACER / "site"
PYTHON = os.environ.get("RADRM_TEST_TORCH_PYTHON") or sys.executable
LIMIT_S = 600
WEIGHTS = 4 * (2048 * 2048 + 2048 + 2048 * 10 + 10)
BATCH_OF_4096 = 4096 * 2048 * 4
CUBLAS = 2 * overheads(None).cublas_bytes
"""One workspace for the forward pass and one for the backward pass."""

# The most that is needed, as a multiple of the weights; and what else is known.
ANSWERS: dict[str, tuple[float, dict[str, Any]]] = {
    # weights and gradients
    "plain": (2, {"steps": [4], "optimizer": "sgd", "reason": "steps"}),
    "numbered": (2, {}),
    "device_of_number": (2, {}),
    "accelerator": (2, {}),
    "default_device": (2, {}),
    "with_device": (2, {}),
    "legacy": (2, {}),
    "optimizer_first": (2, {}),
    "data_moved": (2, {}),
    "reading": (2, {}),
    "indexed": (2, {}),
    "inference_mode": (2, {}),
    "generated": (2, {}),
    "checkpointed": (2, {"steps": [3]}),
    "new_tensors": (2, {}),
    "policy": (2, {}),
    "moved_by_threads": (2, {}),
    "finite": (2, {}),
    "lengths": (2, {}),
    "random_sizes": (2, {}),
    "evaluated_first": (2, {"skipped": ["evaluation"]}),
    "checkpoint": (2, {"skipped": ["checkpoints"]}),
    "compiled": (2, {"skipped": ["torch.compile"]}),
    "measured": (2, {"benchmark": True}),
    "unfrozen_next": (2, {}),
    "not_averaged": (2, {}),
    "library_loop_alone": (2, {}),
    "detector": (2, {}),
    # and the new gradient beside the kept one
    "short": (3, {"steps": [2], "reason": "steps"}),
    # and two copies, when one replaces the other
    "best_kept": (4, {}),
    # and the optimizer's states
    "own_optimizer": (3, {"optimizer_bytes": WEIGHTS}),
    # and a counter of steps on the GPU for each weight
    "fused": (4, {"optimizer_bytes": 2 * WEIGHTS + 4 * 4, "optimizer": "adamw"}),
    "by_hand": (3, {"steps": [], "reason": "backward passes"}),
    "amp": (2.5, {"precision": "amp"}),
    "accumulation": (4, {"steps": [1], "reason": "backward passes", "optimizer_bytes": WEIGHTS}),
    "curved": (13, {"optimizer": "lbfgs"}),
    "growing": (3, {"steps": [4]}),
    # weights and the batch, its first activation and two gradients
    "sentences": (1 + 4 * BATCH_OF_4096 / WEIGHTS, {"steps": [4]}),
    "gan": (4, {"steps": [8, 2]}),
    "average": (3, {}),
    "averaged_later": (3, {}),
    "copied_by_hand": (3, {}),
    "library_loop": (3, {}),
    # and batches of 4096: see `sentences`
    "doubled": (1 + 4 * BATCH_OF_4096 / WEIGHTS, {}),
    "longer": (1 + 4 * BATCH_OF_4096 / WEIGHTS, {"steps": [8]}),
    # and three of these, of which the CPU's memory keeps none
    "pinned": (1 + 3 * BATCH_OF_4096 / WEIGHTS, {}),
    # and the frozen weights
    "frozen": (3, {}),
    "evaluated": (2 + 3 * BATCH_OF_4096 / WEIGHTS, {}),
    # and the buckets
    "spawned": (3, {"parallel": "ddp", "steps": [3]}),
    "forked": (3, {"parallel": "ddp", "steps": [3]}),
    "views_of_buckets": (3, {"parallel": "ddp"}),
    "data_parallel": (3, {"parallel": "dp"}),
}
NO_ANSWERS: dict[str, tuple[str, bool]] = {
    # part of the error, and whether it names the line
    "on_cpu": ("used no GPU", False),
    "no_training": ("no backward pass", False),
    "failing": ("RuntimeError", True),
    "failing_late": ("ValueError: after one step", True),
    "size_of_a_guess": ("size depends on a value computed on the GPU", True),
    "branch_on_a_guess": ("branch on a value computed on the GPU", True),
    "branch_on_an_item": ("branch on a value computed on the GPU", True),
    "branch_on_a_float": ("branch on a value computed on the GPU", True),
    "unfrozen_later": ("trains more weights later", True),
    "leaking": ("needed more with each step", False),
    "graphed": ("CUDA graphs", True),
    "sharded": ("FSDP", True),
    "spread": ("several GPUs in one process", True),
    "endless": ("made 1 of 2 steps", False),
    "asked_for_help": ("used no GPU", False),
}
TWO_GPUS = ("spawned", "forked", "views_of_buckets", "data_parallel", "spread")
LIMITS = {"endless": 20.0, "leaking": 6.0}
"""Seconds of traces that need all of their time; others end by themselves."""


@pytest.fixture(scope="module")
def documents(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> dict[str, Any]:
    # Once for all workers, and only what this run asks for.
    chosen = {name for item in request.session.items for name in _name_of(item)}
    place = tmp_path_factory.getbasetemp()
    place = place.parent if "PYTEST_XDIST_WORKER" in os.environ else place
    folder = place / "traced-scripts"
    with (place / "scripts.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            folder.mkdir()
            wanted = {
                name: (2 if name in TWO_GPUS else 1, LIMITS.get(name, float(LIMIT_S)))
                for name in (*ANSWERS, *NO_ANSWERS, "recurrent", "packed")
                if name in chosen or name not in (*ANSWERS, *NO_ANSWERS)
            }
            done = subprocess.run(
                [PYTHON, "-W", "ignore", str(HERE / "many_scripts.py"), str(TRACER), str(folder)],
                input=json.dumps(wanted), capture_output=True, text=True, timeout=LIMIT_S,
                check=False, env=environment(folder),
            )  # fmt: skip
            if "No module named 'torch'" not in done.stderr:
                assert done.returncode == 0, done.stderr
    found = {each.name: documents_in(each) for each in folder.iterdir()}
    if not found:
        pytest.skip(f"{PYTHON} has no PyTorch; set RADRM_TEST_TORCH_PYTHON to one that has")
    return found


def _name_of(item: pytest.Item) -> list[str]:
    """The name of a test's script, if it has one."""
    call = getattr(item, "callspec", None)
    name = call.params.get("name") if call is not None else None
    return [name] if isinstance(name, str) else []


def environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "RADRM_TRACE_FOLDER": str(folder),
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "PYTORCH_JIT": "0",
    }


def documents_in(folder: Path) -> list[Any]:
    return [json.loads(file.read_text("utf-8")) for file in folder.glob("*.json")]


def the_trace(documents: dict[str, Any], name: str) -> Any:
    """The one document with steps: a process beside it may have used no GPU."""
    traced = [d for d in documents[name] if "events" in d]
    assert len(traced) == 1, documents[name] or name
    return traced[0]


@pytest.mark.parametrize("name", ANSWERS)
def test_an_everyday_script_needs_what_its_tensors_need(documents: Any, name: str) -> None:
    times, known = ANSWERS[name]
    document = the_trace(documents, name)
    need = replayed(document).peak_need
    assert abs(need - CUBLAS - times * WEIGHTS) < 0.04 * WEIGHTS
    flat = {**document, **document["script"]}
    assert {key: flat[key] for key in known} == known
    assert flat["program"] == "scripts.py"
    # The estimator reads it.
    assert Traced.from_events(document).need_mib * 2**20 == need


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.nightly] * (name in LIMITS)) for name in NO_ANSWERS],
)
def test_what_cannot_be_known_has_no_answer_and_its_reason(documents: Any, name: str) -> None:
    says, has_line = NO_ANSWERS[name]
    (document,) = documents[name]
    assert "events" not in document
    error = document["error"]
    assert says in error and len(error.splitlines()) == 1
    assert "--gpu-memory" in error and error.startswith("scripts.py ")
    assert (document.get("line") or "").startswith("scripts.py:") == has_line


def test_a_loop_without_an_optimizer_ends_after_four_passes(documents: Any) -> None:
    document = the_trace(documents, "recurrent")
    assert document["script"]["backward"] in (4, 5, 6)
    cell = 4 * (4 * 1024 * (64 + 1024) + 8 * 1024)
    assert 2 * cell < replayed(document).peak_need < 5 * cell + CUBLAS


def test_packed_sequences_have_the_sizes_of_their_lengths(documents: Any) -> None:
    """The script itself compares the sizes."""
    assert the_trace(documents, "packed")["script"]["steps"] == [3]


# ------------------------------------------------------------------ programs and their imports


def loaded(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"tracer_{name}", TRACER / f"{name}.py")
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("words", "kind", "name", "launcher"),
    [
        ("train.py --lr 1", "script", "train.py", False),
        ("-u -W ignore -X dev -O a/train.py -m", "script", "train.py", False),
        ("-Wignore -Xdev a/train.py", "script", "train.py", False),
        ("a/train/__main__.py", "script", "train", False),
        ("-m pkg.train", "module", "pkg.train", False),
        ("-um pkg.train", "module", "pkg.train", False),
        ("-mpkg.train", "module", "pkg.train", False),
        ("--check-hash-based-pycs never train.py", "script", "train.py", False),
        ("-c pass", "command", "python -c", False),
        ("-", "input", "python", False),
        ("", "input", "python", False),
        ("/env/bin/torchrun --nproc_per_node=2 train.py", "script", "torchrun", True),
        ("-m torch.distributed.run train.py", "module", "torch.distributed.run", True),
        ("-m torch.distributed.running", "module", "torch.distributed.running", False),
        ("/env/bin/accelerate launch train.py", "script", "accelerate", True),
        ("-m accelerate.commands.launch", "module", "accelerate.commands.launch", True),
        ("/env/bin/deepspeed train.py", "script", "deepspeed", True),
        ("-m pip install x", "module", "pip", True),
    ],
)
def test_a_program_is_told_from_the_interpreters_arguments(
    words: str, kind: str, name: str, launcher: bool
) -> None:
    found = loaded("program").program(words.split())
    assert (found.kind, found.name, found.launcher) == (kind, name, launcher)


def run(folder: Path, *words: str, more: str = "", **variables: str) -> Any:
    """Run a Python program as a traced job has it."""
    output = folder / "documents"
    output.mkdir()
    path = os.pathsep.join([str(SITE), *([more] if more else [])])
    return subprocess.run(
        [PYTHON, *words], cwd=folder, capture_output=True, text=True, timeout=LIMIT_S, check=False,
        env={**environment(output), "PYTHONPATH": path, **variables},
    )  # fmt: skip


def test_a_program_without_pytorch_runs_as_itself(tmp_path: Path) -> None:
    (tmp_path / "users").mkdir()
    (tmp_path / "users" / "sitecustomize.py").write_text("print('the user\\'s')\n")
    # Names of the tracer's files are the user's here.
    (tmp_path / "data.py").write_text("import sys\nprint(sys.argv, __name__)\nsys.exit(3)\n")
    done = run(tmp_path, "data.py", "a", more=str(tmp_path / "users"))
    assert (done.returncode, done.stdout) == (3, "the user's\n['data.py', 'a'] __main__\n")
    assert not documents_in(tmp_path / "documents")


def test_functions_run_after_an_import_and_only_once(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("here = 1\n")
    (tmp_path / "asking.py").write_text(
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import imports; sys.path.pop(0)\n"
        "found = imports.Imports(); found.begin()\n"
        "found.before('package', lambda: print('before'))\n"
        "found.after('package', lambda module: print('after', module.here))\n"
        "import importlib.util; importlib.util.find_spec('package')\n"
        "import package, package\n"
        "assert package.__loader__.get_source('package') == 'here = 1\\n'\n"
        "found.after('package', lambda module: print('late', module.here))\n"
    )
    done = run(tmp_path, "asking.py", str(TRACER))
    assert done.stdout.split("\n")[:3] == ["before", "after 1", "late 1"], done.stderr


@pytest.mark.parametrize(
    ("use", "runs"),
    [
        ("import outer.inner.light; from outer.inner import light", False),
        ("import outer.inner; assert outer.inner.known == 1", False),
        ("import outer.inner; assert outer.inner.made == 2", True),
        ("from outer.inner import made", True),
        ("import outer.inner.heavy; assert outer.inner.heavy.here == 3", True),
        ("from outer.inner.own import here; assert here == 4", True),
    ],
)
def test_a_deferred_package_runs_once_it_is_used(tmp_path: Path, use: str, runs: bool) -> None:
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    (inner.parent / "__init__.py").write_text("")
    (inner / "__init__.py").write_text(
        "print('runs'); made = 2; known = 5\nfrom . import heavy\nfrom outer.inner import light\n"
    )
    for name, text in (("light", ""), ("heavy", "here = 3"), ("own", "here = 4")):
        (inner / f"{name}.py").write_text(f"print('{name}')\n{text}\n")
    (tmp_path / "deferring.py").write_text(
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import imports, outer; sys.path.pop(0)\n"
        "found = imports.Imports(); found.begin()\n"
        "found.defer('outer.inner', ('light',), {'known': 1}); print('begins')\n"
        f"{use}\nprint('ends')\n"
    )
    done = run(tmp_path, "deferring.py", str(TRACER))
    said = done.stdout.split()
    assert said[-1] == "ends" and said.count("runs") == runs, done.stderr
    assert said[:2] == ["light", "begins"] and len(said) == len(set(said)), "none runs twice"


def test_a_package_whose_part_cannot_be_imported_alone_is_not_deferred(tmp_path: Path) -> None:
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    (inner.parent / "__init__.py").write_text("")
    (inner / "__init__.py").write_text("ready = 1\nfrom . import light\nassert light.made\n")
    (inner / "light.py").write_text("from outer.inner import ready, light\nmade = ready\n")
    (tmp_path / "deferring.py").write_text(
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import imports, outer; sys.path.pop(0)\n"
        "found = imports.Imports(); found.begin()\n"
        "found.defer('outer.inner', ('light',), {})\n"
        "from outer.inner.light import made; print(made)\n"
    )
    done = run(tmp_path, "deferring.py", str(TRACER))
    assert done.stdout == "1\n", done.stderr


def test_a_script_is_traced_through_the_site_folder(tmp_path: Path, documents: Any) -> None:
    """The user's own modules have the names of the tracer's files."""
    (tmp_path / "values.py").write_text("WIDTH = 2048\n")
    (tmp_path / "train.py").write_text(
        "import values, script, torch\n"
        "model = torch.nn.Linear(values.WIDTH, values.WIDTH, bias=script.BIAS).cuda()\n"
        "optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        "while True:\n"
        "    model(torch.zeros(8, values.WIDTH).cuda()).sum().backward()\n"
        "    optimizer.step()\n"
        "    optimizer.zero_grad()\n"
    )
    (tmp_path / "script.py").write_text("BIAS = False\n")
    done = run(tmp_path, "-W", "ignore", "-u", "train.py")
    assert done.returncode == 0, done.stderr
    (document,) = documents_in(tmp_path / "documents")
    assert document["parameter_bytes"] == 4 * 2048 * 2048
    assert document["script"]["program"] == "train.py" and document["script"]["steps"] == [3]


@pytest.mark.nightly
@pytest.mark.usefixtures("documents")
def test_a_launcher_is_left_alone_and_one_rank_is_traced(tmp_path: Path) -> None:
    done = run(
        tmp_path, "-m", "torch.distributed.run", "--nproc_per_node=2", "--standalone",
        str(HERE / "scripts.py"), "launched", RADRM_TRACE_GPUS="2",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (document,) = documents_in(tmp_path / "documents")
    assert document["parallel"] == "ddp"
    need = replayed(document).peak_need
    assert abs(need - CUBLAS - 3 * WEIGHTS) < 0.04 * WEIGHTS
