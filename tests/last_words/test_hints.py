"""What a failed program's last words tell its user to change."""

# ruff: noqa: E501 (messages stand as programs print them)

from __future__ import annotations

import pytest

from radrm.core.records import Exit
from radrm.hints import hidden, hint
from tests.last_words.logs import EPOCHS, FAILED, TORCH, traceback, vllm

UUID = "GPU-52a3a85d-3c55-ca3a-a955-82c69ed360fc"
INSTANCE = "MIG-377e0049-554c-540b-93c6-d0976f8426cb"


def error(uuid: str) -> str:
    return f"ValueError: invalid literal for int() with base 10: '{uuid}'"


INSPECTED = "".join(
    f"ERROR 07-11 12:19:50 [registry.py:367] {line}\n"
    for line in (
        "Error in inspecting model architecture 'GraniteForCausalLM'\n"
        + traceback(
            "subprocess.CalledProcessError: Command '['python']' returned non-zero exit status 1."
        )
        + "\nThe above exception was the direct cause of the following exception:\n\n"
        + traceback("RuntimeError: Error raised in subprocess:")
        + "<frozen runpy>:128: RuntimeWarning: 'vllm.model_executor.models.registry' found\n"
        + traceback(error(UUID))
    ).splitlines()
) + traceback(
    "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
    "  Value error, Model architectures ['GraniteForCausalLM'] failed to be inspected. Please check the logs for more details. [type=value_error, input_value=ArgsKwargs((), {'model_co...attention_dtype': None}), input_type=ArgsKwargs]\n"
    "    For further information visit https://errors.pydantic.dev/2.11/v/value_error"
)
TOLD = {
    "vLLM": traceback(error(UUID)),
    "vLLM, in its engine": vllm(error(UUID)),
    "vLLM, behind pydantic": INSPECTED,
    "vLLM, within pydantic": traceback(
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
        f"  Value error, {error(UUID)[12:]} [type=value_error, input_value=ArgsKwargs(())]"
    ),
    "DeepSpeed's launcher, beside others": EPOCHS + traceback(error(f"{UUID},{UUID}")),
    "the last line that a wrapper shows": f"launcher: {error(UUID)}\n",
}
NOT_TOLD = {
    "another number": traceback("ValueError: invalid literal for int() with base 10: 'GPU'"),
    "another name": traceback("ValueError: invalid literal for int() with base 10: 'GPU-x'"),
    "out of memory": traceback(TORCH),
    "caught": traceback(error(UUID)) + EPOCHS + traceback("KeyError: 'x'"),
    "caught, chained": traceback(error(UUID))
    + "\nDuring handling of the above exception, another exception occurred:\n\n"
    + traceback("KeyError: 'x'"),
    "long ago": error(UUID) + "\n" + EPOCHS,
    "a warning": f"WARNING: {error(UUID)}\nerror: no data\n",
    "an echo of the environment": f"CUDA_VISIBLE_DEVICES={UUID}\nerror: no data\n",
}


@pytest.mark.parametrize("text", TOLD.values(), ids=TOLD)
def test_a_program_that_wants_numbers(text: str) -> None:
    assert hint(FAILED, text) == (
        "it reads CUDA_VISIBLE_DEVICES as numbers, and that has the UUID of a GPU: submit it with "
        "--device-ids=index"
    )


@pytest.mark.parametrize("text", NOT_TOLD.values(), ids=NOT_TOLD)
def test_another_failure(text: str) -> None:
    assert hint(FAILED, text) is None


@pytest.mark.parametrize("exit", [Exit(code=0), Exit(signal=15), Exit(code=137), Exit()], ids=str)
def test_exits_that_it_does_not_explain(exit: Exit) -> None:
    assert hint(exit, traceback(error(UUID))) is None


def test_a_mig_instance_has_no_number() -> None:
    found = hint(FAILED, traceback(error(INSTANCE)))
    assert "--device-ids" not in found
    assert "a MIG instance has only a UUID: run it in a container, or on a whole GPU" in found


CODE_0, CODE_1 = Exit(code=0), FAILED
OOM = traceback(TORCH)


@pytest.mark.parametrize(
    ("exit", "tails", "redirected", "part"),
    [
        (CODE_0, (OOM, "Job ended\n"), (), "exit code 0, but its output ended with"),
        (CODE_0, ("Job ended\n", OOM), (), "exit code 0, but its output ended with"),
        (CODE_0, (), (("train.log", OOM),), "exit code 0, but train.log ends with"),
        (CODE_1, ("",), (("train.log", OOM),), "train.log ends with an error: out of GPU memory"),
        (CODE_1, (), (("train.log", "KeyError: 1\n"),), "redirects its output to train.log"),
        (CODE_1, ("bad\n",), (("train.log", "KeyError: 1\n"),), None),
        (CODE_0, ("all done\n",), (("train.log", "epoch 9\n"),), None),
        (CODE_0, (OOM + EPOCHS,), (), None),
        (CODE_0, (OOM + "Job ended\nMon Mar 1\n",), (), "exit code 0, but its output ended with"),
        (CODE_0, ("CUDA out of memory\nJob ended\n",), (), "exit code 0, but its output"),
        (CODE_0, ("64: CUDA out of memory\nbest batch: 32\nsaved\ndone\n",), (), None),
        (CODE_0, (OOM + "retrying with batch 8\nepoch 1\n",), (), None),
        (Exit(signal=9), (), (("train.log", OOM),), None),
    ],
)
def test_a_script_that_hides_how_its_program_ended(
    exit: Exit, tails: tuple[str, ...], redirected: tuple[tuple[str, str], ...], part: str | None
) -> None:
    found = hidden(exit, tails, redirected)
    assert (found is None) if part is None else (found is not None and part in found)
