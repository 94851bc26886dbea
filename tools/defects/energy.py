"""Defects of energy: its division, its book and its costs."""

from __future__ import annotations

from tools.defects.mutant import Mutant

_METER = "state/energy.py"
_BOOK = "../host/storage/energy.py"
_COSTS = "../deadlines/costs.py"
_ACTIVITY = "../host/gpus/nvml/gpus.py"

MUTANTS = (
    Mutant(
        "all energy is divided by activity, also idle power",
        _METER,
        "part_j = idle_j / len(here) + above_j * weight",
        "part_j = joules * weight",
    ),
    Mutant(
        "an unknown activity is none",
        _METER,
        "unknown = None in shown",
        "unknown = False",
    ),
    Mutant(
        "what is booked ahead counts twice",
        _METER,
        "            joules -= self._ahead_j\n",
        "            joules -= 0.0\n",
    ),
    Mutant(
        "what is booked beyond the counter is not taken back",
        _METER,
        "self._over_j = max(0.0, -joules)",
        "self._over_j = 0.0",
    ),
    Mutant(
        "the energy of a failed reading goes to who is there afterwards",
        _METER,
        "            self._read_s = None  # nobody will know whose energy it was\n",
        "            pass\n",
    ),
    Mutant(
        "unmanaged processes are idle power",
        _METER,
        "if quiet and not self._holdings",
        "if not self._holdings",
    ),
    Mutant(
        "idle power of 0 W",
        _METER,
        "if power_w is not None and power_w >= LEAST_IDLE_W:",
        "if power_w is not None:",
    ),
    Mutant(
        "energy is reported twice",
        _METER,
        "        self._parts, self._seconds = {}, 0.0\n        return found",
        "        return found",
    ),
    Mutant(
        "a drained device forgets its idle power",
        "state/state.py",
        "DeviceStatus(uuid, reason, self.idle_w.get(uuid))",
        "DeviceStatus(uuid, reason)",
    ),
    Mutant(
        "energy is written again with each transaction",
        _BOOK,
        "        self._waiting.clear()\n",
        "",
    ),
    Mutant(
        "an interval counts in its last hour only",
        _BOOK,
        "or hour_s == self.hour_of(until_s) or",
        "or True or",
    ),
    Mutant(
        "hours are those of UTC",
        _BOOK,
        "return int(wall_s - self.zone.local_s(wall_s) % HOUR_S)",
        "return int(wall_s - wall_s % HOUR_S)",
    ),
    Mutant(
        "energy that was not written is forgotten",
        "../host/storage/store.py",
        "            self._volatile = volatile\n            self._note_energy(decisions)\n",
        "            self._volatile = volatile\n",
    ),
    Mutant(
        "idle energy is left out of the total",
        "../daemon/answers/energy.py",
        "        self.total.add(row, self.costs)\n        self.equally_j += row.equally_j\n",
        "        if row.job_id is not None:\n            self.total.add(row, self.costs)\n"
        "        self.equally_j += row.equally_j\n",
    ),
    Mutant(
        "a change of price within an interval is not seen",
        _COSTS,
        "until_s = min(end_s, self.price_changes_s(at_s))",
        "until_s = end_s",
    ),
    Mutant(
        "prices change at midnight of UTC",
        _COSTS,
        "return min(wall_s + midnight_s + next_s - local_s, self.zone.next_change_s(wall_s))",
        "return min(wall_s - wall_s % _DAY_S + next_s, self.zone.next_change_s(wall_s))",
    ),
    Mutant(
        "summer time does not change prices",
        _COSTS,
        "return min(wall_s + midnight_s + next_s - local_s, self.zone.next_change_s(wall_s))",
        "return wall_s + midnight_s + next_s - local_s",
    ),
    Mutant(
        "samples from before the first call count",
        _ACTIVITY,
        "if since_us is None and samples:",
        "if False:",
    ),
    Mutant(
        "an MPS server's work is nobody's and its clients are idle",
        _ACTIVITY,
        "elif _is_mps_server(pid):",
        "elif False:",
    ),
)
