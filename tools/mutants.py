"""Break the decisions of the core on purpose, and list what no test notices: `make mutants`.

    python -m tools.mutants [--count N] [--seed S] [--minutes M] [--only WORD] [--jobs J]

cosmic-ray makes the mutants: one operator, constant or condition is another one. A mutant stays in
the sample of its seed as long as its line does. Each is made in a copy of the tree, and has to make
the tests of the core or of the contract fail. The exit code is 1 if one survives that is not in
`EQUIVALENT`, or if the tests fail without any.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from queue import Queue
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).parents[1]
CORE = "radrm/core"
TESTS = ("tests/core", "tests/contract")
PYTEST = (sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider")
FAST = ("-m", "not daemon and not nightly")

_NO_DECISIONS = {"__init__.py", "settings.py", "units.py", "words.py"}
"""Lists, amounts, and what is only shown."""
_NEEDLESS = ("_BitOr_", "RemoveDecorator", "ExceptionReplacer", "Variable")
"""Words of operators whose mutants are no decisions: `int | None`, decorators, names."""

_VERDICTS = {True: "FAIL", False: "ok  ", None: "slow"}
"""Of tests that have no end with a mutant: most loop. On a busy machine it proves nothing."""

EQUIVALENT: dict[tuple[str, str], str] = {}
"""Mutants that decide the same, with the reason: (file below `radrm/core`, the mutated line)."""


class Mutant:
    """One change of one line."""

    def __init__(self, file: str, line: int, old: str, new: str, text: str) -> None:
        self.file, self.line, self.old, self.new = file, line, old.strip(), new.strip()
        self.text = text
        """The whole file with it."""

    def __str__(self) -> str:
        return f"{CORE}/{self.file}:{self.line}\n    - {self.old}\n    + {self.new}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants")
    parser.add_argument("--count", type=int, default=150, help="how many mutants are tried")
    parser.add_argument("--seed", default="1", help="another sample")
    parser.add_argument("--minutes", type=float, default=45.0, help="none begins later")
    parser.add_argument("--only", default="", metavar="WORD", help="files whose path has it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at a time")
    args = parser.parse_args()
    begun_s = time.monotonic()
    survived = tried = 0
    with tempfile.TemporaryDirectory(prefix="radrm-mutants-") as folder:
        copies: Queue[Path] = Queue()
        for number in range(args.jobs):
            copies.put(_copy(Path(folder) / str(number)))
        copy = copies.get()
        if _passes(copy, limit_s=None) is not True:
            print("FAIL  the tests fail without any mutant")
            return 1
        limit_s = 60.0 + 2.0 * (time.monotonic() - begun_s)
        copies.put(copy)

        def verdict(mutant: Mutant) -> str:
            if time.monotonic() - begun_s > args.minutes * 60:
                return ""
            place = copies.get()
            file = place / CORE / mutant.file
            sound = file.read_text()
            try:
                file.write_text(mutant.text)
                return _VERDICTS[_passes(place, limit_s)]
            finally:
                file.write_text(sound)
                copies.put(place)

        mutants = list(sample(args.seed, args.count, args.only))
        with ThreadPoolExecutor(args.jobs) as pool:
            for mutant, said in zip(mutants, pool.map(verdict, mutants), strict=True):
                tried += said != ""
                survived += said == _VERDICTS[True]
                if said:
                    print(f"{said}  {mutant}", flush=True)
    print(
        f"seed {args.seed}: {tried} of {len(mutants)} tried, {survived} survived,"
        f" {(time.monotonic() - begun_s) / 60:.0f} minutes"
    )
    return 1 if survived or not tried else 0


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
        nodes = list(ast_nodes(get_ast(text)))
        for name in operator_names():
            if any(word in name for word in _NEEDLESS):
                continue
            operator = get_operator(name)()
            positions = (start for node in nodes for start, _ in operator.mutation_positions(node))
            for occurrence, start in enumerate(positions):
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
            return Mutant(file, number, before, after, new)
    return None


def _copy(folder: Path) -> Path:
    caches = shutil.ignore_patterns("__pycache__")
    folder.mkdir()
    for path in ROOT.iterdir():
        if path.is_dir() and not path.name.startswith("."):
            shutil.copytree(path, folder / path.name, ignore=caches)
        elif path.is_file():
            shutil.copy(path, folder)
    return folder


def _passes(copy: Path, limit_s: float | None) -> bool | None:
    """Whether the tests pass there; None if they have no end in time."""
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [*PYTEST, *FAST, *TESTS]
    with Popen(command, cwd=copy, env=environment, stdout=DEVNULL, stderr=PIPE) as process:
        try:
            process.communicate(timeout=limit_s)
        except TimeoutExpired:
            process.kill()
            process.communicate()
            return None
        return process.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
