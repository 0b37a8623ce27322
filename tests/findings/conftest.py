"""Fixtures that tests of several folders share."""

from fixtures_judge import scene  # noqa: F401
