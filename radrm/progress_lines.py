"""Read the progress of a program from the lines that it prints.

A pattern has groups named after what it finds: `step total epoch loss work_done saved`. `AUTO`
stands for the usual forms: tqdm's bars, the lines of the Hugging Face Trainer, Keras' bars, and
`name=value`.

Any user may have written the pattern and the lines. `compiled` takes a bounded time, so it may run
in the daemon. A search may take for ever, so it belongs in a process of the user's.
"""

from __future__ import annotations

import codecs
import re
import warnings

from radrm.errors import message_of, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

AUTO = "auto"
KEYS = ("step", "total", "epoch", "loss", "work_done", "saved")

LONGEST_LINE = 16 * 1024
_LONGEST_PATTERN = 1024
_LINE_ENDS = re.compile(r"[\r\n]")
# Python looks at each character of a class to ignore case: at a million of them in a wide one.
_IGNORES_CASE = re.compile(r"\(\?[a-zA-Z]*i")
_WIDE = re.compile(r"[^\x00-\x7f]|\\[uUN]")


class Lines:
    """Splits a text that comes in pieces. Progress bars end lines by `\\r`.

    Characters beyond `LONGEST_LINE` of a line are dropped.
    """

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._rest = ""

    def feed(self, data: bytes) -> Iterator[str]:
        """Yield the lines that are complete with this piece."""
        *lines, rest = _LINE_ENDS.split(self._rest + self._decode(data))
        self._rest = rest[:LONGEST_LINE]
        for line in lines:
            yield line[:LONGEST_LINE]

    def rest(self) -> str:
        """Return the line that has not ended, and forget it."""
        found, self._rest = self._rest, ""
        return found


def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a regular expression. Raises `ValueError` with the reason, in a bounded time."""
    if len(pattern) > _LONGEST_PATTERN:
        raise ValueError(f"it has more than {_LONGEST_PATTERN} characters")
    if _IGNORES_CASE.search(pattern) and _WIDE.search(pattern):
        raise ValueError("(?i) goes with ASCII characters only; write them without \\u, \\U, \\N")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what another Python may read otherwise
            return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"it is no regular expression: {plain(message_of(error))}") from None


def progress_pattern(text: str) -> re.Pattern[str] | None:
    """Compile the value of `--progress-pattern`; None for `auto`. Raises `ValueError`."""
    if text == AUTO:
        return None
    pattern = compiled(text)
    if not set(KEYS) & set(pattern.groupindex):
        raise ValueError(f"it has no group (?P<NAME>...) with one of the names {', '.join(KEYS)}")
    return pattern


class Finder:
    """Finds the progress in lines, by a pattern or, for None, in the usual forms."""

    def __init__(self, pattern: re.Pattern[str] | None) -> None:
        self._pattern = pattern
        self._epochs: tuple[float, float] | None = None
        """The epoch and the number of epochs that a line of its own has told, as Keras does."""

    def find(self, line: str) -> dict[str, float]:
        """Return what a line tells, by key; empty if it tells nothing."""
        if self._pattern is None:
            return self._usual(line)
        found = self._pattern.search(line)
        groups = found.groupdict() if found else {}
        return _numbers({key: groups.get(key) for key in KEYS})

    def _usual(self, line: str) -> dict[str, float]:
        epoch = _EPOCH.search(line)
        if epoch is not None:
            number, of = float(epoch[1]), float(epoch[2])
            self._epochs = (number, of) if 0 < number <= of else None
            if _BAR.search(line) is None and _KERAS.search(line) is None:
                return {"epoch": number} | _named(line)
        bar = _BAR.search(line)
        if bar is not None:
            step, total = _scaled(bar[1], bar[2]), _scaled(bar[3], bar[4])
            within = self._epochs if epoch is not None else None
            return _named(line) | _whole(step, total, within)
        keras = _KERAS.search(line)
        if keras is not None:
            return _named(line) | _whole(float(keras[1]), float(keras[2]), self._epochs)
        return _named(line)


_AMOUNT = r"(\d{1,15}(?:\.\d{1,6})?)([kMGT]?)"
_BAR = re.compile(rf"\d%\|[^|]{{0,400}}\|\s{{0,8}}{_AMOUNT}/{_AMOUNT}\s{{0,8}}\[")
"""tqdm: ` 62%|██████▏   | 62/100 [00:10<00:06, 6.1it/s, loss=0.31]`."""
_KERAS = re.compile(r"(?:^|\s)(\d{1,15})/(\d{1,15})\s{1,8}(?:[━─╸╺╶ ]{0,80}[━─]|\[[=>.]{0,80}\])")
"""Keras: `62/100 ━━━━━━━━━━ 3s 5ms/step - loss: 0.31`, and ` 62/100 [===>....] - ETA: 3s`."""
_EPOCH = re.compile(r"\bepoch\s{0,4}[:=\[]?\s{0,4}(\d{1,9})\s{0,4}/\s{0,4}(\d{1,9})", re.IGNORECASE)
_NUMBER = r"([-+]?(?:\d{1,30}\.?\d{0,30}|\.\d{1,30})(?:[eE][-+]?\d{1,4})?)"
_NAMED = re.compile(
    r"(?<![\w.])(?:['\"])?(global_step|step|iteration|iter|total_steps|max_steps|total|epoch"
    rf"|train_loss|loss|work_done)(?:['\"])?\s{{0,4}}(?:[=:]|\s)\s{{0,4}}{_NUMBER}"
    r"(?:\s{0,2}/\s{0,2}(\d{1,15}))?(?![\w.])",
    re.IGNORECASE,
)
_MEANS = {
    **dict.fromkeys(("global_step", "step", "iteration", "iter"), "step"),
    **dict.fromkeys(("total_steps", "max_steps", "total"), "total"),
    **dict.fromkeys(("train_loss", "loss"), "loss"),
    "epoch": "epoch",
    "work_done": "work_done",
}
_TIMES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def _scaled(number: str, unit: str) -> float:
    return float(number) * _TIMES[unit]


def _whole(step: float, total: float, epochs: tuple[float, float] | None) -> dict[str, float]:
    """Return the progress of the whole job, from that of one of its epochs (from 1)."""
    if total <= 0 or step > total:
        return {}
    if epochs is None:
        return {"step": step, "total": total}
    epoch, of = epochs
    return {"step": (epoch - 1) * total + step, "total": of * total, "epoch": epoch}


def _named(line: str) -> dict[str, float]:
    """Return what `name=value`, `name: value`, `'name': value` and `name 3/10` tell."""
    found: dict[str, float] = {}
    for name, number, of in _NAMED.findall(line):
        key, value = _MEANS[name.lower()], float(number)
        if value - value == 0:  # 1e999 is no number
            found[key] = value
        if of and key == "step":
            found["total"] = float(of)
    return found


def _numbers(texts: dict[str, str | None]) -> dict[str, float]:
    found = {}
    for key, text in texts.items():
        try:
            found[key] = float(text) if text is not None else float("nan")
        except ValueError:  # the group has matched something else
            continue
    return {key: number for key, number in found.items() if number - number == 0}
