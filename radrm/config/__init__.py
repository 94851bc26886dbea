"""Layer 1: the configuration, from TOML text to a checked `Config`.

The files, in the order in which they may import one another:
    values     checks of single values
    shapes     the settings: their meaning, defaults and checks
    goals      the rules that `auto` means
    checks     reads TOML, finds contradictory settings
    reading    finds and reads the file, changes one setting for `--set`
"""

from radrm.config.checks import Examined, contradictions, examine_config, parse_config, parse_table
from radrm.config.goals import AUTO, GOALS, goals_with, of_goal, resolved
from radrm.config.reading import (
    ConfigFile,
    config_path,
    find_config,
    load_config,
    read_config,
    with_set,
)
from radrm.config.shapes import (
    NO_LIMITS,
    NOBODY,
    CheckpointConfig,
    Config,
    DeadlinesConfig,
    EnergyConfig,
    EstimationConfig,
    GpusConfig,
    IdleConfig,
    LimitsConfig,
    MpsConfig,
    NodeConfig,
    NotifyConfig,
    ProgressConfig,
    ReadingsConfig,
    RetentionConfig,
    RuleTables,
    SlotsConfig,
    SlurmConfig,
    UnmanagedConfig,
    UserLimits,
    limits_of,
    spool_room,
    with_limits,
)
from radrm.config.values import Table, shown

__all__ = [
    "AUTO",
    "GOALS",
    "NOBODY",
    "NO_LIMITS",
    "CheckpointConfig",
    "Config",
    "ConfigFile",
    "DeadlinesConfig",
    "EnergyConfig",
    "EstimationConfig",
    "Examined",
    "GpusConfig",
    "IdleConfig",
    "LimitsConfig",
    "MpsConfig",
    "NodeConfig",
    "NotifyConfig",
    "ProgressConfig",
    "ReadingsConfig",
    "RetentionConfig",
    "RuleTables",
    "SlotsConfig",
    "SlurmConfig",
    "Table",
    "UnmanagedConfig",
    "UserLimits",
    "config_path",
    "contradictions",
    "examine_config",
    "find_config",
    "goals_with",
    "limits_of",
    "load_config",
    "of_goal",
    "parse_config",
    "parse_table",
    "read_config",
    "resolved",
    "shown",
    "spool_room",
    "with_limits",
    "with_set",
]
