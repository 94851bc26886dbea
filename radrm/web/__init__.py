"""Layer 8: the web page of `radrm serve`. It needs the extra `web`.

The files, in the order in which they may import one another:
    guard          links that work once, sessions, host and headers of every request
    asking         questions to the daemon, each asked once, and the commands of the page
    memory_curves  the memory of running jobs over time
    logs           the end of a job's log, with the rights of this process
    rendering      the templates, and what they use
    live           server-sent events: one gathering for all viewers
    views          what the pages show
    app            the addresses
    serving        listen, print the link, serve
    command  `radrm serve`
    wing     what it adds to radrm
"""
