"""Fixtures that tests of several folders share."""

from fixtures_lab import logs, samples  # noqa: F401
