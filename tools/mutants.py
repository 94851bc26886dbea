"""Break the decisions of the core on purpose, and list what no test notices: `make mutants`.

    python -m tools.mutants [--count N] [--seed S] [--minutes M] [--only WORD] [--jobs J]

cosmic-ray makes the mutants: one operator, constant or condition is another one. A mutant stays in
the sample of its seed as long as its line does. Each has to make a test of the core or of the
contract fail. The exit code is 1 if one survives that is not in `EQUIVALENT`, or if the tests fail
without any.

First, all tests run without a mutant: once while coverage tells which of them run which line, and
once in the order of their time. Then one process imports the core and collects the tests, once.
Each mutant is a fork of it in which the functions that it changes have their new code. There, only
the tests run that run its line: the fastest first, up to the first that fails. What also runs while
modules are imported (constants, defaults) is tried in a process that imports the changed file, with
all tests.

Each test may take many times the processor time that it takes without a mutant: one that takes
more loops for ever. A busy machine proves nothing: time that a process waits does not count.
"""

from __future__ import annotations

import argparse
import ast
import gc
import os
import resource
import signal
import sys
import tempfile
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import _lru_cache_wrapper, partial
from hashlib import sha256
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType

import coverage
import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from hypothesis import HealthCheck, Phase, settings

ROOT = Path(__file__).parents[1]
CORE = "radrm/core"
TESTS = ("tests/core", "tests/contract")
PYTEST = ("-q", "-s", "-n", "0", "-p", "no:cacheprovider", "-p", "no:warnings")
FAST = ("-m", "not daemon and not nightly")

_NO_DECISIONS = {"__init__.py", "settings.py", "units.py", "words.py"}
"""Lists, amounts, and what is only shown."""
_NEEDLESS = (
    *("_BitOr_", "RemoveDecorator", "ExceptionReplacer", "Variable"),
    *(
        "_Is_Eq",
        "_Is_Lt",
        "_Is_Gt",
        "_IsNot_NotEq",
        "_IsNot_Lt",
        "_IsNot_Gt",
        "_Eq_Is",
        "_NotEq_Is",
    ),
)
"""Words of operators whose mutants are no decisions: `int | None`, decorators (and their flags),
names; and what is the same for None, small numbers and members of an enumeration, or has no order.
"""

_LIMIT_S, _TIMES = 15, 15
"""A test's limit of processor time: these seconds, and so many times what it takes."""
_WALL_S = 1800
_MEMORY = 4 << 30
_BROKEN = 99
"""The exit code of a process whose mutant could not be made: a fault of this file."""

KILLED, SLOW, SURVIVED, STUCK, UNSEEN = "ok  ", "slow", "FAIL", "wait", "none"
"""What becomes of a mutant: a test fails; one loops, which counts as killed; none fails; one waits
for ever, which proves nothing; no test runs its line."""

EQUIVALENT: dict[tuple[str, str], str] = {
    ("constraints/offers.py", "_NEVER = - 2"): "no version is below 0",
    ("events.py", "number: int = 1"): "only tests leave it out: `ready` copies that of `Think`",
}
"""Mutants that decide the same, with the reason: (file below `radrm/core`, the mutated line)."""


class Mutant:
    """One change of one line."""

    def __init__(self, file: str, line: int, old: str, new: str, text: str, sound: str) -> None:
        self.file, self.line, self.old, self.new = file, line, old.strip(), new.strip()
        self.text, self.sound = text, sound
        """The whole file with it, and without."""

    def __str__(self) -> str:
        return f"{CORE}/{self.file}:{self.line}\n    - {self.old}\n    + {self.new}"

    @property
    def path(self) -> str:
        return str(ROOT / CORE / self.file)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants")
    parser.add_argument("--count", type=int, default=150, help="how many mutants are tried")
    parser.add_argument("--seed", default="1", help="another sample")
    parser.add_argument("--minutes", type=float, default=45.0, help="none begins later")
    parser.add_argument("--only", default="", metavar="WORD", help="files whose path has it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at a time")
    args = parser.parse_args()
    begun_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="radrm-mutants-") as folder:
        os.environ["PYTEST_DEBUG_TEMPROOT"] = folder
        measured = Path(folder) / "lines"
        _fork(lambda: _measured(measured))
        if _ended()[1] != SURVIVED:
            print("FAIL  the tests fail without any mutant")
            return 1
        lines = Lines(measured)
        _fork(lambda: _session(lambda items: _run(items, lines)))
        if _ended()[1] != SURVIVED:
            print("FAIL  the tests fail without any mutant in the order of their time")
            return 1
        print(f"tried without mutants in {time.monotonic() - begun_s:.0f} seconds", flush=True)
        trial = Trial(lines, args.jobs, begun_s + args.minutes * 60)
        others = trial.begin(sample(args.seed, args.count, args.only))
        code = _session(lambda items: trial.finish(others, items))
    said = trial.verdicts
    print(
        f"seed {args.seed}: {len(said)} tried, {said.count(KILLED)} killed, {said.count(SLOW)}"
        f" slow, {len(said) - said.count(KILLED) - said.count(SLOW)} survived,"
        f" {(time.monotonic() - begun_s) / 60:.1f} minutes"
    )
    return 0 if code == 0 and said and set(said) <= {KILLED, SLOW} else 1


