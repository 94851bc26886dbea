"""What clients may ask and order: one file for each kind of answer.

The files, in the order in which they may import one another:
    chosen         which jobs an order is about
    questions      what anybody may ask
    followers      which jobs can never start once others are cancelled
    device_orders  what may be ordered about devices and MPS
    orders         what people may order
    requests       the protocol's words, and who answers each
"""
