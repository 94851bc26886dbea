"""Orders: which waiting job is next? One class per file, registered below."""

ORDERS = {
    "fifo": "radrm.orders.fifo:Fifo",
}
