"""radrm on other servers, by ssh: no daemon and no port beside what is there.

The files, in the order in which they may import one another:
    ssh    the command line of ssh, and `radrm -H HOST COMMAND`
    hosts  `radrm status --hosts A,B`
"""
