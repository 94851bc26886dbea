"""The requests to the simulated driver, who may make them, and their answers.

A request is one JSON object on one line, `{"op": "alloc", "mib": 2000}`; its answer is one line.
An answer with `error` gives the reason of a refusal in words. `oom` and `lost` mark the two
refusals that a program must handle. `driver.py` has the sockets.
"""

from __future__ import annotations

import os
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from radrm.host.clock import Clock
from radrm.host.sockets import Peer
from radrm.simulated.model import DeviceLost, Model, ModelError, Reader

Answer: TypeAlias = "dict[str, Any]"

Mib = Annotated[int, Meta(ge=0, le=1 << 40)]
Text = Annotated[str, Meta(max_length=16384)]


class BadRequest(Exception):
    """A line that is not a request. Its client gets an error and is disconnected."""


class _Request(msgspec.Struct, tag_field="op", tag=str.lower):
    pass


class Hello(_Request):
    """The driver's process, spec and clock."""


class Devices(_Request):
    """The devices, as `nvidia-smi -L` would list them."""


class Attach(_Request):
    """Become a context on the first `gpus` visible devices."""

    gpus: Annotated[int, Meta(ge=1, le=256)]
    smact: Annotated[float, Meta(ge=0, le=1)]
    visible: Text | None = None
    family: Text | None = None
    batch_size: Annotated[int, Meta(ge=1, le=1 << 40)] | None = None
    mps: bool = False
    cap_mib: Mib | None = None


class Alloc(_Request):
    """Allocate memory on each of the context's devices."""

    mib: Mib


class Free(_Request):
    """Free memory on each of the context's devices."""

    mib: Mib


class Start(_Request):
    """Start the context's work."""


class Work(_Request):
    """The solo seconds that the context has computed."""


class Read(_Request):
    """A reading of each device."""

    uuids: Annotated[list[Text], Meta(max_length=256)]


class Fail(_Request):
    """Let a device fail. Only the driver's user and root may."""

    uuid: Text
    message: Annotated[str, Meta(min_length=1, max_length=1000)]


class Heal(_Request):
    """Repair a device. Only the driver's user and root may."""

    uuid: Text


class Quit(_Request):
    """End the driver, unless jobs are attached. Only the driver's user and root may."""


_DECODER = msgspec.json.Decoder(
    Hello | Devices | Attach | Alloc | Free | Start | Work | Read | Fail | Heal | Quit
)


class Service:
    """Answers requests with a model. `quitting` is true after an accepted quit request."""

    def __init__(self, model: Model, clock: Clock, spec: str) -> None:
        self.quitting = False
        self._model = model
        self._clock = clock
        self._spec = spec

    def answer(self, key: int, peer: Peer, reader: Reader, line: bytes) -> Answer:
        """The answer to one line of one client. Raises BadRequest if it is not a request."""
        try:
            request = _DECODER.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadRequest(f"not a request: {error}") from None
        try:
            return self._act(key, peer, reader, request)
        except DeviceLost as error:
            return {"error": str(error), "lost": True}
        except ModelError as error:
            return {"error": str(error)}

    def forget(self, key: int) -> None:
        """Free the memory of a client whose connection has ended."""
        self._model.detach(key, self._now_s())

    def _act(self, key: int, peer: Peer, reader: Reader, request: object) -> Answer:
        model = self._model
        match request:
            case Hello():
                return self._hello()
            case Devices():
                return {"devices": [m.device for m in model.devices.values()]}
            case Attach():
                wanted = msgspec.structs.asdict(request)
                return {"devices": model.attach(key, peer.pid, **wanted)}
            case Alloc(mib=mib):
                refused = model.alloc(key, mib)
                if refused is None:
                    return {}
                return {"error": "out of memory", "oom": refused}
            case Free(mib=mib):
                model.free(key, mib)
            case Start():
                model.start(key, self._now_s())
            case Work():
                done_s, speed = model.work(key, self._now_s())
                return {"done_s": done_s, "speed": speed}
            case Read(uuids=uuids):
                readings = model.read(uuids, reader, self._now_s())
                return {"readings": readings}
            case Fail(uuid=uuid, message=message):
                self._check_owner(peer)
                model.fail(uuid, message, self._now_s())
            case Heal(uuid=uuid):
                self._check_owner(peer)
                model.heal(uuid, self._now_s())
            case Quit():
                self._check_owner(peer)
                if model.contexts:
                    raise ModelError(f"{len(model.contexts)} job(s) are on these devices")
                self.quitting = True
        return {}

    def _hello(self) -> Answer:
        return {
            "pid": os.getpid(),
            "spec": self._spec,
            "scale": self._clock.scale,
            "anchor_boot_s": self._clock.anchor_boot_s,
            "anchor_wall_s": self._clock.anchor_wall_s,
            "jobs": len(self._model.contexts),
        }

    def _check_owner(self, peer: Peer) -> None:
        if peer.uid not in (0, os.geteuid()):
            raise ModelError(f"user {peer.uid} may not do this: only root and the driver's user")

    def _now_s(self) -> float:
        return self._clock.now().boot_s
