"""Orders: which waiting job is next? One class per file, registered below."""

ORDERS = {
    "due": "radrm.orders.due:Due",
    "fair": "radrm.orders.fair:Fair",
    "fifo": "radrm.orders.fifo:Fifo",
    "latest-start": "radrm.orders.latest_start:LatestStart",
    "shortest": "radrm.orders.shortest:Shortest",
    "smallest-work": "radrm.orders.smallest_work:SmallestWork",
    "weight": "radrm.orders.weight:Weight",
}
