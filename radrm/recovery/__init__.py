"""An attempt died of GPU out-of-memory: what now? One rule per file, named here once."""

RECOVERIES = {
    "exclusive": "radrm.recovery.exclusive:OwnDevice",
    "none": "radrm.recovery.none:NoRecovery",
}
