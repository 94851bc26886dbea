"""Tell radrm how far a job is, and that it has saved its state.

    from radrm.report import Reporter

    report = Reporter()                  # does nothing outside radrm
    for i in range(n):
        ...
        report.progress(step=i, total=n, loss=loss)
        if report.checkpoint_wanted():
            save(path)
            report.saved(step=i)

Every job can import it so: it is on PYTHONPATH. It needs Python 3.8 and its standard library alone,
so it can be copied, too (`$RADRM_REPORT_PY`). `HuggingFaceCallback`, `lightning_callback` and
`keras_callback` report for you.

A report never waits and never raises an error. It is a datagram of `key=value` lines, at most 512
bytes, to the socket `$RADRM_PROGRESS`. Calls that come too fast are merged: the latest values go
out with the next datagram, at the latest when the program ends. `saved` writes
`$RADRM_CHECKPOINT_DIR/saved.json` first, so that no crash loses it.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import os
import signal
import socket
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["HuggingFaceCallback", "Reporter", "keras_callback", "lightning_callback"]

_BURST = 4.0
"""Datagrams that may go out at once; the receiver reads 16 a second."""
_PER_SECOND = 2.0

_requests = 0
"""The number of requests to save that this process has received."""


def _note_request(number: int, frame: object) -> None:
    global _requests
    _requests += 1


class Reporter:
    """Reports the progress of this job. Outside radrm, every method does nothing.

    It is safe to use from several threads. Make it in the main thread: there it installs a handler
    for the signal by which radrm asks the job to save, unless the program has one of its own.
    """

    def __init__(self) -> None:
        self._address = os.environ.get("RADRM_PROGRESS") or None
        self._folder = os.environ.get("RADRM_CHECKPOINT_DIR") or None
        self._in_job = self._address is not None or "RADRM_JOB_ID" in os.environ
        self._socket: socket.socket | None = None
        self._missed = False
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._unsent: dict[str, Any] = {}
        self._last: dict[str, Any] = {}
        self._left = _BURST
        self._at = time.monotonic()
        self._warned: set[str] = set()
        self._seen = _requests
        self._stop_signal = False
        self._handle_signal()
        if self._address is not None:
            atexit.register(self.close)

    # ---------------------------------------------------------------- for the program

    def progress(
        self,
        step: Any = None,
        total: Any = None,
        epoch: Any = None,
        loss: Any = None,
        work_done: Any = None,
    ) -> None:
        """Report how far the job is. Leave out what is not known.

        `step` of `total` steps are done (a `total` of 0: it is not known any more), in epoch
        `epoch`; `loss` is what the job minimises;
        `work_done` is a fraction of all its work, 0 to 1. Numbers, or what `float()` takes: a
        tensor is read only when a datagram goes out.
        """
        if self._address is None:
            return
        given = {"step": step, "total": total, "epoch": epoch, "loss": loss, "work_done": work_done}
        given = {key: value for key, value in given.items() if value is not None}
        if not given or not self._enter():
            return
        try:
            self._unsent.update(given)
            self._last.update(given)
            if self._may_send() or (step is not None and _same(step, total)):
                self._send()
        finally:
            self._lock.release()

    def checkpoint_wanted(self) -> bool:
        """Return True, once, after radrm has asked this job to save its state."""
        if self._seen == _requests:
            return False
        self._seen = _requests
        return True

    def stop_wanted(self) -> bool:
        """Return True if radrm asks by TERM (`--checkpoint=exit`): save, then end the program."""
        return self._stop_signal and _requests > 0

    def saved(
        self,
        step: Any,
        total: Any = None,
        epoch: Any = None,
        loss: Any = None,
        work_done: Any = None,
    ) -> None:
        """Report that the state of step `step` is saved: the save is complete, and on the disk.

        This waits for the disk. What is left out is taken from the last report, if that was about
        the same step.
        """
        if not self._in_job:
            return
        record = self._numbers(
            {"step": step, "total": total, "epoch": epoch, "loss": loss, "work_done": work_done}
        )
        if "step" not in record:
            return
        last = self._numbers(self._last)
        if "total" in last and last["total"] >= record["step"]:
            record.setdefault("total", last["total"])
        if last.get("step") == record["step"]:
            record = {**last, **record}
        if not record.get("total"):
            record.pop("total", None)
        else:
            record.setdefault("work_done", min(1.0, record["step"] / record["total"]))
        if self._folder is not None:
            try:
                _write_durably(
                    self._folder, {**record, "at": time.clock_gettime(time.CLOCK_REALTIME)}
                )
            except OSError as error:
                where = os.path.join(self._folder, "saved.json")
                self._warn("saved", f"cannot write {where}: {error.strerror}")
        if self._address is not None and self._enter(wait=True):
            try:
                self._unsent["saved"] = record["step"]
                self._send()
            finally:
                self._lock.release()

    # ---------------------------------------------------------------- sending

    def _enter(self, wait: bool = False) -> bool:
        """Take the lock. A report does not wait for it: another thread is sending one."""
        if self._pid != os.getpid():  # a fork may have copied a lock that nobody will release
            self._pid, self._lock, self._unsent = os.getpid(), threading.Lock(), {}
        return self._lock.acquire(timeout=1.0) if wait else self._lock.acquire(blocking=False)

    def _may_send(self) -> bool:
        now = time.monotonic()
        self._left = min(_BURST, self._left + (now - self._at) * _PER_SECOND)
        self._at = now
        return self._left >= 1.0

    def _send(self) -> None:
        """Send all that is not sent. What could not be sent goes out with the next datagram."""
        self._left = max(0.0, self._left - 1.0)
        assert self._address is not None
        numbers = self._numbers(self._unsent)
        if 0 < numbers.get("total", 0.0) < numbers.get("step", 0.0):
            del numbers["total"]  # the whole datagram would be dropped
            self._warn("less", "the total is less than the step; the total is left out")
        if not numbers:
            self._unsent = {}
            return
        lines = "".join("{}={!r}\n".format(*each) for each in numbers.items())
        try:
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                self._socket.setblocking(False)
            self._socket.sendto(lines.encode(), self._address)
        except (OSError, ValueError):
            self._missed = True  # no daemon listens, or its queue is full
            return
        self._unsent, self._missed = {}, False

    def _numbers(self, given: dict[str, Any]) -> dict[str, float]:
        """The values that can be sent. A loss that is no finite number is left out."""
        found = {}
        for key, value in given.items():
            if value is None:
                continue
            try:
                number = float(value)
            except Exception:
                shown = type(value).__name__
                self._warn(key, f"{key} must be a number, not {shown}; it is left out")
                continue
            if not math.isfinite(number):
                continue
            if key != "loss" and (number < 0 or (key == "work_done" and number > 1)):
                most = "1" if key == "work_done" else "infinity"
                self._warn(key, f"{key}={number!r} is not from 0 to {most}")
                continue
            found[key] = number
        return found

    def _warn(self, key: str, text: str) -> None:
        """Print one line of each kind."""
        if key not in self._warned:
            self._warned.add(key)
            with contextlib.suppress(OSError, ValueError):
                print("radrm report: " + text, file=sys.stderr)

    def close(self) -> None:
        """Send what the limits have held back, as the end of the program does.

        If no daemon takes it, the last values stay in a file: the next daemon reads it.
        """
        if self._pid == os.getpid() and self._unsent and self._enter():
            try:
                self._send()
            finally:
                self._lock.release()
            if self._missed and self._folder is not None:
                keep_last(self._folder, self._numbers(self._last))

    # ---------------------------------------------------------------- the signal

    def _handle_signal(self) -> None:
        text = os.environ.get("RADRM_CHECKPOINT_SIGNAL", "")
        number = int(text) if text.isdigit() and len(text) < 3 else 0
        self._stop_signal = number == signal.SIGTERM
        if not number or threading.current_thread() is not threading.main_thread():
            return
        with contextlib.suppress(OSError, ValueError):  # no such signal, or it cannot be caught
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _note_request)


def _same(step: Any, total: Any) -> bool:
    """Return whether the work is done. Only plain numbers are compared: a tensor would wait."""
    return isinstance(step, (int, float)) and isinstance(total, (int, float)) and step >= total > 0


def keep_last(folder: str, record: dict[str, float]) -> None:
    """Keep the last report of a program that ends while no daemon runs."""
    with contextlib.suppress(OSError):
        _write_durably(folder, {**record, "at": _date_s()}, ".progress.json")


def _date_s() -> float:
    """Return the date of any year in seconds since the epoch: time.time() raises beyond 2262."""
    return time.clock_gettime(time.CLOCK_REALTIME)


def _write_durably(folder: str, record: dict[str, float], name: str = "saved.json") -> None:
    """Write a file so that after any crash it holds this record, or the one before."""
    path = os.path.join(folder, name)
    draft = f"{path}.{os.getpid()}.{threading.get_ident()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        with open(os.open(draft, flags, 0o600), "w") as file:
            json.dump(record, file)
            file.flush()
            os.fsync(file.fileno())
        os.rename(draft, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise
    opened = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


# -------------------------------------------------------------------- frameworks


class HuggingFaceCallback:
    """Reports for a Hugging Face Trainer: `Trainer(..., callbacks=[HuggingFaceCallback()])`.

    A request to save makes the Trainer save at the end of its step. With `--checkpoint=exit`, it
    stops after that. Of several processes the first reports; each needs the request to save, so
    use it with one process.
    """

    def __init__(self, report: Reporter | None = None) -> None:
        self._report = report or Reporter()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_"):  # the Trainer calls all of them
            return lambda args, state, control, **kwargs: None
        raise AttributeError(name)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Report the training loss."""
        if state.is_world_process_zero and logs and "loss" in logs:
            self._report.progress(
                state.global_step, state.max_steps, epoch=state.epoch, loss=logs["loss"]
            )

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Report the step, and have the state saved if radrm asks for it."""
        if state.is_world_process_zero:
            self._report.progress(state.global_step, state.max_steps, epoch=state.epoch)
        if self._report.checkpoint_wanted():
            control.should_save = True
        return control

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Report what has been saved."""
        if state.is_world_process_zero:
            self._report.saved(state.global_step, state.max_steps, epoch=state.epoch)
        if self._report.stop_wanted():
            control.should_training_stop = True
        return control


