"""Layer 1: the JSON documents that radrm's commands answer, each field declared once.

Theory of operation. A document is a frozen `msgspec.Struct`. A field's name has its unit, its type
says what values it takes, and the text below it says what it means. All else is made from that:
the daemon fills these types and encodes them, `radrm.Client` returns them, `status --format` knows
their fields, agents read their words, and `tools/json_reference.py` makes the JSON Schema and the
page.

A field that repeats one of the job's record says so in its type (`OfSpec`, `OfJob`), and its value
follows: such a field is added here alone. The daemon computes the others (`daemon/views/`).

A field without a default is always there; null means unknown. A field with a default is absent
while it has that value: it is unknown, empty, zero or no. So a job has only the fields that say
something of it. Clients read documents as plain objects (`job.get("comment")`), because the
commands of every day must not wait for `msgspec`.

A list of things is a list at the top. One thing, or a report, is an object. A wing declares the
documents of its own commands in a file `documents`, in the same way.

The files, in the order in which they may import one another:
    base     what a document is, and the words that fields take
    jobs     jobs, and what commands do to them
    server   GPUs, reservations, limits, MPS, health, settings, estimates
    reports  use and energy in a time, and past jobs
    answers  which document each command answers
"""