# -------------------------------------------------------------------------------- mutants


def sample(seed: str, count: int, only: str) -> Iterator[Mutant]:
    """Places in the code, and one mutant of each: else arithmetic, which has ten, would be most."""

    def rank(*what: object) -> bytes:
        return sha256(repr((seed, what)).encode()).digest()

    files = {
        path.relative_to(ROOT / CORE).as_posix(): path.read_text()
        for path in sorted((ROOT / CORE).rglob("*.py"))
        if path.name not in _NO_DECISIONS and only in path.as_posix()
    }
    places: dict[tuple[str, tuple[int, int]], list[tuple[str, int]]] = defaultdict(list)
    for file, text in files.items():
        rows = text.splitlines()
        nodes = list(ast_nodes(get_ast(text)))
        for name in operator_names():
            if any(word in name for word in _NEEDLESS):
                continue
            operator = get_operator(name)()
            positions = (start for node in nodes for start, _ in operator.mutation_positions(node))
            for occurrence, start in enumerate(positions):
                if not rows[start[0] - 1].lstrip().startswith("@"):
                    places[file, start].append((name, occurrence))

    def rank_of_place(place: tuple[str, tuple[int, int]]) -> bytes:
        file, (line, column) = place
        return rank(file, files[file].splitlines()[line - 1], column)

    for file, start in sorted(places, key=rank_of_place):
        if not count:
            return
        name, occurrence = min(places[file, start], key=lambda made: rank(made[0]))
        text = mutate_code(files[file], get_operator(name)(), occurrence)
        mutant = _compared(file, files[file], text)
        if mutant is not None and (file, mutant.new) not in EQUIVALENT:
            count -= 1
            yield mutant


def _compared(file: str, old: str, new: str) -> Mutant | None:
    """Nothing, if the change does not compile."""
    try:
        compile(new, file, "exec", dont_inherit=True)
    except SyntaxError:
        return None
    lines = zip(old.splitlines(), new.splitlines(), strict=False)
    for number, (before, after) in enumerate(lines, start=1):
        if before != after:
            return Mutant(file, number, before, after, new, old)
    return None


def _changes(mutant: Mutant) -> Iterator[tuple[CodeType, CodeType]]:
    """The code of each function that it changes, before and after."""

    def inside(code: CodeType) -> list[CodeType]:
        return [each for each in code.co_consts if isinstance(each, CodeType)]

    texts = mutant.sound, mutant.text
    first, second = (compile(text, mutant.path, "exec", dont_inherit=True) for text in texts)
    pairs = [(first, second)]
    while pairs:
        old, new = pairs.pop()
        if old != new:
            yield old, new
            pairs += zip(inside(old), inside(new), strict=True)


def _place(code: CodeType) -> tuple[object, ...]:
    return code.co_filename, code.co_firstlineno, code.co_name, code.co_linetable


def _import(mutant: Mutant) -> None:
    """From now on, this process imports its file with the change."""
    sound = SourceFileLoader.get_code

    def changed(loader: SourceFileLoader, name: str) -> CodeType | None:
        if loader.path != mutant.path:
            return sound(loader, name)
        return compile(mutant.text, mutant.path, "exec", dont_inherit=True)

    setattr(SourceFileLoader, "get_code", changed)  # noqa: B010 (mypy forbids the other way)


# ---------------------------------------------------------------------------------- tests


class Lines:
    """Which test runs which line, and how long each takes."""

    def __init__(self, measured: Path) -> None:
        data = coverage.CoverageData(str(measured))
        data.read()
        self._tests = {file: data.contexts_by_lineno(file) for file in data.measured_files()}
        self.seconds: dict[str, float] = {}
        for row in measured.with_suffix(".seconds").read_text().splitlines():
            seconds, name = row.split(" ", 1)
            self.seconds[name] = float(seconds)

    def of(self, mutant: Mutant) -> set[str]:
        """The tests that run a line of its statement; '' if an import does."""
        begins = sorted(_begins(ast.parse(mutant.sound)))
        number = bisect_right(begins, mutant.line)
        first, end = begins[number - 1], [*begins, sys.maxsize][number]
        found = self._tests.get(mutant.path, {})
        return {test for line in found if first <= line < end for test in found[line]}


