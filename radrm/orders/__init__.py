"""Orders: which waiting job is next? One class per file, registered below."""

ORDERS = {
    "fifo": "radrm.orders.fifo:Fifo",
    "shortest": "radrm.orders.shortest:Shortest",
    "smallest-work": "radrm.orders.smallest_work:SmallestWork",
}
