"""Fixtures that tests of several folders share."""

from fixtures_decide import made  # noqa: F401
