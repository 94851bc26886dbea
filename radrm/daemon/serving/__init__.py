"""The socket: connections, requests in turn, answers as bytes.

The files, in the order in which they may import one another:
    replies  answers as bytes, and how many of them are held for slow readers
    rates    limits of the requests a second
    slots    limits of the connections
    server   the socket: clients and their requests
    turns    the requests under way, in pieces, fair over users
    in_line  long questions one at a time, so that they need the memory of one
"""
