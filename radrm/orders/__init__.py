"""Which waiting job next? One rule per file; a rule is a class, named here once."""

ORDERS = {
    "fifo": "radrm.orders.fifo:Fifo",
}
