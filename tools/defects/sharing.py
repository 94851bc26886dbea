"""Defects of how jobs share a GPU: memory caps, SM shares, failures that may pass, and SM activity
on other kinds of GPU."""

from __future__ import annotations

from tools.defects.mutant import Mutant

_CAPS = "lifecycle/memory/caps.py"
_SHARING = "constraints/sharing.py"
_RETURNING = "lifecycle/returning.py"
_ESTIMATES = "records/estimates.py"

MUTANTS = (
    Mutant(
        "a cap takes what others have reserved",
        _CAPS,
        "return least if room is None else int(max(least, min(most, room)))",
        "return least if room is None else int(max(least, min(most, 2**30)))",
    ),
    Mutant(
        "a cap is below the reservation",
        _CAPS,
        "int(max(least, min(most, room)))",
        "int(min(most, room))",
    ),
    Mutant(
        "a declared size is a hard cap",
        _CAPS,
        "                limit = inf\n",
        "                limit = reserved\n",
    ),
    Mutant(
        "RADRM_GPU_MEMORY_MIB names the cap and not the declared size",
        _CAPS,
        "    return min([cap_mib, *sizes])",
        "    return cap_mib",
    ),
    Mutant(
        "a declared size has no margin",
        "planning/assembly.py",
        "    return need + max(0, min(job.margin_mib(need), (offer.free_mib or 0) - need))",
        "    return need",
    ),
    Mutant(
        "time-sliced jobs join while another user is next",
        "constraints/sharing.py",
        "        return refuse_for_turn(state, job, ledger) if others else None",
        "        return None",
    ),
    Mutant(
        "nobody is next where jobs may be time-sliced beside clients",
        "constraints/turns.py",
        "        mode_on(state, job, role, ledger, empty=True) is Collocation.MPS",
        "        False",
    ),
    Mutant(
        "a cap grows beyond its limit",
        _CAPS,
        "wanted = 2 * present if limit is None else min(2 * present, limit)",
        "wanted = 2 * present",
    ),
    Mutant(
        "failures that may pass are without end",
        _RETURNING,
        "    if number > most:\n        return False\n",
        "",
    ),
    Mutant(
        "a failure that may pass costs a retry",
        _RETURNING,
        '{"passing_used": number, "setbacks": 0}',
        '{"passing_used": number, "retries_used": job.retries_used + 1}',
    ),
    Mutant(
        "clients of a server with a fault run together again for ever",
        _RETURNING,
        "if fault and number + 1 > most and",
        "if fault and number > most and",
    ),
    Mutant(
        "MPS clients book more than a GPU",
        _SHARING,
        "if wanted <= left + _ROUNDING:",
        "if wanted <= 1.0:",
    ),
    Mutant(
        "a job that is no client books SMs",
        _SHARING,
        "if wanted is None or mode is not Collocation.MPS:",
        "if wanted is None:",
    ),
    Mutant(
        "a planner gives more SMs than the job declares",
        _SHARING,
        "fraction = most if fraction is None else min(fraction, most)",
        "fraction = most if fraction is None else fraction",
    ),
    Mutant(
        "SM activity is scaled the wrong way",
        _ESTIMATES,
        "scale, upper = self.chip.sm_rate / chip.sm_rate,",
        "scale, upper = chip.sm_rate / self.chip.sm_rate,",
    ),
    Mutant(
        "the upper bound shrinks on a larger GPU",
        _ESTIMATES,
        "min(1.0, max(upper, upper * scale))",
        "min(1.0, upper * scale)",
    ),
)
