"""Fixtures that tests of several folders share."""

from fixtures_lab import logs  # noqa: F401
