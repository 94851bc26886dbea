"""The socket: connections, requests in turn, answers as bytes.

The files, in the order in which they may import one another:
    slots    connections and their limits, also of requests a second
    replies  answers as bytes, and how many of them are held for slow readers
    server   the socket: clients and their requests
    turns    requests under way in pieces, fair over users; long questions in line
"""
