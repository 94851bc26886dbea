"""Devices that are reserved for users, or for nobody: `radrm reserve`.

Theory of operation
-------------------
A reservation names devices, users, and two dates. From the first to the second date only jobs of
these users may use the devices. A job of another user may start there before only if it ends in
time: by its time limit; without one, by the upper bound of its predicted run time; without both,
never. So a device drains by itself. What still runs at the start runs on, or is preempted where the
reservation says so.

`barred.refuse_reserved` is one rule of `constraints/fit.py`, so it holds for every placement.
Planners that look ahead see `barred.claims_of_others`. `barred.classify` is part of a waiting
job's need (`state/queue/waiting.py`): a job that lacks devices because they are reserved stands
aside, and nobody waits behind it. A planner that keeps an order may start the first job of a
reservation's users (`course.first_of`) there before the head of the line, which may not use the
device.

Invariants:
- No two reservations have a device at the same time.
- No job of another user starts on a device while it is reserved, and none that must end later than
  a reservation begins. Only a predicted run time can be exceeded.
- A user's own reservations are within the limits, and end when nobody uses them.

What may interleave: a device may vanish and return; a reservation names it by its UUID. The clock
may be set: the dates count, as they were written. A reservation that is over stays for a day of
time since boot, so that a clock that was wrong for an hour ends none.

What a restart sees: the reservations. All else is made again.

The files, in the order in which they may import one another:
    barred  which devices a job cannot use, and until when
    making  what may be reserved, and by whom
    course  how reservations begin and end
"""
