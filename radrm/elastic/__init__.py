"""Train with a number of workers that changes, without losing or repeating a sample.

    from radrm import elastic

    data = elastic.ShardedDataset(dataset, epochs=5, seed=7)
    state = elastic.load()                                # the last checkpoint, or None
    for x, y in elastic.loader(data, global_batch=256):
        loss = criterion(model(x), y)                     # the mean of this worker's samples
        (loss * elastic.weight()).backward()              # DDP's gradient: the mean of all 256
        optimizer.step()
        optimizer.zero_grad()
        if elastic.step(loss=loss):                       # True: save now
            elastic.save({"model": model.state_dict()})   # model and data as one

It needs Python 3.8 and its standard library; torch only where the program has imported it. `radrun`
puts it on PYTHONPATH; `$RADRM_ELASTIC_PY` names it. Without `radrun` the program is one worker.

Sample p of epoch e has the *position* `e * samples + p`. An epoch's order is a keyed permutation
of the whole dataset, computed for any position by any process, without a list. (Shards of
neighbours would give batches of one class where a dataset is sorted.) A *shard* is a range of
positions, and the state of a dataset is the list of its consumed ranges.

**Synchronous** (`global_batch`): a *round* is the next `global_batch` positions of an epoch (its
last round may be short); each rank reads a slice. So the order does not depend on the number of
ranks, and all have equally many steps: one without a sample reads one with weight 0.
**Asynchronous** (`batch`, parameter servers): workers lease shards. What a worker that ends has
not consumed goes to others.
"""

from __future__ import annotations

import _socket
import contextlib
import json
import math
import os
import re
import sys
import time
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Ranges = list[list[int]]
    Message = dict[str, Any]

# fmt: off
__all__ = ["ElasticError", "ShardedDataset", "cpus", "last_part", "load", "loader", "on_load",
           "save", "step", "weight"]
# fmt: on

LONGEST_LINE = 64 * 1024
_MASK = (1 << 64) - 1
_KEPT = 2
_MOST_LOADERS = 16
_REPORT_S = 0.5
_FILE = re.compile(r"elastic-(\d{6,12}-[0-9a-f]{8})")


class ElasticError(RuntimeError):
    """What the program asks for cannot be done. The text is one line."""


# -------------------------------------------------------------------- positions


class Order:
    """The order of one epoch: a permutation of `samples` indices; a seed of None keeps them.

    A Feistel network on two digits of mixed base, repeated until the result is in range.
    """

    def __init__(self, samples: int, seed: int | None, epoch: int) -> None:
        self._samples = samples
        self._wide = math.isqrt(max(0, samples - 1)) + 1
        self._high = -(-samples // self._wide)
        import hashlib  # late: every command reads this file, and few need these modules

        digest = hashlib.sha512(f"{seed}/{epoch}".encode()).digest()
        keys = [int.from_bytes(digest[i : i + 8], "big") for i in range(0, 64, 8)]
        self._keys = [] if seed is None else keys

    def __getitem__(self, place: int) -> int:
        while True:
            one, other = divmod(place, self._wide)
            ones, others = self._high, self._wide
            for key in self._keys:
                mixed = ((other ^ key) * 0x9E3779B97F4A7C15) & _MASK
                mixed = ((mixed ^ mixed >> 32) * 0xD6E8FEB86659FD93) & _MASK
                one, other = other, (one + (mixed >> 32)) % ones
                ones, others = others, ones
            place = one * self._wide + other  # an even number of keys: the digits are in place
            if place < self._samples:
                return place


# -------------------------------------------------------------------- the server


class _Radrun:
    """The connection to `radrun`. What this worker leases returns to others when it ends."""

    def __init__(self, path: str) -> None:
        self.held = False
        self._answers: deque[Message] = deque()
        self._data = b""
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY | os.O_DIRECTORY)
            try:  # an address holds 107 bytes
                self._socket.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
            finally:
                os.close(folder)
        except OSError as error:
            raise ElasticError(f"cannot reach radrun at {path}: {error.strerror}") from None
        keys = (("task", "RADRM_TASK"), ("generation", "RADRM_GENERATION"))
        hello: Message = {key: int(os.environ.get(name) or 0) for key, name in keys}
        hello.update(do="hello", version=1, role=os.environ.get("RADRM_ROLE") or "main")
        self.cpus = self.ask(hello)["cpus"]
        os.register_at_fork(after_in_child=self._socket.close)  # a loader must not hold a lease

    def tell(self, message: Message) -> None:
        """Send a message that has no answer."""
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise ElasticError(f"radrun does not answer: {error.strerror}") from None

    def ask(self, message: Message) -> Message:
        """Send a message and return its answer. Raises ElasticError."""
        self.tell(message)
        while not self._answers:
            self._receive(0)
        answer = self._answers.popleft()
        if "error" in answer:
            raise ElasticError(answer["error"])
        return answer

    def poll(self) -> None:
        """Note what the server has pushed."""
        with contextlib.suppress(BlockingIOError):
            self._receive(_socket.MSG_DONTWAIT)

    def _receive(self, flags: int) -> None:
        try:
            data = self._socket.recv(LONGEST_LINE, flags)
        except ConnectionError:
            data = b""
        if not data:
            raise ElasticError("radrun has ended the connection: this worker is not of the job now")
        *lines, self._data = (self._data + data).split(b"\n")
        for message in map(json.loads, lines):
            if message.get("push") == "hold":
                self.held = True
            elif message.get("push") == "cpus":
                self.cpus = message["cpus"]
            else:
                self._answers.append(message)


