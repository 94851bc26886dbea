"""The callbacks of frameworks, driven as the frameworks drive them.

Sources: transformers `trainer_callback.py` (`CallbackHandler.call_event`), Lightning's
`Callback` and Keras' `Callback` (`set_params`, `set_model`, `on_*`).
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from radrm import report as module
from radrm.report import HuggingFaceCallback, keras_callback, lightning_callback
from tests.report.listener import Listener


@pytest.fixture(autouse=True)
def asked_by(monkeypatch: pytest.MonkeyPatch, in_job: Listener) -> Iterator[None]:
    """Requests come by TERM, as with `--checkpoint=exit`."""
    monkeypatch.setattr(module, "_requests", 0)
    monkeypatch.setenv("RADRM_CHECKPOINT_SIGNAL", str(int(signal.SIGTERM)))
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


def framework(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A framework whose module `NAME` has a class `Callback` without behaviour."""

    class Callback:
        params: dict[str, Any]
        model: Any

    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        monkeypatch.setitem(sys.modules, ".".join(parts[:depth]), ModuleType(parts[depth - 1]))
    sys.modules[name].Callback = Callback


def test_hugging_face(in_job: Listener, folder: Path) -> None:
    callback = HuggingFaceCallback()
    state = SimpleNamespace(global_step=5, max_steps=50, epoch=0.5, is_world_process_zero=True)
    control = SimpleNamespace(should_save=False, should_training_stop=False)

    def call(event: str, **more: Any) -> None:
        # As CallbackHandler.call_event does for every event there is.
        result = getattr(callback, event)(None, state, control, model=None, **more)
        assert result in (None, control)

    for event in ("on_init_end", "on_train_begin", "on_epoch_begin", "on_step_begin"):
        call(event)
    call("on_step_end")
    call("on_log", logs={"loss": 0.7, "learning_rate": 1e-3})
    found = in_job.taken()
    assert found[0] == {"step": 5, "total": 50, "epoch": 0.5}
    assert found[1]["loss"] == 0.7
    assert not control.should_save
    signal.raise_signal(signal.SIGTERM)
    call("on_step_end")
    assert control.should_save and not control.should_training_stop
    call("on_save")
    assert control.should_training_stop
    assert json.loads((folder / "saved.json").read_text())["step"] == 5
    with pytest.raises(AttributeError):
        _ = callback.state_dict


class FakeTrainer:
    global_step, estimated_stepping_batches, current_epoch = 8, 80, 1
    is_global_zero, world_size, should_stop = True, 1, False

    def __init__(self, decision: bool = False) -> None:
        self.strategy = SimpleNamespace(reduce_boolean_decision=lambda wanted, all: decision)

    def save_checkpoint(self, path: str) -> None:
        Path(path).write_text("state")


@pytest.mark.parametrize("package", ["lightning.pytorch.callbacks", "pytorch_lightning.callbacks"])
def test_lightning(
    package: str, in_job: Listener, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if package.startswith("pytorch_lightning"):
        monkeypatch.setitem(sys.modules, "lightning", None)
    framework(monkeypatch, package)
    callback, trainer = lightning_callback(), FakeTrainer()
    loss = SimpleNamespace(detach=lambda: 0.4)
    callback.on_train_batch_end(trainer, None, {"loss": loss}, None, 0)
    assert in_job.taken() == [{"step": 8, "total": 80, "epoch": 1, "loss": 0.4}]
    assert not trainer.should_stop
    signal.raise_signal(signal.SIGTERM)
    callback.on_train_batch_end(trainer, None, {"loss": loss}, None, 1)
    assert trainer.should_stop
    assert sorted(path.name for path in folder.iterdir()) == ["lightning.ckpt", "saved.json"]
    assert in_job.taken()[-1]["saved"] == 8


def test_lightning_processes_decide_together(
    in_job: Listener, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    framework(monkeypatch, "lightning.pytorch.callbacks")
    callback, trainer = lightning_callback(every=10), FakeTrainer(decision=True)
    trainer.world_size = 2
    callback.on_train_batch_end(trainer, None, None, None, 5)
    assert not list(folder.iterdir())
    callback.on_train_batch_end(trainer, None, None, None, 10)
    assert (folder / "lightning.ckpt").exists()


@pytest.mark.parametrize("package", ["keras.callbacks", "tensorflow.keras.callbacks"])
def test_keras(
    package: str, in_job: Listener, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if package.startswith("tensorflow"):
        monkeypatch.setitem(sys.modules, "keras", None)
    framework(monkeypatch, package)
    kept = []
    callback = keras_callback(save=kept.append)
    callback.model = SimpleNamespace(stop_training=False)
    callback.params = {"verbose": 1, "epochs": 3, "steps": 10}
    callback.on_epoch_begin(1)
    callback.on_train_batch_end(4, {"loss": 0.3})
    assert in_job.taken() == [{"step": 15, "total": 30, "epoch": 1, "loss": 0.3}]
    signal.raise_signal(signal.SIGTERM)
    callback.on_train_batch_end(5, {"loss": 0.3})
    assert kept == [callback.model] and callback.model.stop_training
    assert in_job.taken()[-1]["saved"] == 16