def lightning_callback(
    report: Reporter | None = None, path: str | None = None, every: int = 50
) -> Any:
    """Return a callback for `lightning.pytorch.Trainer(callbacks=[...])`.

    A request to save writes a checkpoint to `path` (default: `lightning.ckpt` in
    `$RADRM_CHECKPOINT_DIR`). With `--checkpoint=exit`, the training stops after that. Several
    processes agree about it after every `every` batches.
    """
    try:
        from lightning.pytorch.callbacks import Callback
    except ImportError:
        from pytorch_lightning.callbacks import Callback
    target = path or os.path.join(os.environ.get("RADRM_CHECKPOINT_DIR", "."), "lightning.ckpt")

    class RadrmCallback(Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self._report = report or Reporter()
            self._wanted = False

        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            """Report the step, and save if radrm asks for it."""
            step, total = trainer.global_step, trainer.estimated_stepping_batches
            loss: Any = outputs.get("loss") if isinstance(outputs, dict) else outputs
            loss = loss.detach() if hasattr(loss, "detach") else None
            if trainer.is_global_zero:
                self._report.progress(step, total, epoch=trainer.current_epoch, loss=loss)
            self._wanted = self._report.checkpoint_wanted() or self._wanted
            wanted = self._wanted
            if trainer.world_size > 1:
                wanted = batch_idx % every == 0 and trainer.strategy.reduce_boolean_decision(
                    wanted, all=False
                )
            if wanted:
                self._wanted = False
                self._save(trainer, step)

        def _save(self, trainer: Any, step: int) -> None:
            trainer.save_checkpoint(target + ".new")  # each process takes part
            if trainer.is_global_zero:
                os.replace(target + ".new", target)
                self._report.saved(step)
            if self._report.stop_wanted():
                trainer.should_stop = True

    return RadrmCallback()


def keras_callback(save: Any = None, report: Reporter | None = None) -> Any:
    """Return a callback for `model.fit(callbacks=[...])` of Keras.

    `save` (a function of the model) saves its state when radrm asks for it; without one, the
    callback reports the progress only. With `--checkpoint=exit`, the training stops after that.
    """
    try:
        from keras.callbacks import Callback
    except ImportError:
        from tensorflow.keras.callbacks import Callback

    class RadrmCallback(Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self._report = report or Reporter()
            self._epoch = 0

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            """Note the epoch: batches are counted from 0 in each."""
            self._epoch = epoch

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            """Report the step, and save if radrm asks for it."""
            steps, epochs = self.params.get("steps"), self.params.get("epochs")
            total = steps * epochs if steps and epochs else None
            step = self._epoch * steps + batch + 1 if steps else None
            loss = (logs or {}).get("loss")
            self._report.progress(step, total, epoch=self._epoch, loss=loss)
            if save is not None and step is not None and self._report.checkpoint_wanted():
                save(self.model)
                self._report.saved(step)
                if self._report.stop_wanted():
                    self.model.stop_training = True

    return RadrmCallback()
