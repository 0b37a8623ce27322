"""Fixtures that tests of several folders share."""

from log_fixtures import logs, samples  # noqa: F401
