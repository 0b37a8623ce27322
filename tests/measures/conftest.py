"""Fixtures that tests of several folders share."""

from outcome_fixtures import made  # noqa: F401
