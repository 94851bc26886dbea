"""What jobs report while they run: their datagrams, and the sockets that take them.

The files, in the order in which they may import one another:
    reports   what a datagram says, and the last value of each key
    receiver  one socket for each attempt
"""