def _begins(tree: ast.Module) -> Iterator[int]:
    """The first line of each statement: the next one's is behind its last."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield min(each.lineno for each in (node, *node.decorator_list))
        elif isinstance(node, (ast.stmt, ast.excepthandler, ast.pattern)):
            yield node.lineno


class _Plugin:
    def __init__(self, loop: Callable[[list[pytest.Item]], None]) -> None:
        self._loop = loop

    def pytest_sessionstart(self) -> None:
        # It is enough that an example fails: the smallest one is not looked for. That a busy
        # machine makes examples slowly is no failure.
        settings.register_profile(
            "mutants",
            settings.get_profile("ours"),
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=list(HealthCheck),
        )
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if not session.testsfailed:
            self._loop(session.items)
        return not session.testsfailed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            print(report.nodeid, report.longreprtext)
            sys.stdout.flush()
            os._exit(1)


def _session(loop: Callable[[list[pytest.Item]], None]) -> int:
    """Collect the tests in this process, for `loop`."""
    return int(pytest.main([*PYTEST, *FAST, *TESTS], plugins=[_Plugin(loop)]))


def _run(items: Iterable[pytest.Item], lines: Lines) -> None:
    """Those tests, up to the first that fails, which ends the process."""
    ordered = sorted(items, key=lambda item: lines.seconds[item.nodeid])
    for item, following in zip(ordered, [*ordered[1:], None], strict=True):
        limit_s = time.process_time() + _LIMIT_S + _TIMES * lines.seconds[item.nodeid]
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit_s) + 1, resource.RLIM_INFINITY))
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)


def _measured(file: Path) -> int:
    """Write which test runs which line, and how long it takes."""
    told = coverage.Coverage(data_file=str(file), source=[str(ROOT / CORE)], config_file=False)
    told.start()
    return _session(lambda items: _measure(items, told, file))


def _measure(items: list[pytest.Item], told: coverage.Coverage, file: Path) -> None:
    gc.unfreeze()
    caches = [each for each in gc.get_objects() if isinstance(each, _lru_cache_wrapper)]
    with file.with_suffix(".seconds").open("w") as seconds:
        for item, following in zip(items, [*items[1:], None], strict=True):
            for cache in caches:
                cache.cache_clear()
            told.switch_context(item.nodeid)
            begun_s = time.process_time()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            seconds.write(f"{time.process_time() - begun_s:.4f} {item.nodeid}\n")
    told.stop()
    told.save()


# ------------------------------------------------------------------------------ processes


class Trial:
    """Tries mutants, some at a time, each in a process of its own."""

    def __init__(self, lines: Lines, jobs: int, until_s: float) -> None:
        self._lines, self._jobs, self._until_s = lines, jobs, until_s
        self._running: dict[int, Mutant] = {}
        self.verdicts: list[str] = []

    def begin(self, mutants: Iterable[Mutant]) -> list[Mutant]:
        """Try those that change an import or that no test runs, and return the others."""
        others = []
        for mutant in mutants:
            tests = self._lines.of(mutant)
            if not tests:
                self._say(mutant, UNSEEN)
            elif "" in tests:
                self._start(mutant, partial(self._imported, mutant))
            else:
                others.append(mutant)
        self._wait(0)
        return others

    def finish(self, mutants: Iterable[Mutant], items: list[pytest.Item]) -> None:
        gc.unfreeze()
        functions: dict[object, list[FunctionType]] = defaultdict(list)
        for each in gc.get_objects():
            if isinstance(each, FunctionType) and CORE in each.__code__.co_filename:
                functions[_place(each.__code__)].append(each)
        for mutant in mutants:
            self._start(mutant, partial(self._changed, mutant, items, functions))
        self._wait(0)

    def _imported(self, mutant: Mutant) -> int:
        _import(mutant)
        return _session(lambda items: _run(items, self._lines))

    def _changed(
        self, mutant: Mutant, items: list[pytest.Item], functions: dict[object, list[FunctionType]]
    ) -> None:
        found = [(f, new) for old, new in _changes(mutant) for f in functions.get(_place(old), ())]
        assert found, mutant
        for function, code in found:
            function.__code__ = code
        tests = self._lines.of(mutant)
        _run((item for item in items if item.nodeid in tests), self._lines)

    def _start(self, mutant: Mutant, work: Callable[[], object]) -> None:
        self._wait(self._jobs - 1)
        if time.monotonic() < self._until_s:
            self._running[_fork(work)] = mutant

    def _wait(self, most: int) -> None:
        """Until at most so many run."""
        while len(self._running) > most:
            pid, code = _ended()
            self._say(self._running.pop(pid), code)

    def _say(self, mutant: Mutant, verdict: str) -> None:
        self.verdicts.append(verdict)
        print(f"{verdict}  {mutant}", flush=True)


def _fork(work: Callable[[], object]) -> int:
    """The id of a new process, and of its group, that does this and ends with its exit code."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code: object = _BROKEN
    try:
        os.setpgid(0, 0)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        signal.alarm(_WALL_S)
        code = work()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code if isinstance(code, int) else 0)


def _ended() -> tuple[int, str]:
    """The next process that ends, and what its tests say."""
    pid, status = os.wait()
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(status)
    if code == _BROKEN:
        raise SystemExit("a mutant could not be made: see above")
    special = {0: SURVIVED, -signal.SIGXCPU: SLOW, -signal.SIGALRM: STUCK}
    return pid, special.get(code, KILLED)


if __name__ == "__main__":
    sys.exit(main())
