"""Fixtures that tests of several folders share."""

from log_fixtures import logs, samples, segments  # noqa: F401
