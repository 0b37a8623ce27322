"""Fixtures that tests of several folders share."""

from log_fixtures import logs  # noqa: F401
