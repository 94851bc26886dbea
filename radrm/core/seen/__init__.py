"""What can be seen of the state: as records, and as plain data for another process.

The files, in the order in which they may import one another:
    devices  a device with its jobs, as a record
    ledgers  a ledger as plain data, and the ledger that is made from it
    states   the state as plain data, and the state that is made from it
"""
