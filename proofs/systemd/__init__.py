"""radrm as a service of a real systemd: process 1 of a machine in namespaces.

    make systemd    (root, Debian's packages systemd and util-linux, overlayfs, cgroup v2; a minute)

    run         prepares the machine, waits for its report, removes what is left
    machine.sh  makes a machine of namespaces, on an overlay of this one, and starts systemd in it
    steps       what happens there: install, a job, a daemon that hangs, a restart, uninstall

The overlay takes all writes, and the network, process and cgroup namespaces keep the rest apart.
"""
