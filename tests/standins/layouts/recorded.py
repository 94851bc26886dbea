"""What radrm asks an NVML library and gets, written down and played again.

`Recorder` stands in the place of the module `pynvml`, passes calls on and notes the first answer
to each. `Player` stands there later and gives the same answers; a call that was not noted fails
as with a driver that lacks the function. The JSON files beside this one are recordings, each of
a whole server; `record` makes them.

A recording is JSON: `system` has the answers of calls without a GPU, `every` those that all GPUs
give alike, `gpus` what each gives besides. A call is written as its function and arguments, with
other GPUs as `gpu2`. An answer is `{"is": VALUE}` or `{"error": NUMBER}`.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml

LAYOUTS = Path(__file__).parent

Answer = dict[str, Any]
Answers = dict[str, Answer]

_BY_INDEX, _BY_UUID = "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetHandleByUUID"
_INSTANCE = "nvmlDeviceGetMigDeviceHandleByIndex"
_SAMPLE, _METRICS = "nvmlGpmSampleGet", "nvmlGpmMetricsGet"
_OBJECTS = {"nvmlGpmSampleAlloc": "c_nvmlGpmSample_t", "nvmlEventSetCreate": "c_nvmlEventSet_t"}
"""Functions whose result is an object of the driver, which no recording can hold."""
_NOT_SUPPORTED, _NO_FUNCTION = 3, 13
_WORDS = (int, float, str, list)
"""Arguments that are written; others are objects of the driver, or room for its answer."""
_TIMES = ("timestamp", "latencyUsec")
"""Fields that differ from one GPU and one recording to the next, and that radrm does not read."""


def layouts() -> list[str]:
    """The names of the recordings."""
    return sorted(file.stem for file in LAYOUTS.glob("*.json"))


class _InPlaceOfPynvml:
    """Its functions are `_call`; all else is `pynvml`'s own."""

    def __getattr__(self, name: str) -> Any:
        own = getattr(pynvml, name)
        if not name.startswith("nvml") or not callable(own):
            return own
        return lambda *given, **named: self._call(name, *given, **named)

    def _call(self, name: str, *given: Any, **named: Any) -> Any:
        raise NotImplementedError


# ------------------------------------------------------------------ recording


class Recorder(_InPlaceOfPynvml):
    """Passes calls on to `pynvml`, and keeps the first answer to each."""

    def __init__(self) -> None:
        self.system: Answers = {}
        self.gpus: dict[int, Answers] = {}
        self._handles: dict[int, int] = {}
        """The index of each GPU, by its handle's address; MIG instances from 100 on."""
        self._samples: dict[int, int] = {}
        """The index of the GPU that a sample was taken of, by the sample's address."""

    def text(self) -> str:
        """The recording as JSON, a call a line."""
        document = self.document()
        system, every = _lines(document["system"], 1), _lines(document["every"], 1)
        gpus = ",\n".join(f"  {_lines(gpu, 2)}" for gpu in document["gpus"])
        return f'{{\n "system": {system},\n "every": {every},\n "gpus": [\n{gpus}\n ]\n}}\n'

    def document(self) -> dict[str, Any]:
        gpus = [self.gpus[index] for index in sorted(self.gpus)]
        every = {
            call: answer
            for call, answer in gpus[0].items()
            if all(gpu.get(call) == answer for gpu in gpus)
        }
        rest = [{c: a for c, a in gpu.items() if c not in every} for gpu in gpus]
        return {"system": self.system, "every": every, "gpus": rest}

    def _call(self, name: str, *given: Any, **named: Any) -> Any:
        index = self._of(name, given)
        answers = self.system if index is None else self.gpus.setdefault(index, {})
        rest = given if index is None else given[1:]
        call = _written(name, [self._word(word) for word in rest], named)
        try:
            found = getattr(pynvml, name)(*given, **named)
        except pynvml.NVMLError as error:
            answers.setdefault(call, {"error": error.value})
            raise
        if name == _BY_INDEX:
            self._handles[_address(found)] = given[0]
        if name == _INSTANCE and index is not None:
            self._handles[_address(found)] = 100 * (index + 1) + given[1]
        if name == _SAMPLE and index is not None:
            self._samples[_address(given[1])] = index
        if name == _METRICS:
            for metric in found.metrics[: found.numMetrics]:
                values = {"is": [metric.nvmlReturn, metric.value]}
                answers.setdefault(_written(name, [metric.metricId], {}), values)
        elif name not in (*_OBJECTS, _BY_INDEX, _BY_UUID, _INSTANCE):
            answers.setdefault(call, {"is": _plain(found)})
        return found

    def _of(self, name: str, given: tuple[Any, ...]) -> int | None:
        """The index of the GPU that a call is about."""
        if name == _METRICS:
            return self._samples[_address(given[0].sample1)]
        return self._handles.get(_address(given[0])) if given else None

    def _word(self, value: Any) -> Any:
        if isinstance(value, _WORDS):
            return value
        index = self._handles.get(_address(value))
        return None if index is None else f"gpu{index}"


