"""Layer 7: the web page of `radrm serve`. It needs the extra `web`.

The files, in the order in which they may import one another:
    sessions       links that work once, and the sessions that they begin
    guard          host, session and headers of every request
    asking         questions to the daemon, each asked once
    commands       the commands of the page
    memory_curves  the memory of running jobs over time
    logs           the end of a job's log, with the rights of this process
    rendering      the templates, and what they use
    live           server-sent events: one gathering for all viewers
    views          what the pages show
    app            the addresses
    serving        listen, print the link, serve
"""
