"""The socket: connections, requests in turn, answers as bytes.

The files, in the order in which they may import one another:
    replies  answers as bytes, and how many of them are held for slow readers
    slots    limits of the connections, and of requests a second
    server   the socket: clients and their requests
    turns    requests under way in pieces, fair over users; long questions in line
"""
