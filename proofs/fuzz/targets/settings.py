"""What administrators and commands write: the configuration, `--set`, `--gpus`."""

from __future__ import annotations

from proofs.fuzz.judging import Target
from radrm.config import contradictions, examine_config, resolved, with_set
from radrm.config.checks import parse_table
from radrm.config.shapes import Config
from radrm.deadlines import UTC, make_costs
from radrm.simulated.spec import parse as parse_spec
from radrm.wiring import make_rules

_FULL = """
goal = "sharing"
policy = "magm"
order = "fair"
planner = ["strict", "elastic"]
estimator = "auto"
collocation = "auto"

[policies.sharing]
max_smact = 0.8

[core]
grace_s = 50

[gpus]
order = ["a100", 0]

[mps]
enabled = [0, "GPU-1a2b3c4d"]

[readings]
dcgm_exporter = "http://127.0.0.1:9400/metrics"

[unmanaged]
action = "warn"

[node]
cpus = 8
memory = "64G"

[energy]
currency = "EUR"
price = { "00:00" = 0.18, "06:00" = 0.31 }
node_watts = { V100 = [530, 700] }

[slots]
length_s = 43200

[deadlines]
cost_per_hour = 2.5
"""


def _config(text: str) -> None:
    found = examine_config(text, "radrm.toml")
    for line in found.errors:
        assert len(line.splitlines()) == 1 and line.isprintable() and len(line) <= 500, line
    config = resolved(found.accepted())
    assert parse_table(config.to_table(), "again").to_table() == config.to_table()
    list(contradictions(config))
    make_rules(config, UTC)
    make_costs(config, UTC)


def _set(text: str) -> None:
    with_set(Config(), text)


TARGETS = (
    Target("configuration", (_FULL, 'policy = "auto"\n[core]\nsettle_s = 30.5\n'), _config),
    Target(
        "set",
        (
            *("policies.sharing.max_smact=0.9", "planner=strict+elastic", "mps.enabled=true"),
            *('readings.dcgm_exporter="http://localhost:9400/metrics"', "energy.currency=EUR"),
            'energy.node_watts={ V100 = [530, 700], "a b" = [1] }',
        ),
        _set,
    ),
    Target(
        "gpus-spec",
        (
            "sim:4xA100-40GB",
            "sim:2xA6000-48GB,1xV100-32GB",
            "sim:1xA100-40GB:3g.20gb+2g.10gb,unmanaged@0=8000",
        ),
        parse_spec,
    ),
)