def _address(value: Any) -> int:
    """The address that a pointer holds; 0 for what is no pointer."""
    return ctypes.cast(value, ctypes.c_void_p).value or 0 if _is_pointer(value) else 0


def _is_pointer(value: Any) -> bool:
    return isinstance(value, (ctypes.c_void_p, ctypes._Pointer))


def _written(name: str, given: Iterable[Any], named: Mapping[str, Any]) -> str:
    """A call in one line, without the GPU that it is about; None is an object of the driver."""
    words = [str(word) for word in given if word is not None]
    words += [f"{key}={value}" for key, value in named.items()]
    return " ".join([name, *words])


def _plain(value: Any) -> Any:
    """The same as JSON; structures and unions as objects, an object of the driver as nothing."""
    if _is_pointer(value):
        return None
    if isinstance(value, (ctypes.Structure, ctypes.Union, pynvml.nvmlFriendlyObject)):
        names = getattr(value, "_fields_", None) or [(name,) for name in vars(value)]
        found = {name: getattr(value, name) for name, *_ in names if name not in _TIMES}
        return {name: _plain(each) for name, each in found.items() if not _is_pointer(each)}
    if isinstance(value, (list, tuple, ctypes.Array)):
        return [_plain(each) for each in value]
    return value.decode() if isinstance(value, bytes) else value


def _lines(answers: Answers, depth: int) -> str:
    if not answers:
        return "{}"
    inner, edge = " " * (depth + 1), " " * depth
    calls = [f"{inner}{json.dumps(call)}: {json.dumps(answers[call])}" for call in sorted(answers)]
    return "{\n" + ",\n".join(calls) + f"\n{edge}}}"


# ------------------------------------------------------------------ playing


class Player(_InPlaceOfPynvml):
    """Answers as a recording says."""

    def __init__(self, layout: str) -> None:
        self.document: dict[str, Any] = json.loads((LAYOUTS / f"{layout}.json").read_text())
        every = self.document["every"]
        self.gpus: list[Answers] = [{**every, **gpu} for gpu in self.document["gpus"]]
        self._uuids = [gpu["nvmlDeviceGetUUID"]["is"] for gpu in self.gpus]
        self._objects = 0
        self._samples: dict[int, int] = {}

    def _call(self, name: str, *given: Any, **named: Any) -> Any:
        if name == _BY_INDEX:
            known = given[0] < len(self.gpus)
            return _Gpu(given[0]) if known else _fail(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        if name == _BY_UUID:
            known = given[0] in self._uuids
            if not known:
                _fail(pynvml.NVML_ERROR_NOT_FOUND)
            return _Gpu(self._uuids.index(given[0]))
        if name in _OBJECTS:
            self._objects += 1
            return ctypes.cast(self._objects, getattr(pynvml, _OBJECTS[name]))
        if name == _METRICS:
            return self._metrics(given[0])
        about = given[0].index if given and isinstance(given[0], _Gpu) else None
        if name == _SAMPLE and about is not None:
            self._samples[_address(given[1])] = about
        answers = self.document["system"] if about is None else self.gpus[about]
        rest = given if about is None else given[1:]
        return _answer(answers, _written(name, map(_played, rest), named))

    def _metrics(self, request: Any) -> Any:
        answers = self.gpus[self._samples[_address(request.sample1)]]
        for metric in request.metrics[: request.numMetrics]:
            call = f"{_METRICS} {metric.metricId}"
            found = _answer(answers, call) if call in answers else (_NOT_SUPPORTED, 0.0)
            metric.nvmlReturn, metric.value = found
        return request


class _Gpu:
    """A handle."""

    def __init__(self, index: int) -> None:
        self.index = index


def _played(value: Any) -> Any:
    if isinstance(value, _Gpu):
        return f"gpu{value.index}"
    return value if isinstance(value, _WORDS) else None


def _answer(answers: Answers, call: str) -> Any:
    found = answers.get(call, {"error": _NO_FUNCTION})
    return _fail(found["error"]) if "error" in found else _objects(found["is"])


def _fail(number: int) -> Any:
    raise pynvml.NVMLError(number)


def _objects(value: Any) -> Any:
    """JSON as `pynvml` returns it."""
    if isinstance(value, dict):
        return SimpleNamespace(**{name: _objects(each) for name, each in value.items()})
    return [_objects(each) for each in value] if isinstance(value, list) else value
