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
from radrm.progress_bars import STEPS, Bar, Course, Epochs

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
    """Finds the progress in lines, by a pattern or, for None, in the usual forms.

    `epochs`: what the files of one job tell of epochs: one may tell those of another's bars.
    """

    def __init__(self, pattern: re.Pattern[str] | None, epochs: Epochs | None = None) -> None:
        self._pattern = pattern
        self._course = Course(epochs or Epochs())
        self._total: float | None = None
        """The total of steps that a line of its own has told."""

    def find(self, line: str) -> dict[str, float]:
        """Return what a line tells, by key; empty if it tells nothing. A `total` of 0: unknown."""
        if self._pattern is None:
            return self._usual(line)
        found = self._pattern.search(line)
        groups = found.groupdict() if found else {}
        return _numbers({key: groups.get(key) for key in KEYS})

    def _usual(self, line: str) -> dict[str, float]:
        line = _COLOUR.sub("", line)
        named = _named(line)
        found = _EPOCH.search(line) or _EPOCH_ALONE.search(line)
        epoch = None if found is None else (float(found[1]), float(found[2]) if found[2] else None)
        bar = _BAR.search(line)
        if bar is not None:
            label = line[: bar.start()].rstrip(" :")
            of = _EPOCH_LABEL.search(label) if epoch is None else None
            epoch = epoch if of is None else (float(of[1]), None)
            above, short = line.count("\x1b[A", bar.end()), _DIGITS.sub("", label)[-_LABEL:]
            its = Bar(above, short, _scaled(bar[3], bar[4]))
            return named | self._course.at(its, _scaled(bar[1], bar[2]), epoch)
        keras = _KERAS.search(line)
        if keras is not None and (found is None or found.end() <= keras.start(1)):
            return named | self._course.at(Bar(0, "", float(keras[2])), float(keras[1]), epoch)
        if "step" in named:
            step, total = named.pop("step"), named.pop("total", self._total)
            return named | self._course.at(Bar(0, STEPS, total), step, epoch)
        self._total = named.get("total", self._total)
        if epoch is not None:
            self._course.begin_epoch(*epoch)
            return {"epoch": epoch[0]} | named
        return named


_AMOUNT = r"(\d{1,15}(?:\.\d{1,6})?)([kMGT]?)"
_BAR = re.compile(rf"\d{{1,3}}%\|[^|]{{0,400}}\|\s{{0,8}}{_AMOUNT}/{_AMOUNT}\s{{0,8}}\[")
"""tqdm: ` 62%|██████▏   | 62/100 [00:10<00:06, 6.1it/s, loss=0.31]`."""
_KERAS = re.compile(r"(?:^|\s)(\d{1,15})/(\d{1,15})\s{1,8}(?:[━─╸╺╶ ]{0,80}[━─]|\[[=>.]{0,80}\])")
"""Keras: `62/100 ━━━━━━━━━━ 3s 5ms/step - loss: 0.31`, and ` 62/100 [===>....] - ETA: 3s`."""
_EPOCH = re.compile(r"\bepoch\s{0,4}[:=\[]?\s{0,4}(\d{1,9})\s{0,4}/\s{0,4}(\d{1,9})", re.IGNORECASE)
_EPOCH_ALONE = re.compile(r"^\W{0,40}epoch\s{0,4}[:#]?\s{0,4}(\d{1,9})()\W{0,40}$", re.IGNORECASE)
_EPOCH_LABEL = re.compile(r"\bepoch\s{0,4}[:#\[]?\s{0,4}(\d{1,9})\b", re.IGNORECASE)
_COLOUR = re.compile(r"\x1b\[[\d;]{0,20}m")
"""Keras 3 colours its bars in files, too."""
_DIGITS = re.compile(r"\d")
_LABEL = 80
"""The last characters of a bar's label that count."""
_NUMBER = r"([-+]?(?:\d{1,30}\.?\d{0,30}|\.\d{1,30})(?:[eE][-+]?\d{1,4})?)"
_NAMED = re.compile(
    r"(?<![\w.])(?:['\"])?(global_step|step|iteration|iter|total_steps|max_steps|total|epoch"
    rf"|train_loss|loss|work_done)(?:['\"])?\s{{0,4}}(?:[=:]|\s)\s{{0,8}}{_NUMBER}"
    r"(?:\s{0,2}/\s{0,8}(\d{1,15}))?(?![\w.])",
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
