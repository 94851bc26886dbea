"""The host of the launcher's tests."""

from tests.host.attempts.conftest import host

__all__ = ["host"]
