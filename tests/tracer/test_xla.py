"""Traces of scripts of JAX, here with a small module in its place."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SITE = Path(__file__).parents[2] / "radrm" / "tracer" / "site"

JAX = """
import types, numpy
__version__ = "0"
class Tracer: pass
core = types.SimpleNamespace(Tracer=Tracer)
def leaves(tree):
    if isinstance(tree, dict): tree = list(tree.values())
    return [x for each in tree for x in leaves(each)] if isinstance(tree, (list, tuple)) else [tree]
tree_util = types.SimpleNamespace(
    tree_leaves=leaves, tree_flatten=lambda tree: (leaves(tree), len(leaves(tree))),
    tree_map=lambda f, tree, places: [f(x, places) for x in tree])
class Plan:
    argument_size_in_bytes, output_size_in_bytes = 4000, 4000
    temp_size_in_bytes, alias_size_in_bytes = 50_000, 0
class Executable:
    output_shardings = None
    def memory_analysis(self): return Plan()
    def cost_analysis(self): return {"flops": 1e12}
class Lowered:
    args_info, out_info = [], [numpy.zeros(1000, "f4")]
    def compile(self): return Executable()
class Jitted:
    def __init__(self, function, donate_argnums=None): self.function = function
    def lower(self, *args): self.function(*args); return Lowered()
    def __call__(self, *args): raise AssertionError("a large function was run")
def jit(function, **options): return Jitted(function, **options)
def grad(function): return lambda *args: args[0]
pmap, value_and_grad, vjp, linearize, jacrev, hessian = jit, grad, grad, grad, grad, grad
distributed = types.SimpleNamespace()
config = types.SimpleNamespace(update=lambda name, value: None)
dtypes = types.SimpleNamespace(issubdtype=lambda dtype, kind: False, extended=None)
def device_put(array, place=None): return array
def live_arrays(): return []
def devices(*_): return ["cpu"]
def default_backend(): return "cpu"
local_devices = devices
device_count = local_device_count = lambda: 1
"""
TRAINS = """
import jax, numpy
weights = numpy.ones(1000, "f4")
@jax.jit
def step(weights):
    return [jax.grad(lambda w: w)(weights)]
for _ in range({calls}):
    weights, = step(weights)
"""
EVALUATES = TRAINS.replace("jax.grad(lambda w: w)(weights)", "weights")


def traced(tmp_path: Path, script: str, **variables: str) -> dict[str, object]:
    (tmp_path / "jax.py").write_text(JAX)
    (tmp_path / "train.py").write_text(script)
    folder = tmp_path / "documents"
    folder.mkdir()
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("JAX", "XLA"))
    }
    told = {"PYTHONPATH": str(SITE), "RADRM_TRACE_FOLDER": str(folder), "RADRM_TRACE_LIMIT_S": "60"}
    subprocess.run(
        [sys.executable, "train.py"],
        cwd=tmp_path,
        env={**kept, **told, **variables},
        stderr=subprocess.DEVNULL,
        check=False,
        timeout=120,
    )
    written = list(folder.glob("*.json"))
    return json.loads(written[0].read_text()) if written else {}


@pytest.mark.parametrize("calls", [1, 2, 100])
def test_answers_with_arguments_results_and_temporary_buffers(tmp_path: Path, calls: int) -> None:
    document = traced(tmp_path, TRAINS.format(calls=calls))
    assert document["events"] == [4000 + 4000 + 50_000]
    script = document["script"]
    assert isinstance(script, dict)
    assert script["steps"] == [min(calls, 3)]


def test_a_function_without_a_gradient_is_no_training(tmp_path: Path) -> None:
    document = traced(tmp_path, EVALUATES.format(calls=5))
    assert "error" in document
    assert "events" not in document


def test_an_error_before_the_second_step_is_no_answer(tmp_path: Path) -> None:
    document = traced(tmp_path, TRAINS.format(calls=1) + "open('absent')\n")
    assert document["line"] == "train.py:9"
    assert "events" not in document


@pytest.mark.parametrize(
    ("says", "takes"),
    [
        ({}, 4000 + 4000 + 50_000),  # radrm says how much
        ({"XLA_CLIENT_MEM_FRACTION": ".5"}, 512 << 20),
        ({"XLA_PYTHON_CLIENT_MEM_FRACTION": ".25"}, 256 << 20),
        ({"XLA_CLIENT_MEM_FRACTION": ".5", "RADRM_TRACE_GPU_MIB": ""}, None),
    ],
)
def test_a_job_that_insists_on_preallocation(
    tmp_path: Path, says: dict[str, str], takes: int | None
) -> None:
    environment = {"RADRM_TRACE_GPU_MIB": "1024", "XLA_PYTHON_CLIENT_PREALLOCATE": "true", **says}
    document = traced(tmp_path, TRAINS.format(calls=9), **environment)
    assert document.get("events") == (None if takes is None else [takes])
    assert ("error" in document) == (takes is None)


def test_a_job_for_the_cpu_is_left_alone(tmp_path: Path) -> None:
    script = "import jax\nassert jax.default_backend() == 'cpu'\nopen('done', 'w')\n"
    assert traced(tmp_path, script, JAX_PLATFORMS="cpu") == {}
    assert (tmp_path / "done").exists()
