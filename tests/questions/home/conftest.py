"""Fixtures that tests of several folders share."""

from fixtures_lab import bells, logs  # noqa: F401
