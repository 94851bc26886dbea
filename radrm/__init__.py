"""radrm: a resource manager for shared GPU servers.

The layers, from the ground up; imports go down, or to earlier files of a folder:
    0  errors, light_json, spellings, structs, toml, core, tracer, report, in_jobs, wings, extras
    1  documents, progress_bars, progress_lines, jobfile, last_words, oom, excuses, hints, config
    1  interference, deadlines, simulated
    1  orders, policies, planners, estimators, recovery, rules
    2  wiring
    3  host
    4  daemon
    5  client
    6  pages, api
    7  cli, __main__
    8  agents, elastic, lab, metrics, published, slurm, top, web

Those of the last line are *wings*: the server runs without any of them (`wings.py`).
"""

__version__ = "0.3.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.api.client import Client as Client
    from radrm.api.executor import Executor as Executor
    from radrm.api.records import JobFailed as JobFailed

_PROGRAMS = {
    "Client": "radrm.api.client",
    "Executor": "radrm.api.executor",
    "JobFailed": "radrm.api.records",
}
"""What programs import from here, and where it is: `import radrm` imports none of it."""


def __getattr__(name: str) -> object:
    """Import what programs use, once they name it."""
    if name not in _PROGRAMS:
        raise AttributeError(f"module 'radrm' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PROGRAMS[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *_PROGRAMS]
