"""The use of devices by attempts, from readings."""

from __future__ import annotations

from radrm.core.lifecycle.asking import stop
from radrm.core.lifecycle.launching import start_when_read
from radrm.core.lifecycle.memory import raise_cap
from radrm.core.records import Attempt, Reading
from radrm.core.state.readings import merged
from radrm.core.state.state import State
from radrm.core.words import DeviceKind, ReservationKind, StopReason


def take_reading(state: State, reading: Reading) -> None:
    """Save the measured use of a device's attempts, and correct their reservations."""
    ledger = state.ledgers.get(reading.device)
    if ledger is None or ledger.vanished:  # a reading of before that
        return
    changed = ledger.take(reading)
    state.turns = None
    used, idle_w = ledger.energy.drain(reading), ledger.energy.news()
    if used is not None:
        state.step.energy.append(used)
    if idle_w is not None:
        state.put_idle_power(reading.device, idle_w)
    for holding in changed:
        attempt = state.live_attempt(holding.job_id, holding.serial)
        if attempt is None:
            continue
        state.put_usage(attempt, merged(attempt.usage, (holding.usage(reading.device),)))
        other = ledger.corrected(holding)
        if other is not None and attempt.target is None:
            state.reserve(other)
    if ledger.device.caps:
        raise_cap(state, ledger)
    for each in ledger.reserved.every():
        if each.kind is ReservationKind.MIGRATION and each.job_id in state.jobs:
            start_when_read(state, state.jobs[each.job_id])


def take_steps(state: State, attempt: Attempt, steps: float) -> None:
    """Note how many optimizer steps an attempt says it has done: its memory may have settled."""
    for uuid in attempt.placement.devices:
        ledger = state.ledgers.get(uuid)
        if ledger is not None:
            ledger.step(attempt.job_id, steps, state.step.now.boot_s)


def end_on_vanished(state: State) -> None:
    """Stop the attempts on vanished MIG instances as lost. A vanished GPU may return."""
    for ledger in [le for le in state.ledgers.values() if le.vanished]:
        if ledger.device.kind is not DeviceKind.MIG:
            continue
        for holding in list(ledger.holdings.values()):
            attempt = state.live_attempt(holding.job_id, holding.serial)
            if attempt is None:
                continue
            reason = f"its device {ledger.device.profile or ledger.device.name} has vanished"
            stop(state, state.jobs[holding.job_id], attempt, StopReason.LOST, reason)