class _Alone:
    """Answers the only worker where no `radrun` is. Its states are those of `radrun`."""

    def __init__(self, report: Any) -> None:
        self.held, self.cpus, self._report = False, None, report
        self._state: Message = {"version": 1, "step": 0, "datasets": {}, "failures": []}
        self._dealt: dict[str, int] = {}

    def poll(self) -> None:
        self.held = self.held or bool(self._report and self._report.checkpoint_wanted())

    def tell(self, message: Message) -> None:
        self.held = self.held or message["do"] == "ask-save"

    def ask(self, message: Message) -> Message:
        what = message["do"]
        if what == "open":
            self._open(message["dataset"], message)
        elif what in ("round", "take"):
            return self._deal(message["dataset"], message)
        elif what == "step":
            for name, ranges in message["read"].items():
                if ranges:
                    self._state["datasets"][name]["consumed"] = [[0, ranges[-1][1]]]
            self._state["step"] = message["step"]
            if self._report and "loss" in message:
                self._report.progress(message["step"], message["total"], loss=message["loss"])
        elif what == "restore" and message["id"] is not None:
            with open(_state_path(message["id"])) as file:
                self._state = json.load(file)
            datasets = self._state["datasets"].items()
            read = {name: sum(b - a for a, b in each["consumed"]) for name, each in datasets}
            return {"step": self._state["step"], "samples": read}
        elif what == "save":
            newest = int((message["newest"] or "0-").split("-")[0])
            identity = f"{newest + 1:06d}-{os.urandom(4).hex()}"
            return {"write": identity, "step": self._state["step"]}
        elif what == "store":
            os.makedirs(os.path.dirname(_state_path("")), mode=0o700, exist_ok=True)
            draft = _state_path(message["id"]) + ".draft"
            with open(draft, "w") as file:
                json.dump({**self._state, "id": message["id"]}, file)
            _put(draft, _state_path(message["id"]))
        elif what == "saved" and "keep" in message:
            for name in os.listdir(os.path.dirname(_state_path(""))):
                if name[6:-5] not in message["keep"]:
                    os.unlink(os.path.join(os.path.dirname(_state_path("")), name))
            return {"leave": bool(self._report and self._report.stop_wanted())}
        return {"step": self._state["step"], "save": self.held}

    def _open(self, name: str, terms: Message) -> None:
        terms = {key: terms[key] for key in ("samples", "seed", "epochs", "shard")}
        data = self._state["datasets"].setdefault(name, {**terms, "consumed": []})
        for key in ("samples", "seed"):
            if data[key] != terms[key]:
                before, now = data[key], terms[key]
                raise ElasticError(
                    f"dataset '{name}' has {key}={now} here and {key}={before} in the checkpoint"
                    " or in another dataset; give each dataset a name of its own"
                )
        data.update(terms)
        if len(data["consumed"]) > 1 or (data["consumed"] and data["consumed"][0][0]):
            raise ElasticError(
                f"dataset '{name}' was read by several workers, and some of it is missing: go on"
                " by radrun"
            )
        self._dealt[name] = data["consumed"][0][1] if data["consumed"] else 0

    def _deal(self, name: str, message: Message) -> Message:
        data, first = self._state["datasets"][name], self._dealt[name]
        samples, shard = data["samples"], data["shard"]
        size = message.get("batch") or shard - first % samples % shard
        last = min(first + size, (first // samples + 1) * samples)
        if first >= samples * data["epochs"]:
            return {"end": True}
        self._dealt[name] = last
        ranges = [[first, last]]
        part = {"samples": last - first, "world": 1, "last": last == samples * data["epochs"]}
        return {**part, "round": ranges, "slice": ranges, "shard": ranges}


# -------------------------------------------------------------------- files


def _folder() -> str:
    return os.environ.get("RADRM_CHECKPOINT_DIR") or "elastic-checkpoints"


def _state_path(identity: str) -> str:
    return os.path.join(_folder(), "shards", f"state-{identity}.json")


def _checkpoints() -> list[str]:
    """The ids of the complete checkpoints, the newest first."""
    names = os.listdir(_folder()) if os.path.isdir(_folder()) else []
    found = [match[1] for match in map(_FILE.fullmatch, names) if match]
    return sorted(found, key=lambda identity: int(identity.split("-")[0]), reverse=True)


def _put(draft: str, path: str) -> None:
    """Sync a file or folder and all in it, give it its name, and sync that."""
    inside = [os.path.join(top, name) for top, _, names in os.walk(draft) for name in ["", *names]]
    for each in [*inside, draft]:
        _sync(each)
    os.rename(draft, path)
    _sync(os.path.dirname(path))


def _sync(path: str) -> None:
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _remove(path: str) -> None:
    import shutil

    shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)


def _write(state: Any, path: str) -> None:
    import pickle

    torch = sys.modules.get("torch")
    with open(path, "wb") as file:
        torch.save(state, file) if torch else pickle.dump(state, file)


def _read(path: str) -> Any:
    with open(path, "rb") as file:
        if file.read(2) != b"PK":
            import pickle

            file.seek(0)
            return pickle.load(file)
    import torch

    with contextlib.suppress(TypeError):  # torch before 1.13 has no such argument
        return torch.load(path, map_location="cpu", weights_only=False)
    return torch.load(path, map_location="cpu")


# -------------------------------------------------------------------- this worker


class _Job:
    """What this process knows of its job, from its first call on."""

    def __init__(self) -> None:
        path = os.environ.get("RADRM_ELASTIC_SOCKET")
        if not path and int(os.environ.get("WORLD_SIZE") or 1) > 1:
            raise ElasticError("several workers need radrun: start the program by `radrun`")
        if path:  # radrun takes the signal, and asks all its workers at one step
            os.environ.pop("RADRM_CHECKPOINT_SIGNAL", None)
        self.report = _reporter()
        self.link: Any = _Radrun(path) if path else _Alone(self.report)
        self.first, self.pid = os.environ.get("ROLE_RANK", "0") == "0", os.getpid()
        self.step = 0
        self.total: int | None = None
        self.feeds: dict[str, _Feed] = {}
        self.piece: _Piece | None = None
        self.read: dict[str, Ranges] = {}
        self.hook: Callable[..., Any] | None = None
        self.loaded: dict[str, int] = {}  # samples of each dataset in the checkpoint that it loaded
        self.saved = time.monotonic()
        self.reported = self.saved - _REPORT_S
        self.waited = 0.0
        self.modules: list[str] | None = None
        self.loss: Any = None

    def end_step(self, loss: Any, total: int | None, every_s: float | None) -> bool:
        self.step += 1
        self.link.poll()
        piece, now = self.piece, time.monotonic()
        message: Message = {"do": "step", "step": self.step, "read": self.read}
        self.read, self.piece, self.loss = {}, None, loss
        self.total = total or self.total
        if self.first and (now - self.reported >= _REPORT_S or (piece and piece.last)):
            waited = min(1.0, self.waited / max(now - self.reported, 1e-9))
            loss = _number(loss)
            message.update(total=self.total, loss=loss, data_wait=waited)
            self.reported, self.waited = now, 0.0
        if self.first and self.modules is None:
            self.modules = message["modules"] = _modules()
        if self.first and every_s is not None and now - self.saved >= every_s:
            self.saved = now
            self.link.tell({"do": "ask-save"})
        seen, asks = self.link.held, bool(piece and piece.asks)
        answer = {}
        if seen or asks or isinstance(self.link, _Alone):
            answer = self.link.ask({**message, "seen": seen, "ask": asks})
            self.link.held = seen and not (answer.get("save") or answer.get("over"))
        else:
            self.link.tell(message)
        return bool(answer.get("save") or answer.get("last") or (piece and piece.last))

    def write(self, identity: str, step: int, state: Any, write: Callable[..., Any]) -> Message:
        """Write a checkpoint: the model, then the state of the shards, then the model's name."""
        path = os.path.join(_folder(), f"elastic-{identity}")
        draft = os.path.join(_folder(), f".elastic-{identity}")
        try:
            os.makedirs(_folder(), exist_ok=True)
            write(state() if callable(state) else state, draft)
            self.link.ask({"do": "store", "id": identity})
            _put(draft, path)
        except BaseException as error:
            with contextlib.suppress(OSError):
                _remove(draft)
            with contextlib.suppress(ElasticError):
                self.link.ask({"do": "saved", "id": identity, "error": str(error)[:300]})
            raise
        if self.report:
            self.report.saved(step, self.total, loss=_number(self.loss))
        keep = _checkpoints()[:_KEPT]
        for name in os.listdir(_folder()):
            found = _FILE.fullmatch(name.lstrip("."))
            if found and (name[0] == "." or found[1] not in keep):
                _remove(os.path.join(_folder(), name))
        answer: Message = self.link.ask({"do": "saved", "id": identity, "keep": keep})
        return answer


_the_job: _Job | None = None


def _job() -> _Job:
    global _the_job
    if _the_job is None:
        _the_job = _Job()
    if _the_job.pid != os.getpid():
        raise ElasticError("a forked process cannot read the data of its job; use elastic.loader()")
    return _the_job


def _reporter() -> Any:
    """The Reporter of this job's `report.py`; None outside radrm."""
    import importlib.util  # late: each command of a wing imports this file

    path = os.environ.get("RADRM_REPORT_PY")
    spec = importlib.util.spec_from_file_location("radrm_report", path) if path else None
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Reporter()


def _number(value: Any) -> float | None:
    """A loss as a number: for a tensor this waits for its GPU, so it is done twice a second."""
    try:
        return float(value.detach() if hasattr(value, "detach") else value)
    except (TypeError, ValueError, RuntimeError):
        return None


def _say(text: str) -> None:
    if os.environ.get("RANK", "0") == "0":
        print(f"radrm elastic: {text}", file=sys.stderr, flush=True)


def _modules() -> list[str]:
    """The modules that this program has loaded: whole packages, then parts, the latest first."""
    found, length = [], 0
    names = [name for name in reversed(list(sys.modules)) if name.isascii() and name[:1] != "_"]
    for name in sorted(names, key=lambda name: "." in name):
        length += len(name) + 6
        if length < LONGEST_LINE * 3 // 4:
            found.append(name)
    return found


# -------------------------------------------------------------------- data


class _Piece:
    """What one batch is made of. `ends`: a step ends with it; `last`: nothing is left after it."""

    def __init__(self, indices: list[int], weight: float, epoch: int, read: Ranges) -> None:
        self.indices, self.weight, self.epoch, self.read = indices, weight, epoch, read
        self.ends, self.last, self.asks = True, False, False


class ShardedDataset:
    """A dataset (`len(dataset)`, `dataset[i]`) that is read `epochs` times, in an order by `seed`.

    With a seed of None the order is the dataset's. `shard` samples are leased at a time to an
    asynchronous worker. `name` names its state in checkpoints. It is an IterableDataset if torch
    is loaded: `for sample in data` leases shards; what was given is consumed at the next `step`.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        torch = sys.modules.get("torch.utils.data")
        if torch is not None and not issubclass(cls, torch.IterableDataset):
            cls = type(cls.__name__, (cls, torch.IterableDataset), {})
        return object.__new__(cls)

    def __init__(
        self, dataset: Any, epochs: int = 1, shard: int = 256, seed: int | None = 0,
        name: str = "train",
    ) -> None:  # fmt: skip
        self.dataset, self.epochs, self.shard, self.seed = dataset, epochs, shard, seed
        self.name, self.epoch = name, 0
        self._order: tuple[int, Order | None] = (-1, None)

    def indices(self, first: int, last: int) -> list[int]:
        """The dataset's indices at the positions from `first` to before `last`."""
        found, samples = [], len(self.dataset)
        for position in range(first, last):
            epoch, place = divmod(position, samples)
            if self._order[0] != epoch:
                self._order = (epoch, Order(samples, self.seed, epoch))
            assert self._order[1] is not None
            found.append(self._order[1][place])
        return found

    def __iter__(self) -> Iterator[Any]:
        for (sample,) in loader(self, batch=1, collate_fn=list, num_workers=0):
            yield sample


class _Feed:
    """The pieces of one dataset that this worker has been dealt and not yet given out."""

    def __init__(self, data: ShardedDataset, way: str, batch: int, micro: int | None) -> None:
        self.data, self.way, self.batch, self.micro = data, way, batch, micro
        self._samples = len(data.dataset)
        self.queue: deque[_Piece] = deque()
        self._number = 0
        terms = {"samples": self._samples, "shard": data.shard, "epochs": data.epochs}
        asked = {"do": "open", "dataset": data.name, "way": way, "batch": batch, "seed": data.seed}
        _job().link.ask({**asked, **terms})

    def deal(self, wait: bool) -> list[_Piece]:
        """Take the next round or shard. None is left if it is empty (and `wait`)."""
        job, name = _job(), self.data.name
        if self.way == "rounds":
            asked = {"do": "round", "number": self._number, "batch": self.batch}
        else:
            asked = {"do": "take", "wait": wait}
            if wait:  # the server counts all that it gave as consumed
                job.read.pop(name, None)
        part = job.link.ask({**asked, "dataset": name})
        if part.get("leave"):
            raise SystemExit(0)
        self._number += 1
        found: list[_Piece] = []
        if self.way == "rounds" and "round" in part:
            found = self._slice(part)
        elif self.way == "shards" and "shard" in part:
            for first, last in part["shard"]:
                for at in range(first, last, self.batch):
                    end = min(last, at + self.batch)
                    indices = self.data.indices(at, end)
                    found.append(_Piece(indices, 1.0, at // self._samples, [[at, end]]))
            found[-1].asks, found[-1].last = True, part.get("last", False)
        self.queue.extend(found)
        return found

    def _slice(self, part: Message) -> list[_Piece]:
        """The pieces of a round: as many on every rank, also where samples are too few."""
        indices = [i for first, last in part["slice"] for i in self.data.indices(first, last)]
        most = -(-part["samples"] // part["world"])
        count = -(-most // self.micro) if self.micro else 1
        first = part["round"][0][0]
        found = []
        for i in range(count):
            mine = indices[len(indices) * i // count : len(indices) * (i + 1) // count]
            weight = part["world"] * len(mine) / part["samples"]
            mine = mine or self.data.indices(first, first + 1)
            found.append(_Piece(mine, weight, first // self._samples, []))
            found[-1].ends = False
        found[-1].ends, found[-1].read, found[-1].last = True, part["round"], part["last"]
        return found

    def plan(self, workers: int | None) -> Iterator[list[int]]:
        """The indices of all batches, until nothing is left or the number of CPUs changes."""
        for piece in list(self.queue):
            yield piece.indices
        while workers is None or workers == _loaders():
            found = self.deal(wait=False)
            if not found:
                return
            for piece in found:
                yield piece.indices

    def give(self) -> None:
        """The first piece is the one that the program trains on now."""
        job, piece = _job(), self.queue.popleft()
        job.piece, self.data.epoch = piece, piece.epoch
        job.read[self.data.name] = [*job.read.get(self.data.name, []), *piece.read]
        if self.way == "rounds" and job.total is None:
            job.total = -(-self._samples // self.batch) * self.data.epochs


def loader(
    data: ShardedDataset,
    global_batch: int | None = None,
    micro_batch: int | None = None,
    batch: int | None = None,
    **options: Any,
) -> Iterator[Any]:
    """Yield the batches of this worker; call `step` after each.

    `global_batch`: samples of a step of all ranks together. `micro_batch`: at most so many at a
    time on this rank; a step then has several batches, and ends after that of `last_part()`.
    `batch`, instead: the samples of a batch of an asynchronous worker. `options` are those of
    torch's DataLoader; without `num_workers` it has one process per CPU but one, and follows
    changes of `cpus()`. Without torch, a batch is a list, or what `collate_fn` makes of it.
    """
    if (global_batch is None) == (batch is None):
        raise ElasticError("give loader() either global_batch (synchronous) or batch")
    for name, value in (
        ("global_batch", global_batch),
        ("micro_batch", micro_batch),
        ("batch", batch),
    ):
        if value is not None and (type(value) is not int or value < 1):
            raise ElasticError(f"{name} must be a whole number from 1, not {value!r}")
    job, way = _job(), "shards" if global_batch is None else "rounds"
    feed = job.feeds.get(data.name)
    if feed is None or feed.data is not data:
        feed = job.feeds[data.name] = _Feed(data, way, global_batch or batch or 1, micro_batch)
        samples = len(data.dataset) * data.epochs
        if 0 < samples <= job.loaded.get(data.name, 0):
            _say(f"nothing is left to do: all {samples} samples of '{data.name}' are read")
    while feed.queue or feed.deal(wait=True):
        fixed = options.get("num_workers")
        batches = _batches(feed, None if fixed is not None else _loaders(), dict(options))
        while True:
            before = time.monotonic()
            found = next(batches, None)
            job.waited += time.monotonic() - before
            if found is None:
                break
            feed.give()
            yield found[0]


def _batches(feed: _Feed, workers: int | None, options: Message) -> Iterator[tuple[Any]]:
    """The batches of the planned indices, each in a tuple."""
    torch = sys.modules.get("torch.utils.data")
    if torch is None:
        collate = options.get("collate_fn") or list
        for indices in feed.plan(None):
            yield (collate([feed.data.dataset[i] for i in indices]),)
        return
    if workers is not None:
        options["num_workers"] = workers
    for found in torch.DataLoader(feed.data.dataset, batch_sampler=_Plan(feed, workers), **options):
        yield (found,)


class _Plan:
    """What torch's DataLoader calls a batch sampler."""

    def __init__(self, feed: _Feed, workers: int | None) -> None:
        self._feed, self._workers = feed, workers

    def __iter__(self) -> Iterator[list[int]]:
        return self._feed.plan(self._workers)


def _loaders() -> int:
    """Processes that load data: the CPUs but one, which trains."""
    return max(0, min(_MOST_LOADERS, int(cpus()) - 1))


# -------------------------------------------------------------------- for the program


def weight() -> float:
    """What to multiply a batch's mean loss by, so that the mean over ranks is that of all samples.

    Ranks' parts of a round, and micro-batches, can differ by a sample. It is 0 for a sample that
    only fills a place. Asynchronous workers have 1.
    """
    piece = _job().piece
    return 1.0 if piece is None else piece.weight


def last_part() -> bool:
    """Whether the batch is the last of its step: now call `optimizer.step()`."""
    piece = _job().piece
    return piece is None or piece.ends


def step(loss: Any = None, total: int | None = None, every_s: float | None = 600.0) -> bool:
    """Report that a step is done, and return whether to call `save` now.

    True comes at the same step on all ranks: when the job is to be stopped, resized or saved; every
    `every_s` seconds (None: never); and after the last step. In the middle of a step of several
    micro-batches it does nothing. `total` is the number of all steps, if not that of the loader.
    """
    return last_part() and _job().end_step(loss, total, every_s)


def save(state: Any, write: Callable[[Any, str], Any] | None = None) -> None:
    """Save a checkpoint of the model and the data as one, in `$RADRM_CHECKPOINT_DIR`.

    Call it on all ranks; the first writes. `state` may be a function that returns it, called only
    where it is written. `write(state, path)` makes a file or folder, if not torch.save or pickle.
    The newest two are kept. If the job is to stop, this does not return: the process ends with 0.
    Raises OSError, ElasticError.
    """
    job = _job()
    answer = job.link.ask({"do": "save", "newest": next(iter(_checkpoints()), None)})
    if "write" in answer:
        answer = job.write(answer["write"], answer["step"], state, write or _write)
    job.saved = time.monotonic()
    if answer.get("leave"):
        raise SystemExit(0)


def load(read: Callable[[str], Any] | None = None) -> Any:
    """Return the state of the last checkpoint, and go back to its data; None if there is none.

    Call it on all ranks, before the loop. `read(path)` is the reverse of `save`'s `write`. One that
    cannot be read is left out, with a line on stderr: the one before is taken.
    """
    job = _job()
    for identity in _checkpoints():
        try:
            state = (read or _read)(os.path.join(_folder(), f"elastic-{identity}"))
            answer = job.link.ask({"do": "restore", "id": identity})
        except ElasticError:
            raise
        except Exception as error:
            answer = {"unusable": f"{type(error).__name__}: {error}"}
        if "unusable" in answer:
            text = f"radrm elastic: checkpoint {identity} is left out: {answer['unusable']}"
            print(text, file=sys.stderr)
            continue
        job.step, job.loaded = answer["step"], answer.get("samples", {})
        if "RADRM_JOB_ID" not in os.environ:
            where, number = os.path.abspath(_folder()), sum(job.loaded.values())
            _say(f"continues from {where} at sample {number}; remove it to begin anew")
        if job.hook is not None:
            place, count = (int(os.environ.get(f"ROLE_{key}") or d) for key, d in _PLACE)
            job.hook(state, place, count)
        return state
    job.step = job.link.ask({"do": "restore", "id": None})["step"]
    return None


_PLACE = (("RANK", 0), ("WORLD_SIZE", 1))


def on_load(hook: Callable[[Any, int, int], Any]) -> None:
    """Say that this program loads checkpoints of any number of tasks of its role.

    `load` calls `hook(state, number, count)`: this is task `number` of `count` now. The number of
    parameter servers can change only if their program has such a hook: it divides the parameters.
    """
    _job().hook = hook
    _job().link.ask({"do": "hook"})


def cpus() -> float:
    """The CPUs that this worker has now."""
    given = _job().link.cpus or float(os.environ.get("RADRM_CPUS") or 0)
    return float(given or len(os.sched_getaffinity(0)))
