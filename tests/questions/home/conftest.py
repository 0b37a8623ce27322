"""Fixtures that tests of several folders share."""

from log_fixtures import bells, logs  # noqa: F401
