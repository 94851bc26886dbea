"""The wheel, the sources and the Debian package, and the files of CI.

The files:
    test_wheel  what is in the wheel and the sources (in the suite)
    test_ci     the files of CI (in the suite)
    installed   `make package-test`: the wheel in a new environment, with a daemon and a job
    deb         `make deb-test`: lintian, then the package in a machine with a real systemd
    deb_steps   what happens there: install, a job, an upgrade, a removal, a purge
"""
